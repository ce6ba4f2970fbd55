package io.holdfast;

import java.time.Duration;

/**
 * The limits of a hold besides its session: a progress timeout, {@code max_hold}, and the deadline of a release request
 * that revokes. Pure arithmetic. An exceeded limit stays exceeded, and a late report does not restore the hold.
 *
 * @param progressTimeout the time between two reports; 0 without this limit
 * @param progressUntil the moment of the next report at the latest
 * @param maxUntil the end by max_hold; {@link #NEVER} without this limit
 * @param revokedAt the deadline of a release request that revokes; {@link #NEVER} without one
 * @param revokeReason the reason of that request, or null
 * @param lost the loss, or null
 */
record HoldLimits(
        long progressTimeout, long progressUntil, long maxUntil, long revokedAt, String revokeReason, Loss lost) {
    static final long NEVER = Long.MAX_VALUE;

    static HoldLimits none() {
        return new HoldLimits(0, NEVER, NEVER, NEVER, null, null);
    }

    /** The limits of a hold that begins now. */
    static HoldLimits of(long progressTimeout, long maxUntil, long now) {
        long until = progressTimeout > 0 ? Clock.plus(now, progressTimeout) : NEVER;
        return new HoldLimits(progressTimeout, until, maxUntil, NEVER, null, null);
    }

    /**
     * The local end of a hold: after the requested maximum, or at the end that the grant carries if that is sooner. The
     * hold may have the end of an earlier acquire of its owner, or of the sender of a transfer.
     *
     * @param endsInMillis the time that the grant carries; null without one
     * @param requested the requested maximum; null without one
     */
    static long end(Long endsInMillis, Duration requested, long countedFrom) {
        if (endsInMillis == null && requested == null) {
            return NEVER;
        }
        long carried = endsInMillis == null ? Long.MAX_VALUE : endsInMillis;
        long millis = requested == null ? carried : Math.min(carried, requested.toMillis());
        return Lease.deadline(countedFrom, Clock.millis(millis));
    }

    /** The nearest limit. */
    long next() {
        return Math.min(progressUntil, Math.min(maxUntil, revokedAt));
    }

    /** Returns the loss, or null while no limit is exceeded. */
    Loss loss(long now) {
        if (lost != null) {
            return lost;
        }
        if (now >= progressUntil) {
            return new Loss(Loss.Cause.STALLED, null);
        }
        if (now >= maxUntil) {
            return new Loss(Loss.Cause.MAX_HOLD_EXCEEDED, null);
        }
        return now >= revokedAt ? new Loss(Loss.Cause.REVOKED, revokeReason) : null;
    }

    /** Moves the progress deadline, unless a limit is exceeded. */
    HoldLimits reportProgress(long now) {
        boolean moves = progressTimeout > 0 && loss(now) == null;
        return moves
                ? new HoldLimits(
                        progressTimeout, Clock.plus(now, progressTimeout), maxUntil, revokedAt, revokeReason, null)
                : this;
    }

    /** Ends the hold at {@code at}, or at the deadline of an earlier request if that is sooner. */
    HoldLimits revoke(long at, String reason) {
        return at < revokedAt
                ? new HoldLimits(progressTimeout, progressUntil, maxUntil, at, reason, lost)
                : this;
    }

    /** Moves the end of the hold, unless a limit is exceeded. */
    HoldLimits endAt(long end, long now) {
        return loss(now) == null
                ? new HoldLimits(progressTimeout, progressUntil, end, revokedAt, revokeReason, null)
                : this;
    }

    /** Marks the hold as lost; the first loss stays. */
    HoldLimits lose(Loss loss, long now) {
        Loss first = loss(now);
        return new HoldLimits(
                progressTimeout, progressUntil, maxUntil, revokedAt, revokeReason, first == null ? loss : first);
    }
}
