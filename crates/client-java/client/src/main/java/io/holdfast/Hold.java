package io.holdfast;

import java.time.Duration;
import java.util.concurrent.atomic.AtomicBoolean;

/** A hold of one lock by this client: its session, its queue entry, and the latest grant. */
final class Hold {
    final Session session;
    final QueueEntry entry;
    /** A conversion may change the token. */
    volatile Grant grant;
    /** Not later than the grant. */
    final long grantedFrom;
    /** The end by max_hold, which the cluster enforces. */
    private final long clusterEnd;
    private final AtomicBoolean isInUse = new AtomicBoolean(true);

    /** The hold is a user of the session until {@link #endUse}. */
    Hold(Session session, QueueEntry entry, Grant grant, long grantedFrom) {
        this.session = session;
        this.entry = entry;
        this.grant = grant;
        this.grantedFrom = grantedFrom;
        this.clusterEnd = entry.limits().maxUntil();
        session.addUser();
    }

    void endUse() {
        if (isInUse.compareAndSet(true, false)) {
            session.removeUser();
        }
    }

    Duration age() {
        return Duration.ofNanos(session.clock.nanos() - grantedFrom);
    }

    boolean isReleased() {
        return !isInUse.get();
    }

    /** Throws the loss, also after the release. */
    void ensure() {
        Loss loss = session.lossOf(entry);
        if (loss == null && isReleased()) {
            loss = Loss.RELEASED_ELSEWHERE;
        }
        if (loss != null) {
            throw new LostException(loss);
        }
    }

    /** Ends the hold this long from now, or at the end by max_hold if that is sooner. */
    void endAfter(long nanos) {
        ensure();
        long now = session.clock.nanos();
        long end = Math.min(clusterEnd, Clock.plus(now, nanos));
        entry.limit(limits -> limits.endAt(end, now));
        ensure();
        session.changed.fire();
    }
}
