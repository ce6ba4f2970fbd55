package holdfast

import (
	"net/http"
	"slices"
	"sync"
	"time"
)

const (
	// readPart: a read of one lock may take this fraction of the lease.
	readPart = 8
	// readersMax is the maximum number of reads at once.
	readersMax = 4
	// examineDelay: a hold without a guard is examined after this time. It may be a grant whose answer is in flight.
	examineDelay = 500 * time.Millisecond
	// pollPause is the pause between two parked keepalives. It batches events.
	pollPause = 40 * time.Millisecond
)

// sessionEvents delivers the events of a session's locks to their guards. Each answer also lists the session's holds, and
// that list resolves every difference: a guard without a listed hold is lost, and the client never acquires it again; a
// listed hold for which an acquire waits makes the acquire repeat its call; a listed hold without an entry is released.
type sessionEvents struct {
	session   *session
	since     int64 // all events up to this revision are delivered
	due       moment
	failures  int // consecutive parked calls that no node accepted
	unguarded []unguardedHold

	mu      sync.Mutex
	reads   []lockRead // not started
	readers int
}

// An unguardedHold is a hold of the session without a guard.
type unguardedHold struct {
	lock      string
	token     int64
	examineAt moment
}

// A knownHold is a hold of a guard, according to this client.
type knownHold struct {
	entry *entry
	token int64
}

// held returns the holds of the guards.
func (s *session) held() []knownHold {
	s.mu.Lock()
	defer s.mu.Unlock()
	var known []knownHold
	for _, e := range s.entries {
		if e.stage == stageHeld {
			known = append(known, knownHold{e, e.grant.Token})
		}
	}
	return known
}

// isHeld reports whether a hold is neither lost nor about to change.
func (s *session) isHeld(k knownHold) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _, lost := k.entry.limits.check(now())
	return k.entry.stage == stageHeld && k.entry.grant.Token == k.token && lost == nil
}

func (p *sessionEvents) untilExamination(wait time.Duration, at moment) time.Duration {
	for _, hold := range p.unguarded {
		wait = min(wait, hold.examineAt.left(at))
	}
	return wait
}

// pollFailed schedules the next parked keepalive after one that no node accepted.
func (p *sessionEvents) pollFailed() {
	pause := pollPause
	if p.failures > 0 {
		pause = retryPause(p.failures)
	}
	p.failures++
	p.due = now().plus(pause)
}

// deliver delivers the answer to a parked keepalive that was sent at a moment.
func (p *sessionEvents) deliver(known []knownHold, body *eventsBody, sent moment) {
	held := body.held()
	p.since = max(p.since, body.Revision)
	// An event names the token that the hold had before or after an upgrade in the same answer.
	p.session.followUpgrades(body.Holds)
	for i := range body.Events {
		p.session.deliverEvent(known, &body.Events[i], sent.plus(millis(body.WaitedMS)))
	}
	if body.Gap != nil {
		for _, k := range known {
			k := k
			p.read(gapRead(k), func() { p.session.readReleaseRequest(k, held/readPart) })
		}
	}
	p.reconcile(known, body.Holds, held)
}

// deliverEvent delivers an event to the entries of its hold: the one with its ticket or, without a ticket, with its token now
// or before. The times of the event count from countedFrom.
func (s *session) deliverEvent(known []knownHold, event *eventBody, countedFrom moment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.entries {
		isHold := e.isOf(event.Ticket)
		if event.Ticket == 0 {
			isHold = e.holds(event.Token) || slices.Contains(known, knownHold{e, event.Token})
		}
		if !e.covers(event.Lock) || !isHold || e.stage == stageLeaving {
			continue
		}
		switch event.Kind {
		case "lost":
			// A guard with a conversion in progress gets the result from the call that changes it.
			if e.stage == stageHeld {
				e.limits.lose(lossOf(e, event), now())
			}
		case "release-requested":
			e.requestRelease(newReleaseRequest(event.Reason, event.WantedInMS, event.Revoke, countedFrom))
		}
	}
	signal(s.checked)
}

