package holdfast

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"
)

// change builds the call that changes the hold of an entry, and never acquires the lock. The number of the call is larger than
// that of every earlier change.
func (s *session) change(e *entry, number int64, changed query) call {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.query(e.owner).withNumber(paramAttempt, number).with(paramChange, strconv.FormatInt(e.attempt, 10))
	return call{method: http.MethodPut, path: resource("locks", e.lock), query: append(q, changed...), copies: harmless}
}

// changeOnce changes the hold of an entry. It takes a larger number once if another program of the session has one.
func (s *session) changeOnce(ctx context.Context, e *entry, changed query) (delivery, *grantBody) {
	bounded, end := s.beginWait(ctx)
	defer end()
	newest := int64(0)
	for {
		d := s.send.deliver(bounded, s.change(e, nextNumber(newest), changed))
		s.endIfOver(d.err)
		over, isOver := newestAttempt(d.err)
		if isOver && newest == 0 {
			newest = over
			continue
		}
		var grant grantBody
		d.err = d.decode(&grant)
		if d.err != nil && ctx.Err() == nil && bounded.Err() != nil {
			d.err = context.Cause(bounded)
		}
		return d, &grant
	}
}

// A modeChange is a hold between two modes. While the mode is unknown the entry is converting, so that its new token does
// not look like a loss. Each call names the attempt that it changes and has a larger number, so a late copy
// converts nothing. An entry has one change at a time.
type modeChange struct {
	guard *Guard
	// fallback is not stronger than the mode at the start, so the cluster always grants it.
	fallback Mode
	// newest: each call of the change has a larger number.
	newest int64
	// isGrantedElsewhere: a renewal listed the new token during a pause.
	isGrantedElsewhere bool
}

// Upgrade makes an upgradable hold exclusive when the shared holders have left, ahead of the queue. It returns the new
// token; the earlier one is stale from then on. After a *BusyError the hold is still upgradable.
func (g *Guard) Upgrade(ctx context.Context, wait time.Duration) (int64, error) {
	change, err := g.beginChange(ctx, g.Mode())
	if err != nil {
		return 0, err
	}
	if g.Mode() == Exclusive {
		change.end()
		return g.Token(), nil
	}
	return change.upgrade(ctx, time.Now().Add(wait))
}

// Downgrade changes to a weaker mode at once, with the same token. It requests also the mode that the guard has: a rejected
// downgrade may have left the cluster with a stronger one.
func (g *Guard) Downgrade(ctx context.Context, to Mode) error {
	change, err := g.beginChange(ctx, to)
	if err != nil {
		return err
	}
	if mode := g.Mode(); to.strength() == 0 || to.strength() > mode.strength() {
		change.end()
		return invalid("%s is not weaker than %s: use Upgrade", to, mode)
	}
	change.convert(stageConverting)
	return change.fallBack(ctx)
}

// beginChange waits until no other change of the mode is in progress.
func (g *Guard) beginChange(ctx context.Context, fallback Mode) (*modeChange, error) {
	select {
	case g.entry.changing <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-g.ended.Done():
		return nil, context.Cause(g.ended)
	}
	change := &modeChange{guard: g, fallback: fallback}
	if err := g.Ensure(); err != nil {
		change.end()
		return nil, err
	}
	return change, nil
}

func (m *modeChange) end() { <-m.guard.entry.changing }

// convert moves the entry between held and converting, unless it is being released.
func (m *modeChange) convert(to stage) {
	g := m.guard
	g.session.mu.Lock()
	defer g.session.mu.Unlock()
	if g.entry.stage != stageLeaving {
		g.entry.stage = to
	}
	signal(g.session.checked)
}

func (m *modeChange) upgrade(ctx context.Context, until time.Time) (int64, error) {
	session := m.guard.session
	ctx, end := session.beginWait(ctx)
	defer end()
	m.convert(stageConverting)
	isRenumbered := false
	for {
		wait := min(max(time.Until(until), 0), waitMax).Truncate(time.Millisecond)
		d, grant := m.call(ctx, Exclusive, wait)
		isOver := wait == 0
		var busy *BusyError
		isBusy := errors.As(d.err, &busy)
		switch {
		case d.err == nil && grant.Mode == Exclusive:
			return grant.Token, m.complete(Exclusive, grant, d.sent)
		case m.guard.Ensure() != nil:
			m.end()
			return 0, m.guard.Ensure()
		case session.ending.Err() != nil:
			m.fallBackInBackground()
			return 0, context.Cause(session.ending)
		case ctx.Err() != nil:
			m.fallBackInBackground()
			return 0, ctx.Err()
		case d.err == nil && !isRenumbered:
			// The cluster executed a later call of this hold, so this one changed nothing.
			isRenumbered = true
		case rejectedWith(d.err, CodeAttemptOver) != nil && !isRenumbered:
			isRenumbered = true
		case !isOver && mayRepeat(d.err, until):
			m.pause(ctx, time.Until(retryAt(d.err)))
		case isBusy && !isOver && busy.Code == CodeWaitTimeout:
		case rejectedWith(d.err, CodeNotHolder, CodeAttemptOver) != nil:
			return 0, m.gone()
		case !d.inDoubt && ProblemOf(d.err) != nil && !isUncertain(d.err):
			return 0, m.rejected(d.err, false)
		default:
			// The cluster may still have granted the upgrade.
			err := d.err
			if err == nil {
				err = &UnavailableError{Reason: "the lock kept the mode " + string(grant.Mode)}
			}
			return 0, errors.Join(err, m.fallBack(ctx))
		}
	}
}

