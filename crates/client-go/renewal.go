package holdfast

import (
	"errors"
	"strings"
	"time"
)

// renewWhileUsed is the one renewal of a session. It keeps one keepalive parked at a node. The call renews the session, and
// returns as soon as the cluster grants, takes or requests a lock of the session. If no node accepts a parked call, it
// renews at a third of the time-to-live with plain keepalives, and tries again. It closes the session at its end.
func (s *session) renewWhileUsed(openedAt int64) {
	events := &sessionEvents{session: s, since: openedAt, due: now()}
	for {
		s.mu.Lock()
		at := now()
		users, isAbandoned, renewAt := s.users, s.isAbandoned && !s.isClosed, s.lease.renewAt
		deadline, lost := s.lease.check(at)
		s.mu.Unlock()
		var wake moment
		switch {
		case lost != nil:
			s.closeAfterLoss()
			return
		case users == 0 && isAbandoned:
			s.closeUnused()
			return
		case users == 0:
			wake = deadline
		case at >= events.due:
			s.poll(events)
			continue
		case at >= renewAt:
			s.renew(events)
			continue
		default:
			wake = min(renewAt, deadline, events.due)
		}
		s.awaitChange(wake.left(at))
	}
}

func (s *session) awaitChange(limit time.Duration) {
	timer := time.NewTimer(max(limit, time.Millisecond))
	defer timer.Stop()
	select {
	case <-s.changed:
	case <-timer.C:
	}
}

// closeAfterLoss closes a session when its last user is gone. The cluster may keep a session that has ended for the client,
// because a node renews it for a waiting call.
func (s *session) closeAfterLoss() {
	signal(s.checked)
	for {
		s.mu.Lock()
		users, isClosed := s.users, s.isClosed
		s.mu.Unlock()
		if isClosed {
			return
		}
		if users == 0 {
			if s.isOwn {
				s.close()
			}
			return
		}
		<-s.changed
	}
}

func (s *session) closeUnused() {
	if s.isOwn {
		s.close()
	} else {
		s.settle(s.send.timeout)
	}
	s.end(&loss{cause: CauseSessionEnded})
}

// poll parks a keepalive for a sixth of the lease. At least two thirds of the lease are left when a node answers it.
func (s *session) poll(events *sessionEvents) {
	known := s.held()
	s.mu.Lock()
	at := now()
	deadline, _ := s.lease.check(at)
	wait := parkTime(s.lease.held, jitter())
	s.mu.Unlock()
	wait = events.untilExamination(wait, at)
	events.due = at.plus(pollPause)
	d := s.send.parkKeepAlive(s.ctx, s.name, s.incarnation, events.since, wait, deadline.left(at))
	var body eventsBody
	err := d.decode(&body)
	var lost *LostError
	switch {
	case s.ctx.Err() != nil:
	case err == nil:
		s.client.metrics.Renewed(s.name, true)
		events.failures = 0
		if s.acknowledge(acknowledgement{d.sent, body.held()}) == nil {
			events.deliver(known, &body, d.sent)
		}
	case errors.As(err, &lost):
		s.endIfOver(err)
	default:
		events.pollFailed()
		s.renew(events)
	}
}

// renew sends a plain keepalive.
func (s *session) renew(events *sessionEvents) {
	known := s.held()
	s.mu.Lock()
	at := now()
	deadline, over := s.lease.check(at)
	s.mu.Unlock()
	if over != nil {
		return
	}
	d := s.send.keepAlive(s.ctx, s.name, s.incarnation, deadline.left(at))
	var body sessionBody
	err := d.decode(&body)
	var lost *LostError
	switch {
	case s.ctx.Err() != nil:
	case err == nil:
		s.client.metrics.Renewed(s.name, true)
		held := millis(body.ExpiresInMS)
		if s.acknowledge(acknowledgement{d.sent, held}) == nil {
			events.reconcile(known, body.Holds, held)
		}
	case errors.As(err, &lost):
		s.endIfOver(err)
	default:
		s.client.metrics.Renewed(s.name, false)
		s.client.log.Debug("holdfast: renewal failed", "session", s.name, "error", err)
		s.mu.Lock()
		s.lease.renewalFailed(renewalFailure(err), now())
		s.mu.Unlock()
	}
}

// renewalFailure returns the part of an error that explains a loss. A renewal needs no advice to repeat it.
func renewalFailure(err error) string {
	var unknown *OutcomeUnknownError
	var unavailable *UnavailableError
	switch {
	case errors.As(err, &unknown):
		return unknown.Reason
	case errors.As(err, &unavailable):
		return unavailable.Reason
	}
	return strings.TrimPrefix(err.Error(), "holdfast: ")
}
