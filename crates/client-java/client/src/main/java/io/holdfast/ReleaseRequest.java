package io.holdfast;

import java.time.Duration;

/**
 * A request to the holder to release the lock. The hold continues: finish the work and release the guard.
 *
 * @param reason the requester's reason; may be null
 * @param wantedIn the time within which the requester wants the lock, counted from the arrival of the request
 * @param revoke whether the cluster ends the hold at the deadline
 */
public record ReleaseRequest(String reason, Duration wantedIn, boolean revoke) {
    static ReleaseRequest read(Json body) {
        return new ReleaseRequest(
                body.text("reason"), Duration.ofMillis(body.numberOr("wanted_in_ms", 0)), body.flag("revoke"));
    }

    /** The request as it is after a time. */
    ReleaseRequest arrivedAfter(long nanos) {
        return new ReleaseRequest(reason, Duration.ofNanos(Math.max(0, wantedIn.toNanos() - nanos)), revoke);
    }

    /** Whether both are the same request, received at different moments. */
    boolean isSame(ReleaseRequest other) {
        return revoke == other.revoke && java.util.Objects.equals(reason, other.reason);
    }
}
