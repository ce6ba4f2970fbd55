package holdfast

import (
	"context"
	"errors"
	"net/http"
	"time"
)

var errGrantedElsewhere = errors.New("a renewal lists the lock as held")

// An acquisition is an unfinished acquire: one entry in each queue, however many calls repeat the request.
type acquisition struct {
	session *session
	locks   []string
	options lockOptions
	attempt int64
	entries []*entry
	until   time.Time // zero without a bound
	inDoubt bool      // whether an earlier copy of the attempt has no answer
}

// freshSessionsMax is the number of sessions that an acquire without time left may find ended.
const freshSessionsMax = 3

// acquire acquires all locks. If its session ends while it is idle, or while the entries are queued, the caller has lost
// nothing, so the acquire continues in a fresh session. The session of the result has one more user.
func (c *Client) acquire(ctx context.Context, locks []string, options lockOptions) (*acquisition, error) {
	for _, lock := range locks {
		if err := checkName("a lock", lock); err != nil {
			return nil, err
		}
	}
	if err := options.check(len(locks)); err != nil {
		return nil, err
	}
	until := options.until()
	for sessions := 1; ; sessions++ {
		session, err := c.session(ctx, options.ttl)
		if err != nil {
			return nil, err
		}
		a := newAcquisition(session, locks, options, until)
		err = a.acquire(ctx)
		var lost *LostError
		switch {
		case err == nil:
			return a, nil
		case !errors.As(err, &lost):
			return nil, err
		case session.isReplaceable() && (sessions < freshSessionsMax || leftOf(until) > 0):
		case lost.Cause == CauseNotRenewed:
			// Only the place in the queue is lost: the client reached no node in time.
			return nil, &UnavailableError{Reason: lost.Reason}
		default:
			return nil, err
		}
	}
}

func newAcquisition(session *session, locks []string, options lockOptions, until time.Time) *acquisition {
	a := &acquisition{session: session, locks: locks, options: options, attempt: nextNumber(0), until: until}
	if a.options.owner == "" {
		a.options.owner = unique(generatedOwner)
	}
	for _, lock := range locks {
		e := newEntry(lock, a.options.owner, a.attempt)
		e.isAnyShard = options.shards != 0 || options.shard != nil
		a.entries = append(a.entries, e)
	}
	return a
}

// acquire repeats the call, at any node that answers, until all locks are granted, the wait ends or the session ends. An
// acquire that fails gives its attempt up in the background, and leaves the session.
func (a *acquisition) acquire(ctx context.Context) error {
	a.session.add(a.entries)
	ctx, end := a.session.beginWait(ctx)
	defer end()
	err := a.run(ctx)
	if err != nil {
		a.session.giveUp(a.entries, a.inDoubt, err)
		a.session.leave()
	}
	return err
}

// giveUp forgets entries without a guard, and releases those that a failed call may have left in the cluster.
func (s *session) giveUp(entries []*entry, inDoubt bool, err error) {
	if !inDoubt && !isUnclear(err) {
		s.remove(entries)
	} else {
		s.releaseInBackground(entries)
	}
}

// leftOf returns the wait of the next call, in whole milliseconds. A zero until is no bound.
func leftOf(until time.Time) time.Duration {
	if until.IsZero() {
		return waitMax
	}
	return min(max(time.Until(until), 0), waitMax).Truncate(time.Millisecond)
}

func (a *acquisition) run(ctx context.Context) error {
	isGrantedElsewhere := false
	for {
		d, cause := a.send(ctx, isGrantedElsewhere)
		a.session.endIfOver(d.err)
		isGrantedElsewhere = false
		a.inDoubt = a.inDoubt || d.inDoubt
		var busy *BusyError
		newest, isOver := newestAttempt(d.err)
		hasTime := leftOf(a.until) > 0
		switch {
		case d.err == nil:
			err := a.granted(d)
			a.inDoubt = a.inDoubt || err != nil
			return err
		case a.session.ending.Err() != nil:
			a.inDoubt = true
			return context.Cause(a.session.ending)
		case ctx.Err() != nil:
			a.inDoubt = true
			return ctx.Err()
		case errors.Is(cause, errGrantedElsewhere):
			// The node that holds the call is behind or frozen, so another node gets it.
			isGrantedElsewhere, a.inDoubt = true, true
		case hasTime && mayRepeat(d.err, a.until):
			// The node died, held the call for the maximum time, or has no leader. The queue entry still exists.
			isGrantedElsewhere = a.session.awaitRetry(ctx, a.entries[0], d.err)
			a.inDoubt = a.inDoubt || isGrantedElsewhere
		case hasTime && a.session.send.nodes.mayGetToken(d.err):
			// Until its session ends, a waiter keeps its place and tries the token that the file has.
		case isOver:
			a.renumber(newest)
		case errors.As(d.err, &busy) && busy.Code == CodeWaitTimeout && hasTime:
			// The API bounds the wait of one call.
		default:
			return d.err
		}
	}
}

