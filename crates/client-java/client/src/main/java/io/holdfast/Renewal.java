package io.holdfast;

import java.time.Duration;
import java.util.List;
import java.util.concurrent.atomic.AtomicReference;

/**
 * The thread that renews a session while it has users, delivers its events, and closes it at the end.
 *
 * <p>It keeps one keepalive parked at a node. The call renews the session, and returns as soon as the cluster grants,
 * takes or requests a lock of the session. If no node accepts a parked call, the thread renews at a third of the
 * time-to-live with plain keepalives, and tries again. Bounds: one call in flight.
 */
final class Renewal {
    /** The pause between two parked keepalives. It batches events. */
    static final long PAUSE = 40 * Clock.MILLI;
    private static final long IDLE = Duration.ofHours(1).toNanos();

    private final Session session;
    private final SessionEvents events;
    /** Stops the keepalive in flight. */
    private final AtomicReference<Stop> stop = new AtomicReference<>();
    private Long since;
    private long parkAt;
    private int failures;

    Renewal(Session session, Long openedAt) {
        this.session = session;
        this.events = new SessionEvents(session);
        this.since = openedAt;
        this.parkAt = session.clock.nanos();
    }

    void stop() {
        Stop current = stop.get();
        if (current != null) {
            current.fire(Stop.Reason.NOT_NEEDED);
        }
    }

    void run() {
        boolean isOver = false;
        while (!isOver) {
            try {
                isOver = session.isFinished() || !serve();
            } catch (HoldfastException e) {
                // The answer is not from a node.
                session.renewalFailed(e);
                parkAt = session.clock.nanos() + Lease.retryPause(1);
            } catch (InterruptedException e) {
                session.end(Loss.SESSION_ENDED);
                isOver = true;
            }
        }
    }

    /** Does what is due next. Returns false when the session is over or can have no more users. */
    private boolean serve() throws InterruptedException {
        long seen = session.renewalDue.version();
        boolean hasUsers = session.users() > 0;
        if (!hasUsers && session.isAbandoned()) {
            closeOwn();
            return false;
        }
        Loss loss = session.loss();
        if (loss != null) {
            return closeAfterLoss(loss);
        }
        long now = session.clock.nanos();
        Lease lease = session.lease();
        if (!hasUsers) {
            session.renewalDue.await(seen, Math.min(IDLE, Clock.left(lease.deadline(), now)));
        } else if (now >= parkAt) {
            poll(lease);
        } else if (now >= lease.renewAt()) {
            renew();
        } else {
            long wake = Math.min(parkAt, Math.min(lease.renewAt(), lease.deadline()));
            session.renewalDue.await(seen, Clock.left(wake, now));
        }
        return true;
    }

    private void closeOwn() {
        if (session.isOwn && session.isAlive()) {
            session.close();
        }
        session.end(Loss.SESSION_ENDED);
    }

    /** Closes the session when its last user is gone: a node may renew a session that is over for this client. */
    private boolean closeAfterLoss(Loss loss) throws InterruptedException {
        session.end(loss);
        if (session.users() > 0) {
            session.renewalDue.await(session.renewalDue.version(), Duration.ofMillis(500).toNanos());
            return true;
        }
        if (session.isOwn) {
            session.close();
        }
        return false;
    }

    private Stop begin() {
        Stop next = new Stop();
        stop.set(next);
        return next;
    }

    /** Parks a keepalive for a sixth of the lease: two thirds are then left when the node answers the next one. */
    private void poll(Lease lease) throws InterruptedException {
        List<SessionEvents.KnownHold> known = events.knownHolds();
        long now = session.clock.nanos();
        long wait = Math.min(lease.parkTime(Numbers.jitter()), events.nextExamination(now));
        parkAt = now + PAUSE;
        long left = Clock.left(lease.deadline(), now);
        Delivery delivery = session.checked(session.calls.parkKeepAlive(session.name, session.incarnation, since, wait, left, begin()))
                .expectingList("holds");
        if (delivery.isStopped()) {
            return;
        }
        if (delivery.error() != null) {
            pollFailed(delivery.error());
            return;
        }
        failures = 0;
        Json body = delivery.json();
        long waited = Clock.millis(body.numberOr("waited_ms", 0));
        long held = waited + Clock.millis(body.numberOr("expires_in_ms", 0));
        if (acknowledge(delivery, held)) {
            since = body.numberOr("revision", since == null ? 0 : since);
            events.deliver(known, body, held, Clock.plus(delivery.sent(), waited));
        }
    }

    private void pollFailed(HoldfastException error) throws InterruptedException {
        if (error instanceof LostException) {
            return;
        }
        long pause = failures == 0 ? PAUSE : Lease.retryPause(failures);
        failures++;
        parkAt = session.clock.nanos() + pause;
        renew();
    }

    private void renew() throws InterruptedException {
        List<SessionEvents.KnownHold> known = events.knownHolds();
        long left = Clock.left(session.lease().deadline(), session.clock.nanos());
        Delivery delivery = session.checked(session.calls.keepAlive(session.name, session.incarnation, left, begin())).expectingList("holds");
        if (delivery.isStopped() || delivery.error() instanceof LostException) {
            return;
        }
        if (delivery.error() != null) {
            session.renewalFailed(delivery.error());
        } else {
            Json body = delivery.json();
            long held = Clock.millis(body.numberOr("expires_in_ms", 0));
            if (acknowledge(delivery, held)) {
                events.reconcile(known, body.list("holds"), held);
            }
        }
    }

    private boolean acknowledge(Delivery delivery, long held) {
        session.background.run(() -> session.metrics.renewed(session.name, true));
        return session.acknowledge(delivery.sent(), held) == null;
    }
}
