package holdfast

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// Transfer gives the lock to another open session, which holds it at once with a new token: no waiter is granted in
// between. The receiver is the owner within that session, or with "" the session itself. It gets its guard from a waiting
// Lock, or from ReceiveTransfer. Transfer returns the token of the receiver.
//
// Stop the work under the lock first: once the call starts, Ensure returns a *LostError with CauseTransferred. If the
// cluster certainly rejects the call, the guard holds the lock as before. If the outcome is unknown, the guard is lost, and
// the client releases a remaining hold in the background.
func (g *Guard) Transfer(ctx context.Context, to, owner string) (int64, error) {
	if err := checkName("a session", to); err != nil {
		return 0, err
	}
	change, err := g.beginChange(ctx, g.Mode())
	if err != nil {
		return 0, err
	}
	defer change.end()
	g.releasing.Lock()
	defer g.releasing.Unlock()
	if err := g.Ensure(); err != nil {
		return 0, err
	}
	if g.session.isShared(g.entry) {
		return 0, invalid("the lock %q was entered again: release the other guards first", g.Name())
	}
	g.setTransferred(true)
	token, isKept, err := g.sendTransfer(ctx, to, owner)
	if isKept {
		g.setTransferred(false)
		return 0, err
	}
	g.isOver.Store(true)
	g.cancel(lostError(g.entry, g.Token(), &loss{cause: CauseTransferred}))
	defer g.session.leave()
	if err == nil {
		g.session.remove(g.entries)
	} else {
		g.session.releaseInBackground(g.entries)
	}
	return token, err
}

// setTransferred begins or takes back the end of the hold, before another session can hold the lock.
func (g *Guard) setTransferred(is bool) {
	g.session.mu.Lock()
	defer g.session.mu.Unlock()
	g.entry.isTransferred, g.entry.stage = is, stageHeld
	if is {
		g.entry.stage = stageLeaving
	}
	signal(g.session.checked)
}

// sendTransfer reports whether the cluster certainly rejected the transfer, so that the hold continues.
func (g *Guard) sendTransfer(ctx context.Context, to, owner string) (token int64, isKept bool, err error) {
	q := query{}.with(paramSession, g.session.name).withText(paramOwner, g.entry.owner).withNumber(paramToken, g.Token()).
		with(paramTo, to).withText(paramToOwner, owner)
	transfer := call{method: http.MethodPost, path: resource("transfers", g.Name()), query: q, copies: repeatable}
	d := g.session.send.deliver(ctx, transfer)
	var body transferBody
	var lost *LostError
	err = d.decode(&body)
	switch {
	case err == nil:
		return body.Token, false, nil
	case ctx.Err() != nil:
		return 0, false, ctx.Err()
	case d.inDoubt && (ProblemOf(err) != nil || errors.As(err, &lost)):
		// An earlier copy of the call may have succeeded, and the receiver's session may have ended since.
		return 0, false, &OutcomeUnknownError{Reason: err.Error(), Problem: ProblemOf(err)}
	case d.inDoubt || isUncertain(err):
		return 0, false, err
	case errors.As(err, &lost):
		// One of the two sessions has ended; a renewal shows whether it is this one.
		if g.session.send.keepAlive(ctx, g.session.name, g.session.incarnation, g.session.left()).decode(&sessionBody{}) != nil {
			return 0, false, lostError(g.entry, g.Token(), &loss{lost.Cause, lost.Reason})
		}
		return 0, true, invalid("the session %q is not open: the receiver opens it first", to)
	case rejectedWith(err, CodeNotHolder) != nil:
		return 0, false, lostError(g.entry, g.Token(), &loss{cause: CauseReleasedElsewhere})
	}
	return 0, ProblemOf(err) != nil, err
}

// left returns the time until the deadline of the session.
func (s *session) left() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	deadline, lost := s.lease.check(now())
	if lost != nil {
		return 0
	}
	return deadline.left(now())
}

// isShared reports whether another guard of this program has the same hold.
func (s *session) isShared(entry *entry) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.entries {
		if e != entry && e.covers(entry.lock) && e.owner == entry.owner {
			return true
		}
	}
	return false
}