// lossOf returns the loss of an event. The words of the cluster are those of a hold's end.
func lossOf(e *entry, event *eventBody) *loss {
	switch event.Cause {
	case "force-released":
		return &loss{CauseForceReleased, event.Reason}
	case "revoked":
		return &loss{CauseRevoked, e.limits.revokeReason}
	case "handed-over":
		return &loss{cause: CauseTransferred}
	case "session-closed", "session-expired":
		return &loss{cause: CauseSessionEnded}
	case "max-hold":
		return &loss{cause: CauseMaxHoldExceeded}
	}
	return &loss{cause: CauseReleasedElsewhere}
}

// readReleaseRequest reads an open release request from the lock after a gap in the events.
func (s *session) readReleaseRequest(k knownHold, timeout time.Duration) {
	var state LockState
	read := s.send.within(timeout).deliver(s.ctx, get(resource("locks", k.entry.lock), nil))
	if read.decode(&state) != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, holder := range state.Holders {
		request := holder.ReleaseRequest
		if request == nil || holder.Session != s.name || !k.entry.holds(holder.Token) {
			continue
		}
		// An event that came during the read may be of a later request.
		if k.entry.requestedAt < read.sent {
			k.entry.requestRelease(newReleaseRequest(request.Reason, request.WantedInMS, request.Revoke, read.sent))
			signal(s.checked)
		}
	}
}

// reconcile compares the holds of the guards with those that the cluster lists.
func (p *sessionEvents) reconcile(known []knownHold, listed []holdBody, held time.Duration) {
	s, timeout := p.session, held/readPart
	isListed := func(lock string, token int64) bool {
		return slices.ContainsFunc(listed, func(h holdBody) bool { return h.Lock == lock && h.Token == token })
	}
	s.followUpgrades(listed)
	for _, k := range known {
		if !isListed(k.entry.lock, k.token) && s.isHeld(k) {
			k := k
			p.read(unlistedRead(k), func() { s.verify(k, timeout) })
		}
	}
	p.unguarded = slices.DeleteFunc(p.unguarded, func(h unguardedHold) bool { return !isListed(h.lock, h.token) })
	for _, hold := range listed {
		isKnown, awaiting := s.match(hold)
		// Other clients may use a session that the caller named.
		isOurs := !isKnown && (len(awaiting) > 0 || s.isOwn)
		if !p.isExaminationDue(hold, isOurs, held/3) {
			continue
		}
		for _, e := range awaiting {
			e.notifyGranted()
		}
		if len(awaiting) == 0 {
			hold := hold
			p.read(hold, func() { s.releaseStray(hold, timeout) })
		}
	}
}

// A lockRead is a read of a lock beside the renewal, which would lose the session if it waited for reads.
type lockRead struct {
	of  any // the hold, with a type for each kind of read
	run func()
}

type (
	gapRead      knownHold
	unlistedRead knownHold
)

// read starts a read of a lock, or queues it behind readersMax others. One read of a kind waits for each hold. The reads end
// with the session.
func (p *sessionEvents) read(of any, run func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if slices.ContainsFunc(p.reads, func(other lockRead) bool { return other.of == of }) {
		return
	}
	p.reads = append(p.reads, lockRead{of, run})
	if p.readers < readersMax {
		p.readers++
		go func() {
			for p.readNext() {
			}
		}()
	}
}

// readNext returns false when no read is left.
func (p *sessionEvents) readNext() bool {
	p.mu.Lock()
	if len(p.reads) == 0 || p.session.ctx.Err() != nil {
		p.readers--
		p.mu.Unlock()
		return false
	}
	next := p.reads[0]
	p.reads = p.reads[1:]
	p.mu.Unlock()
	next.run()
	return true
}

