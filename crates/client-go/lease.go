package holdfast

import "time"

// The time that a session certainly lives, as pure arithmetic: every moment and every random number is an argument.
//
// A deadline counts from the sending of the last acknowledged renewal, because the cluster starts to count later. A
// margin covers clocks that run at different rates. A deadline that has passed stays passed: a later acknowledgement
// does not restore the session, since the work may have stopped.
const (
	// leaseRate: two clocks may differ by 1/leaseRate of the time that they measure.
	leaseRate = 100
	// leaseSafety is subtracted for the time between reading a clock and acting on it.
	leaseSafety = 5 * time.Millisecond
	// parkMax is the maximum time to park a keepalive.
	parkMax = 45 * time.Second
	// renewalPause is the pause after a renewal that failed.
	renewalPause = 200 * time.Millisecond
)

// deadlineOf returns the deadline of a session that the cluster keeps for held from countedFrom or later.
func deadlineOf(countedFrom moment, held time.Duration) moment {
	return countedFrom.plus(max(held-held/leaseRate-leaseSafety, 0))
}

// nextRenewal returns the time of the next renewal: after a third of the lease, less up to a tenth of that third.
func nextRenewal(countedFrom moment, held time.Duration, jitter uint8) moment {
	third := held / 3
	return countedFrom.plus(third - third/10*time.Duration(jitter)/255)
}

// parkTime returns how long to park a keepalive: a sixth of the lease, less up to a tenth of that.
func parkTime(held time.Duration, jitter uint8) time.Duration {
	sixth := held / 6
	return min(sixth-sixth/10*time.Duration(jitter)/255, parkMax)
}

// retryPause returns the pause after this many consecutive failures. It starts at 200 ms and doubles with each failure.
func retryPause(failures int) time.Duration {
	return renewalPause << min(max(failures-1, 0), 6)
}

// A loss is the reason why a session or a hold ended.
type loss struct {
	cause  Cause
	reason string
}

// An acknowledgement of a renewal: the cluster keeps the session for held from countedFrom or later.
type acknowledgement struct {
	countedFrom moment
	held        time.Duration
}

// A lease is the client's view of a session's lease.
type lease struct {
	deadline moment
	renewAt  moment
	held     time.Duration
	ended    *loss
	failure  string // the error of the last renewal
}

func newLease(a acknowledgement, jitter uint8) lease {
	return lease{
		deadline: deadlineOf(a.countedFrom, a.held),
		renewAt:  nextRenewal(a.countedFrom, a.held, jitter),
		held:     a.held,
	}
}

// check returns the deadline while the session certainly lives, or the loss, which is final.
func (l *lease) check(now moment) (moment, *loss) {
	if l.ended != nil {
		return 0, l.ended
	}
	if now >= l.deadline {
		reason := l.failure
		if reason == "" {
			reason = "no renewal was answered"
		}
		return 0, &loss{CauseNotRenewed, reason}
	}
	return l.deadline, nil
}

// acknowledge extends the lease, unless its deadline has passed.
func (l *lease) acknowledge(a acknowledgement, jitter uint8, now moment) *loss {
	if _, lost := l.check(now); lost != nil {
		return lost
	}
	l.deadline = max(l.deadline, deadlineOf(a.countedFrom, a.held))
	l.renewAt = nextRenewal(a.countedFrom, a.held, jitter)
	l.held, l.failure = a.held, ""
	_, lost := l.check(now)
	return lost
}

// renewalFailed stores the error of a renewal, and schedules the next one.
func (l *lease) renewalFailed(failure string, now moment) {
	l.failure = failure
	l.renewAt = now.plus(renewalPause)
}

// end ends the session. The first loss stays.
func (l *lease) end(lost *loss, now moment) {
	if _, earlier := l.check(now); earlier != nil {
		lost = earlier
	}
	l.ended = lost
}