// ReceiveTransfer waits for a lock that another session transfers to the session of this client, and returns its guard. It
// never acquires the lock. The receiver is the option Owner, or the session itself. After the option Wait it returns a
// *BusyError. The options ProgressTimeout and TTL are those of Lock. OpenSession names the session for the sender.
// The release of the guard ends the hold, so release guards that re-entered it first.
func (c *Client) ReceiveTransfer(ctx context.Context, name string, options ...LockOption) (context.Context, *Guard, error) {
	given := newLockOptions(options)
	o := lockOptions{mode: Exclusive, owner: given.owner, progressTimeout: given.progressTimeout, ttl: given.ttl}
	if err := errors.Join(checkName("a lock", name), given.check(1)); err != nil {
		return ctx, nil, err
	}
	s, err := c.session(ctx, o.ttl)
	if err != nil {
		return ctx, nil, err
	}
	defer s.leave()
	until := given.until()
	for {
		state, err := c.LockState(ctx, name)
		if err != nil {
			return ctx, nil, err
		}
		if token := heldToken(state, s.name, o.owner); token != 0 {
			held, err := c.adopt(ctx, s, &o, name, token)
			if err != nil || held != nil {
				return c.guard(ctx, held, o, err)
			}
		}
		left := leftOf(until)
		if left == 0 {
			return ctx, nil, notTransferred(name)
		}
		if err := s.awaitLockChange(ctx, name, state.Revision, left); err != nil {
			return ctx, nil, err
		}
	}
}

// adopt returns the guard of the transferred hold that had this token, or nil if the session no longer has it. The call is a
// change that keeps mode and value, so no copy of it acquires the lock. Without a certain answer, the hold is released.
func (c *Client) adopt(ctx context.Context, s *session, o *lockOptions, name string, token int64) (*holding, error) {
	e := newEntry(name, o.owner, transferred)
	e.grant.Token = token
	if !s.addAlone(e) {
		return nil, invalid("this program has a guard of %q already", name)
	}
	d, grant := s.changeOnce(ctx, e, nil)
	inDoubt := d.inDoubt || ctx.Err() != nil || s.ending.Err() != nil
	if d.err == nil {
		d.err = s.adopted(e, grant, o, d.sent)
		inDoubt = true
	}
	switch {
	case d.err == nil:
		c.metrics.Acquired(name, 0)
		return c.newHolding(ctx, s, []*entry{e}), nil
	case rejectedWith(d.err, CodeNotHolder, CodeAttemptOver) != nil:
		s.remove([]*entry{e})
		return nil, nil
	}
	s.giveUp([]*entry{e}, inDoubt, d.err)
	c.metrics.AcquireFailed(name, d.err)
	return nil, d.err
}

// adopted stores the grant of a transferred hold, which is a user of the session.
func (s *session) adopted(e *entry, grant *grantBody, o *lockOptions, sent moment) error {
	if s.acknowledge(grant.acknowledgement(sent)) != nil || !s.enter() {
		return s.loss()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e.hold(grant, o, sent)
	return nil
}

// addAlone adds an entry, unless its owner has one of the lock.
func (s *session) addAlone(e *entry) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ownerHasEntry(e.lock, e.owner) {
		return false
	}
	s.entries = append(s.entries, e)
	return true
}

// heldToken returns the token of the owner's hold, or 0 if there is none.
func heldToken(state *LockState, session, owner string) int64 {
	for _, holder := range state.Holders {
		if holder.Session == session && holder.Owner == owner {
			return holder.Token
		}
	}
	return 0
}

// awaitLockChange waits for a change of the lock after a revision.
func (s *session) awaitLockChange(ctx context.Context, name string, since int64, wait time.Duration) error {
	bounded, end := s.beginWait(ctx)
	defer end()
	q := query{}.with(paramPath, "/locks/"+name).with(paramSince, fmt.Sprint(since)).withDuration(paramWait, wait)
	change := get("/v1/watch", q)
	change.wait = wait
	err := s.send.do(bounded, change, &struct{}{}, "revision")
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case bounded.Err() != nil:
		return context.Cause(bounded)
	case isUncertain(err), rejectedWith(err, CodeRevisionCompacted) != nil:
		// The caller reads the lock again.
		sleep(bounded, min(wait, time.Until(retryAt(err))))
		return nil
	}
	return err
}

func notTransferred(name string) error {
	return &BusyError{&Problem{
		Title: "no transfer of the lock has arrived", Status: http.StatusLocked, Code: CodeNotYet, Retryable: true, Lock: name,
	}}
}

// A Session is an open session of a client, which is renewed until Close.
type Session struct {
	session *session
	close   func()
}

// OpenSession opens the session of the client, and renews it until Close. A sender of a transfer needs its name.
func (c *Client) OpenSession(ctx context.Context) (*Session, error) {
	s, err := c.session(ctx, 0)
	if err != nil {
		return nil, err
	}
	return &Session{s, sync.OnceFunc(s.leave)}, nil
}

// Name returns the name of the session.
func (s *Session) Name() string { return s.session.name }

// Ensure returns nil if the session certainly lives, and otherwise a *LostError.
func (s *Session) Ensure() error {
	if s.session.isAlive() {
		return nil
	}
	return s.session.loss()
}

// Close ends this use of the session, which guards of the client may still use.
func (s *Session) Close() { s.close() }