// verify loses a hold that the cluster no longer has.
func (s *session) verify(k knownHold, timeout time.Duration) {
	if !s.isHolder(k, timeout) && s.isHeld(k) {
		s.loseEntry(k.entry, &loss{cause: CauseReleasedElsewhere})
	}
}

// match returns whether an entry has the hold, and the entries that may wait for it. An upgrade of the hold that has no
// answer yet waits for the new token, even if other guards have it.
func (s *session) match(hold holdBody) (isKnown bool, awaiting []*entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var upgrading []*entry
	for _, e := range s.entries {
		switch {
		case !e.covers(hold.Lock):
		case e.isUpgradedTo(hold.Ticket, hold.Token):
			upgrading = append(upgrading, e)
		case e.holds(hold.Token):
			isKnown = true
		case e.stage == stageWaiting || e.stage == stageConverting:
			awaiting = append(awaiting, e)
		}
	}
	if len(upgrading) > 0 {
		return false, upgrading
	}
	return isKnown, awaiting
}

// isExaminationDue reports whether a hold without a guard has been listed for long enough. The next examination is due
// again later.
func (p *sessionEvents) isExaminationDue(hold holdBody, isOurs bool, again time.Duration) bool {
	index := slices.IndexFunc(p.unguarded, func(h unguardedHold) bool { return h.lock == hold.Lock && h.token == hold.Token })
	switch {
	case !isOurs && index >= 0:
		p.unguarded = slices.Delete(p.unguarded, index, index+1)
		return false
	case !isOurs:
		return false
	case index < 0:
		p.unguarded = append(p.unguarded, unguardedHold{hold.Lock, hold.Token, now().plus(examineDelay)})
		return false
	case now() < p.unguarded[index].examineAt:
		return false
	}
	p.unguarded[index].examineAt = now().plus(again)
	return true
}

// isHolder reads whether the session holds the lock under this token, because the node that renewed may be behind the grant.
// If no node answers, the lease of the session decides.
func (s *session) isHolder(k knownHold, timeout time.Duration) bool {
	var state LockState
	calls := s.send.within(timeout)
	if calls.do(s.ctx, get(resource("locks", k.entry.lock), nil), &state) != nil {
		return true
	}
	for _, holder := range state.Holders {
		if holder.Session == s.name && holder.Token == k.token {
			return true
		}
	}
	if state.HoldersTotal <= len(state.Holders) {
		return false
	}
	// A node lists only the first of many holders, so the token identifies the hold.
	err := calls.do(s.ctx, get(resource("fence", k.entry.lock), query{}.withNumber(paramToken, k.token)), &struct{}{})
	return rejectedWith(err, CodeStaleToken) == nil
}

// releaseStray releases a hold without a guard, if its owner was generated for a guard.
func (s *session) releaseStray(hold holdBody, timeout time.Duration) {
	calls := s.send.within(timeout)
	var state LockState
	if calls.do(s.ctx, get(resource("locks", hold.Lock), nil), &state) != nil {
		return
	}
	for _, holder := range state.Holders {
		isStray := holder.Session == s.name && holder.Token == hold.Token && isGeneratedOwner(holder.Owner)
		if !isStray || s.hasOwner(hold.Lock, holder.Owner) {
			continue
		}
		q := query{}.with(paramSession, s.name).with(paramOwner, holder.Owner).withNumber(paramToken, hold.Token)
		// If no node answers, the next examination finds the hold again.
		calls.do(s.ctx, call{method: http.MethodDelete, path: resource("locks", hold.Lock), query: q, copies: harmless}, nil)
	}
}

// hasOwner reports whether the owner has an entry of the lock, in any stage.
func (s *session) hasOwner(lock, owner string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ownerHasEntry(lock, owner)
}

// ownerHasEntry is hasOwner for a caller that has locked the mutex.
func (s *session) ownerHasEntry(lock, owner string) bool {
	return slices.ContainsFunc(s.entries, func(e *entry) bool { return e.covers(lock) && e.owner == owner })
}
