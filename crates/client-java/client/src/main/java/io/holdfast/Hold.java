package io.holdfast;

import java.time.Duration;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.UnaryOperator;

/** A hold of one lock by this client: its session, its queue entry, and the latest grant. */
final class Hold {
    final Session session;
    final QueueEntry entry;
    private final AtomicReference<Grant> grant;
    /** Not later than the grant. */
    final long grantedFrom;
    /** The end by max_hold, which the cluster enforces. It moves only to earlier moments. */
    private volatile long clusterEnd;
    private final AtomicBoolean isReleased = new AtomicBoolean();

    /** The hold is a user of the session until {@link #endUse}, or the end of the release. */
    Hold(Session session, QueueEntry entry, Grant grant, long grantedFrom) {
        this.session = session;
        this.entry = entry;
        this.grant = new AtomicReference<>(grant);
        this.grantedFrom = grantedFrom;
        this.clusterEnd = entry.limits().maxUntil();
        entry.onUpgraded = token -> changeGrant(before -> before.withToken(token));
        session.addUser();
    }

    Grant grant() {
        return grant.get();
    }

    /** A change may replace the token only by a larger one: the answer to an earlier call may arrive later. */
    Grant changeGrant(UnaryOperator<Grant> change) {
        return grant.updateAndGet(before -> {
            Grant after = change.apply(before);
            return after.token() < before.token() ? after.withToken(before.token()) : after;
        });
    }

    /** Stores a grant in its entry. {@code mode} is the mode of this guard. */
    static Hold of(Session session, QueueEntry entry, Json grant, Mode mode, LockOptions options, long countedFrom) {
        long progress = options.progressTimeout == null ? 0 : Acquire.nanos(options.progressTimeout);
        long end = HoldLimits.end(grant.number("ends_in_ms"), options.maxHold, countedFrom);
        entry.limit(before -> HoldLimits.of(progress, end, session.clock.nanos()));
        entry.grantedAs(grant.text("lock"));
        entry.ticket = grant.numberOr("ticket", 0);
        session.entries.followUpgrade(grant);
        entry.hold(grant.numberOr("token", 0));
        session.limitsChanged(entry);
        return new Hold(session, entry, Grant.read(grant, mode), countedFrom);
    }

    /** Ends the hold at the end that the answer to a change carries, if that is sooner. */
    void endBy(Json answer, long countedFrom) {
        long end = Math.min(clusterEnd, HoldLimits.end(answer.number("ends_in_ms"), null, countedFrom));
        clusterEnd = end;
        long now = session.clock.nanos();
        entry.limit(limits -> limits.endAt(Math.min(limits.maxUntil(), end), now));
        session.limitsChanged(entry);
    }

    void endUse() {
        if (beginEnd()) {
            session.removeUser();
        }
    }

    /** Returns true once: to the thread that ends the hold, and then removes it as a user of the session. */
    boolean beginEnd() {
        return isReleased.compareAndSet(false, true);
    }

    Duration age() {
        return Duration.ofNanos(session.clock.nanos() - grantedFrom);
    }

    boolean isReleased() {
        return isReleased.get();
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