// renumber starts another attempt after the cluster has named a newer one of the session.
func (a *acquisition) renumber(newest int64) {
	a.attempt, a.inDoubt = nextNumber(newest), false
	a.session.mu.Lock()
	defer a.session.mu.Unlock()
	for _, e := range a.entries {
		e.attempt = a.attempt
	}
}

// send sends the call once. It ends early, with a cause, when the session is over or a renewal has listed the grant.
func (a *acquisition) send(ctx context.Context, isGrantedElsewhere bool) (delivery, error) {
	wait := leftOf(a.until)
	q := a.session.query(a.options.owner).withNumber(paramAttempt, a.attempt).withDuration(paramWait, wait)
	acquire := call{method: http.MethodPut, path: resource("locks", a.locks[0]), wait: wait, copies: harmless}
	if len(a.locks) > 1 {
		acquire.method, acquire.path = http.MethodPost, "/v1/locks"
		for _, lock := range a.locks {
			q = q.with(paramName, lock)
		}
	}
	acquire.query = append(q, a.options.query()...)
	callCtx, stop := a.session.bound(ctx, a.entries[0])
	defer stop(nil)
	d := a.session.send.deliverAcquire(callCtx, acquire, isGrantedElsewhere)
	return d, context.Cause(callCtx)
}

// bound returns a context that ends with the session, and when a renewal lists the grant of the entry. A multi-lock is
// granted as a whole, so one entry represents all.
func (s *session) bound(ctx context.Context, e *entry) (context.Context, context.CancelCauseFunc) {
	bounded, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-s.ctx.Done():
			cancel(context.Cause(s.ctx))
		case <-e.granted:
			cancel(errGrantedElsewhere)
		case <-bounded.Done():
		}
	}()
	return bounded, cancel
}

// awaitRetry waits until the call that failed may be sent again. It returns true earlier if a renewal lists the grant.
func (s *session) awaitRetry(ctx context.Context, e *entry, failed error) bool {
	bounded, stop := s.bound(ctx, e)
	defer stop(nil)
	sleep(bounded, time.Until(retryAt(failed)))
	return errors.Is(context.Cause(bounded), errGrantedElsewhere)
}

// granted turns the grants of an answer into holds, if the session is alive.
func (a *acquisition) granted(d delivery) error {
	grants := make([]grantBody, 1)
	var err error
	if len(a.locks) == 1 {
		err = d.decode(&grants[0])
	} else {
		var all grantsBody
		err = d.decode(&all)
		grants = all.Grants
	}
	if err != nil {
		return err
	}
	for i := range grants {
		if lost := a.session.acknowledge(grants[i].acknowledgement(d.sent)); lost != nil {
			return &LostError{Cause: lost.cause, Reason: lost.reason}
		}
		a.session.followUpgrade(grants[i].Lock, grants[i].Ticket, grants[i].Token)
	}
	a.session.mu.Lock()
	defer a.session.mu.Unlock()
	if _, lost := a.session.lease.check(now()); lost != nil {
		return &LostError{Cause: lost.cause, Reason: lost.reason}
	}
	for _, e := range a.entries {
		grant := grantOf(grants, e)
		if grant == nil {
			return unexpected("the answer does not grant %q", e.lock)
		}
		e.hold(grant, &a.options, d.sent)
	}
	return nil
}

func grantOf(grants []grantBody, e *entry) *grantBody {
	for i := range grants {
		if e.covers(grants[i].Lock) {
			return &grants[i]
		}
	}
	return nil
}

// hold stores the grant. The caller has locked the mutex of the session.
func (e *entry) hold(grant *grantBody, options *lockOptions, sent moment) {
	// Another guard of the owner may have a stronger mode, which ends with that guard. The sender of a transferred hold chose
	// its mode.
	if e.attempt != transferred {
		grant.Mode = options.mode
	}
	if e.isAnyShard {
		e.lock, e.isAnyShard = grant.Lock, false
	}
	e.grant, e.stage = *grant, stageHeld
	e.limits = holdLimits{progressTimeout: options.progressTimeout, progressUntil: now().plus(options.progressTimeout)}
	e.limits.endBy(grant, options.maxHold, sent)
}
