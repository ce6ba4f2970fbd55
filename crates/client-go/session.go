package holdfast

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// A session is one session of the client: its lease, its queue entries, and the count of its users. Guards and calls in
// progress are users. The session is renewed exactly while it has users, so the client renews nothing for finished work.
type session struct {
	client      *Client
	send        sender
	name        string
	incarnation int64
	// isOwn: the client generated the name, so no other client uses the session, and it ends with the client.
	isOwn    bool
	numbered *numberedCalls
	// ctx is cancelled with a LostError at the end of the session.
	ctx    context.Context
	cancel context.CancelCauseFunc
	// ending is cancelled with a LostError when every wait must end: at the end of the session, or when the client closes.
	ending   context.Context
	endWaits context.CancelCauseFunc
	// changed wakes the renewal, checked the watcher, and settled the close.
	changed, checked, settled chan struct{}

	mu          sync.Mutex
	lease       lease
	entries     []*entry
	users       int
	pending     int  // waits and releases in progress
	isAbandoned bool // the client does not use the session again
	isClosed    bool // the client has closed the session, or left it open
}

// openSession opens a session, and starts its renewal and its watcher.
func (c *Client) openSession(ctx context.Context, name string, isOwn bool, ttl time.Duration) (*session, error) {
	body, sent, err := c.calls.openSession(ctx, name, nextNumber(0), ttl, c.config.Labels)
	if newest, isOver := newestAttempt(err); isOver {
		// An earlier session of this name had a larger number.
		body, sent, err = c.calls.openSession(ctx, name, nextNumber(newest), ttl, c.config.Labels)
	}
	var unknown *OutcomeUnknownError
	if errors.As(err, &unknown) {
		// The call that needs the session was not sent. A session without a user ends after its time-to-live.
		return nil, &UnavailableError{unknown.Reason, unknown.Problem, unknown.retryAt}
	}
	if err != nil {
		return nil, err
	}
	s := &session{
		client: c, send: c.calls, name: name, incarnation: body.Incarnation, isOwn: isOwn, numbered: newNumberedCalls(),
		changed: make(chan struct{}, 1), checked: make(chan struct{}, 1), settled: make(chan struct{}, 1),
		lease: newLease(acknowledgement{sent, millis(body.ExpiresInMS)}, jitter()),
	}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	s.ending, s.endWaits = context.WithCancelCause(s.ctx)
	go s.watch()
	go s.renewWhileUsed(body.Revision)
	return s, nil
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (s *session) isAlive() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, lost := s.lease.check(now())
	return lost == nil
}

// enter adds a user, if the session is alive.
func (s *session) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, lost := s.lease.check(now()); lost != nil {
		return false
	}
	s.users++
	signal(s.changed)
	signal(s.checked)
	return true
}

// leave removes a user.
func (s *session) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.users--
	signal(s.changed)
}

// beginWait returns a context for the calls of one wait, and the function that ends the wait. The release of what a failed
// wait may have left begins before that.
func (s *session) beginWait(ctx context.Context) (context.Context, func()) {
	end := s.track()
	bounded, unbind := bind(ctx, s.ending)
	return bounded, func() {
		unbind()
		end()
	}
}

// bind returns a context that also ends with another one, with its cause.
func bind(ctx, other context.Context) (context.Context, func()) {
	bounded, cancel := context.WithCancelCause(ctx)
	unlink := context.AfterFunc(other, func() { cancel(context.Cause(other)) })
	return bounded, func() {
		unlink()
		cancel(nil)
	}
}

// track counts a wait or a release until the returned function is called.
func (s *session) track() func() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.pending--
		signal(s.settled)
	}
}

// abandon records that the client does not use the session again, and whether the caller closes it.
func (s *session) abandon(isClosed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.isAbandoned, s.isClosed = true, isClosed
	signal(s.changed)
}

func (s *session) acknowledge(a acknowledgement) *loss {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer signal(s.checked)
	return s.lease.acknowledge(a, jitter(), now())
}

// end ends the session for this client.
func (s *session) end(lost *loss) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lease.end(lost, now())
	signal(s.changed)
	signal(s.checked)
}

// endIfOver ends the session for this client if the cluster answered that the session has ended.
func (s *session) endIfOver(err error) {
	var lost *LostError
	if errors.As(err, &lost) {
		s.end(&loss{lost.Cause, lost.Reason})
	}
}

// isReplaceable reports whether the client opens another session after the end of this one.
func (s *session) isReplaceable() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.isOwn && !s.isClosed
}

// query returns the parameters that name an owner in this session. With the incarnation, no call opens an ended session
// again.
func (s *session) query(owner string) query {
	return query{}.with(paramSession, s.name).withNumber(paramIncarnation, s.incarnation).withText(paramOwner, owner)
}

// loss returns the error of a session that is over.
func (s *session) loss() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, lost := s.lease.check(now()); lost != nil {
		return &LostError{Cause: lost.cause, Reason: lost.reason}
	}
	return &LostError{Cause: CauseSessionEnded}
}

