package holdfast

import (
	"fmt"
	"time"
)

// A holdLimits has the deadlines of one hold beside the lease of its session. Every moment is an argument.
type holdLimits struct {
	progressTimeout time.Duration // 0 without a progress timeout
	progressUntil   moment
	maxHold         time.Duration // 0 while the hold has no end
	maxUntil        moment
	revoked         bool
	revokedAt       moment
	revokeReason    string
	lost            *loss
}

// check returns the nearest limit, if there is one, or the loss.
func (l *holdLimits) check(now moment) (next moment, limited bool, lost *loss) {
	if l.lost != nil {
		return 0, false, l.lost
	}
	consider := func(until moment) {
		if !limited || until < next {
			next, limited = until, true
		}
	}
	if l.progressTimeout > 0 {
		if now >= l.progressUntil {
			return 0, false, &loss{CauseStalled, fmt.Sprintf("no progress for %v", l.progressTimeout)}
		}
		consider(l.progressUntil)
	}
	if l.maxHold > 0 {
		if now >= l.maxUntil {
			return 0, false, &loss{CauseMaxHoldExceeded, fmt.Sprintf("held for %v", l.maxHold)}
		}
		consider(l.maxUntil)
	}
	if l.revoked {
		if now >= l.revokedAt {
			return 0, false, &loss{CauseRevoked, l.revokeReason}
		}
		consider(l.revokedAt)
	}
	return next, limited, nil
}

// endBy ends the hold after the requested maximum, 0 for none, or at the end that the grant carries if that is sooner. The
// hold may have the end of an earlier acquire of its owner, or of the sender of a transfer. No end moves to a later moment.
func (l *holdLimits) endBy(grant *grantBody, requested time.Duration, sent moment) {
	left, maxHold := requested, requested
	if grant.EndsInMS != nil {
		// The least maximum is a millisecond, also for a hold that ends now.
		ends := max(millis(*grant.EndsInMS), time.Millisecond)
		if left == 0 {
			left, maxHold = ends, ends
		}
		left = min(left, ends)
	}
	until := deadlineOf(grant.acknowledgement(sent).countedFrom, left)
	if left > 0 && (l.maxHold == 0 || until < l.maxUntil) {
		l.maxHold, l.maxUntil = maxHold, until
	}
}

// reportProgress moves the progress deadline, unless a limit is exceeded.
func (l *holdLimits) reportProgress(now moment) *loss {
	if _, _, lost := l.check(now); lost != nil {
		return lost
	}
	if l.progressTimeout > 0 {
		l.progressUntil = now.plus(l.progressTimeout)
	}
	return nil
}

// revoke ends the hold at the deadline of a release request. A later deadline does not extend an earlier one.
func (l *holdLimits) revoke(at moment, reason string) {
	if !l.revoked || at < l.revokedAt {
		l.revoked, l.revokedAt, l.revokeReason = true, at, reason
	}
}

// lose marks the hold as lost. The first loss stays.
func (l *holdLimits) lose(lost *loss, now moment) {
	if _, _, earlier := l.check(now); earlier != nil {
		lost = earlier
	}
	l.lost = lost
}