// call requests a mode once. The cause of the end of the hold replaces the error.
func (m *modeChange) call(ctx context.Context, mode Mode, wait time.Duration) (delivery, *grantBody) {
	g := m.guard
	m.newest = nextNumber(m.newest)
	change := g.session.change(g.entry, m.newest, query{}.withDuration(paramWait, wait).with(paramMode, string(mode)))
	change.wait = wait
	isGrantedElsewhere, inDoubt := m.isGrantedElsewhere, m.isGrantedElsewhere
	m.isGrantedElsewhere = false
	for {
		bounded, stop := m.bound(ctx)
		d := g.session.send.deliverAcquire(bounded, change, isGrantedElsewhere)
		cause := context.Cause(bounded)
		stop()
		if d.err != nil && errors.Is(cause, errGrantedElsewhere) {
			isGrantedElsewhere, inDoubt = true, true
			continue
		}
		g.session.endIfOver(d.err)
		d.inDoubt = d.inDoubt || inDoubt
		if newest, isOver := newestAttempt(d.err); isOver {
			m.newest = newest
		}
		var grant grantBody
		if d.err == nil {
			d.err = d.decode(&grant)
		}
		return d, &grant
	}
}

// bound returns a context that also ends with the hold, and when a renewal lists the new token.
func (m *modeChange) bound(ctx context.Context) (context.Context, func()) {
	g := m.guard
	bounded, stop := g.session.bound(ctx, g.entry)
	unlink := context.AfterFunc(g.ended, func() { stop(context.Cause(g.ended)) })
	return bounded, func() {
		unlink()
		stop(nil)
	}
}

// pause waits before the next call, unless the hold is lost or a renewal lists the new token.
func (m *modeChange) pause(ctx context.Context, d time.Duration) {
	bounded, stop := m.bound(ctx)
	defer stop()
	sleep(bounded, d)
	m.isGrantedElsewhere = errors.Is(context.Cause(bounded), errGrantedElsewhere)
}

// complete ends the change after the cluster granted the mode.
func (m *modeChange) complete(mode Mode, grant *grantBody, sent moment) error {
	defer m.end()
	g := m.guard
	if lost := g.session.acknowledge(grant.acknowledgement(sent)); lost != nil {
		return lostError(g.entry, grant.Token, lost)
	}
	g.session.followUpgrade(grant.Lock, grant.Ticket, grant.Token)
	g.session.mu.Lock()
	defer g.session.mu.Unlock()
	// The answer has the strongest mode of the owner's guards, and each guard keeps its mode.
	g.entry.limits.endBy(grant, 0, sent)
	grant.Mode, grant.Shard = mode, g.entry.grant.Shard
	g.entry.grant = *grant
	if g.entry.stage != stageLeaving {
		g.entry.stage = stageHeld
	}
	return nil
}

// gone ends the change: the cluster no longer has the hold.
func (m *modeChange) gone() error {
	defer m.end()
	m.guard.session.loseEntry(m.guard.entry, &loss{cause: CauseReleasedElsewhere})
	return m.guard.Ensure()
}

// rejected ends the change: the hold continues. A call in doubt may have made it weaker.
func (m *modeChange) rejected(err error, inDoubt bool) error {
	defer m.end()
	m.convert(stageHeld)
	m.guard.session.mu.Lock()
	defer m.guard.session.mu.Unlock()
	if inDoubt {
		m.guard.entry.grant.Mode = m.fallback
	}
	return err
}

// fallBack requests the fallback until the cluster confirms or rejects it, and continues in the background at the end of the
// context. The end of the context, or the first moment of Close, ends a pause.
func (m *modeChange) fallBack(ctx context.Context) error {
	inDoubt := false
	for renumbered := 0; ; {
		pausable, unbind := ctx, func() {}
		if ending := m.guard.session.ending; ending.Err() == nil {
			pausable, unbind = bind(ctx, ending)
		}
		d, grant := m.call(ctx, m.fallback, 0)
		if isUnclear(d.err) && ctx.Err() == nil {
			m.pause(pausable, max(pauseMax, time.Until(retryAt(d.err))))
		}
		unbind()
		inDoubt = inDoubt || d.inDoubt || isUnclear(d.err)
		switch {
		case m.guard.Ensure() != nil:
			m.end()
			return m.guard.Ensure()
		case d.err == nil:
			return m.complete(m.fallback, grant, d.sent)
		case ctx.Err() != nil:
			m.fallBackInBackground()
			return ctx.Err()
		case isUnclear(d.err):
		case rejectedWith(d.err, CodeAttemptOver) != nil && renumbered == 0:
			renumbered++
		case rejectedWith(d.err, CodeNotHolder, CodeAttemptOver) != nil:
			return m.gone()
		default:
			return m.rejected(d.err, inDoubt)
		}
	}
}

func (m *modeChange) fallBackInBackground() {
	end := m.guard.session.track()
	go func() {
		defer end()
		m.fallBack(context.Background())
	}()
}