// check returns the earliest deadline of a hold, or its loss. The caller has locked the mutex.
func (s *session) check(e *entry, now moment) (moment, *loss) {
	limit, isLimited, lost := e.limits.check(now)
	if lost != nil {
		return 0, lost
	}
	deadline, lost := s.lease.check(now)
	if lost == nil && isLimited {
		deadline = min(deadline, limit)
	}
	return deadline, lost
}

func (s *session) add(entries []*entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entries = append(s.entries, entries...)
}

func (s *session) remove(entries []*entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entries = slices.DeleteFunc(s.entries, func(e *entry) bool { return slices.Contains(entries, e) })
}

// followUpgrade continues the guards of the hold with this ticket under the token of an upgrade by another guard or program of
// the owner. It reports whether a guard has the hold.
func (s *session) followUpgrade(lock string, ticket, token int64) (isHeld bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.entries {
		if !e.isOf(ticket) || !e.covers(lock) {
			continue
		}
		isHeld = true
		if e.stage == stageHeld {
			e.grant.Token = max(e.grant.Token, token)
		}
	}
	return isHeld
}

// followUpgrades follows each listed hold.
func (s *session) followUpgrades(listed []holdBody) {
	for _, hold := range listed {
		s.followUpgrade(hold.Lock, hold.Ticket, hold.Token)
	}
}

// loseEntry marks a hold as lost. The first loss stays.
func (s *session) loseEntry(e *entry, lost *loss) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.limits.lose(lost, now())
	signal(s.checked)
}

// isReported reports whether the loss of a hold was reported.
func (s *session) isReported(e *entry) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return e.isReported
}

func (s *session) startLeaving(entries []*entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range entries {
		e.stage = stageLeaving
	}
}

// release releases entries of one owner and one attempt. Entries with an uncertain outcome stay listed.
func (s *session) release(ctx context.Context, entries []*entry) error {
	defer s.track()()
	s.startLeaving(entries)
	err := s.send.deliver(ctx, releaseCall(s.name, entries)).decode(nil)
	if ctx.Err() == nil && !isUnclear(err) {
		s.remove(entries)
	}
	return err
}

// releaseInBackground releases entries until the outcome is certain.
func (s *session) releaseInBackground(entries []*entry) {
	s.startLeaving(entries)
	s.inBackground(func(ctx context.Context) error { return s.release(ctx, entries) }, func() { s.remove(entries) })
}

// inBackground repeats a release until its outcome is certain or the client is closed, and calls done. The end of a generated
// session ends its holds, so the repetition stops. A named session that this client did not renew may live in the cluster,
// because another program renews it. A copy of a release is harmless, however late it arrives.
func (s *session) inBackground(release func(context.Context) error, done func()) {
	end := s.track()
	go func() {
		defer end()
		defer done()
		ctx, pausable := s.client.ctx, s.client.ending
		for failures := 1; ; failures++ {
			err := release(ctx)
			if !isUnclear(err) || !s.isAlive() && s.isOwn || ctx.Err() != nil {
				return
			}
			if sleep(pausable, max(retryPause(failures), time.Until(retryAt(err)))) != nil {
				// Close waits for the release, so the next one is sent at once, and the pauses are short again.
				pausable, failures = ctx, 0
			}
		}
	}()
}

// watch cancels the contexts of lost guards, and the context of the session at its end. It compares the deadlines with the
// clock at least twice a second while the session has users, because timers stand still during a suspension.
func (s *session) watch() {
	timer := time.NewTimer(clockCheck)
	defer timer.Stop()
	for {
		next, isOver := s.reportLosses()
		if isOver {
			return
		}
		timer.Reset(next)
		select {
		case <-timer.C:
		case <-s.checked:
			if !timer.Stop() {
				select {
				case <-timer.C:
				default:
				}
			}
		}
	}
}

// reportLosses reports each new loss, and returns the time until the next check.
func (s *session) reportLosses() (time.Duration, bool) {
	type report struct {
		entry *entry
		loss  *loss
	}
	var reports []report
	s.mu.Lock()
	at := now()
	next, over := s.lease.check(at)
	for _, e := range s.entries {
		if e.stage == stageWaiting || e.stage == stageLeaving || e.isReported || e.onLoss == nil {
			continue
		}
		deadline, lost := s.check(e, at)
		if lost != nil {
			e.limits.lose(lost, at)
			e.isReported = true
			reports = append(reports, report{e, lost})
		} else {
			next = min(next, deadline)
		}
	}
	hasUsers := s.users > 0
	s.mu.Unlock()
	for _, r := range reports {
		r.entry.onLoss(r.loss)
	}
	if over != nil {
		s.cancel(&LostError{Cause: over.cause, Reason: over.reason})
		signal(s.changed)
		return 0, true
	}
	wait := next.left(at)
	if hasUsers {
		wait = min(wait, clockCheck)
	}
	return max(wait, time.Millisecond), false
}
