package io.holdfast;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;

/**
 * An acquire: one entry in each queue, however many calls repeat the request. It runs in the thread of the caller. An
 * acquire that fails or is interrupted releases in the background the entries that it may have left behind.
 */
final class Acquire {
    /** Acquires that may fail because the idle session has ended. */
    private static final int FRESH_SESSIONS_MAX = 3;
    /** The prefix of generated owners; other processes may use the same session. */
    private static final String PROCESS = Numbers.unique("g");
    private static final AtomicLong OWNERS = new AtomicLong();

    /** What the cluster may have stored. */
    private enum Left {
        NOTHING,
        IN_DOUBT,
        /** The entries belong to holds. */
        GRANTED
    }

    private final Session session;
    private final List<String> locks;
    private final LockOptions options;
    /** Nanoseconds of the clock; {@link Long#MAX_VALUE} waits without bound. */
    private final long until;
    private final boolean isInterruptible;
    private final List<QueueEntry> entries;
    private Left left = Left.NOTHING;
    /** Whether an earlier copy of the attempt has no answer. */
    private boolean inDoubt;
    private boolean isGrantedElsewhere;
    private boolean wasInterrupted;

    private Acquire(Session session, List<String> locks, LockOptions options, long until, boolean isInterruptible) {
        this.session = session;
        this.locks = locks;
        this.options = options;
        this.until = until;
        this.isInterruptible = isInterruptible;
        String owner = options.owner == null ? PROCESS + "-" + OWNERS.incrementAndGet() : options.owner;
        long attempt = Numbers.next(0);
        this.entries = locks.stream().map(lock -> new QueueEntry(lock, owner, attempt, options.isSharded())).toList();
    }

    static List<Hold> runUninterruptibly(Holdfast client, List<String> locks, LockOptions options) {
        try {
            return run(client, locks, options, false);
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    static List<Hold> run(Holdfast client, List<String> locks, LockOptions options) throws InterruptedException {
        return run(client, locks, options, true);
    }

    private static List<Hold> run(Holdfast client, List<String> locks, LockOptions options, boolean isInterruptible)
            throws InterruptedException {
        long started = client.clock().nanos();
        try {
            List<Hold> holds = onFreshSessions(client, locks, options, isInterruptible);
            Duration waited = Duration.ofNanos(client.clock().nanos() - started);
            locks.forEach(lock -> client.metrics().acquired(lock, waited));
            return holds;
        } catch (HoldfastException | InterruptedException e) {
            locks.forEach(lock -> client.metrics().acquireFailed(lock, e));
            throw e;
        }
    }

    private static List<Hold> onFreshSessions(
            Holdfast client, List<String> locks, LockOptions options, boolean isInterruptible)
            throws InterruptedException {
        Clock clock = client.clock();
        long until = options.wait == null ? Long.MAX_VALUE : Clock.plus(clock.nanos(), nanos(options.wait));
        for (int attempts = 1; ; attempts++) {
            Session session = client.sessions().use(options.ttl, isInterruptible);
            try {
                return new Acquire(session, locks, options, until, isInterruptible).acquire();
            } catch (LostException e) {
                // The session ended while it was idle, or while the entry was queued. The caller held nothing.
                boolean isOver = clock.nanos() >= until && attempts >= FRESH_SESSIONS_MAX;
                if (isOver || !session.isOwn || client.isClosed()) {
                    throw e.loss().cause() == Loss.Cause.NOT_RENEWED
                            ? new UnavailableException(e.loss().toString()) : e;
                }
            } finally {
                session.removeUser();
            }
        }
    }

    static long nanos(Duration duration) {
        return Clock.millis(duration.toMillis());
    }

    private List<Hold> acquire() throws InterruptedException {
        session.add(entries);
        try (Pending.Work acquire = session.pending.begin()) {
            return acquireUntil();
        }
    }

    private List<Hold> acquireUntil() throws InterruptedException {
        try {
            List<Hold> holds = null;
            while (holds == null) {
                session.throwIfEnding();
                holds = attempt();
            }
            return holds;
        } finally {
            switch (left) {
                case NOTHING -> session.forget(entries);
                case IN_DOUBT -> session.releaseInBackground(entries);
                case GRANTED -> { }
            }
            if (wasInterrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    /** Sends the call once. Returns null if it must be repeated. */
    private List<Hold> attempt() throws InterruptedException {
        long wait = nextWait();
        left = Left.IN_DOUBT;
        Stop stop = new Stop();
        entries.forEach(entry -> entry.begin(stop));
        Delivery delivery;
        try (Pending.Work call = session.pending.stoppable(stop)) {
            delivery = session.checked(deliver(call(wait), stop));
        }
        boolean wasGrantedElsewhere = isGrantedElsewhere;
        isGrantedElsewhere = false;
        if (delivery.isStopped()) {
            inDoubt = true;
            isGrantedElsewhere = stop.reason() == Stop.Reason.GRANTED_ELSEWHERE && !wasGrantedElsewhere;
            return null;
        }
        inDoubt |= delivery.inDoubt();
        if (delivery.error() == null) {
            return granted(delivery);
        }
        if (!mayRepeat(delivery.error())) {
            left = !inDoubt && delivery.isCertainlyRejected() ? Left.NOTHING : Left.IN_DOUBT;
            throw delivery.error();
        }
        awaitRetry(delivery.error().retryAt);
        return null;
    }

    /** Waits until the nodes accept the call again, or the wait ends. */
    private void awaitRetry(long at) throws InterruptedException {
        Stop stop = new Stop();
        entries.forEach(entry -> entry.begin(stop));
        // A loss that came before stops nothing.
        session.throwIfEnding();
        try (Pending.Work pause = session.pending.stoppable(stop)) {
            while (stop.reason() == null && Clock.left(at, session.clock.nanos()) > 0) {
                try {
                    stop.await(Clock.left(at, session.clock.nanos()));
                } catch (InterruptedException e) {
                    if (isInterruptible) {
                        throw e;
                    }
                    wasInterrupted = true;
                }
            }
        }
        isGrantedElsewhere = stop.reason() == Stop.Reason.GRANTED_ELSEWHERE;
        inDoubt |= isGrantedElsewhere;
    }

    /** A repeated call keeps the queue entry. */
    private Delivery deliver(Call call, Stop stop) throws InterruptedException {
        while (true) {
            try {
                return session.calls.deliverAcquire(call, isGrantedElsewhere, stop);
            } catch (InterruptedException e) {
                if (isInterruptible) {
                    throw e;
                }
                wasInterrupted = true;
                inDoubt = true;
            }
        }
    }

    private long nextWait() {
        long waits = until == Long.MAX_VALUE ? Calls.WAIT_MAX : Clock.left(until, session.clock.nanos());
        waits = Math.min(waits, Calls.WAIT_MAX);
        return waits - waits % Clock.MILLI;
    }

    /** Whether no time is left at a moment, or now if that is later. */
    private boolean isOver(long at) {
        return until != Long.MAX_VALUE && Clock.left(until, Math.max(at, session.clock.nanos())) < Clock.MILLI;
    }

    /** Whether the call is sent again. Begins another attempt if the number of this one is over. */
    private boolean mayRepeat(HoldfastException error) {
        long newest = error.newest(Codes.ATTEMPT_OVER);
        if (newest >= 0) {
            long next = Numbers.next(newest);
            entries.forEach(entry -> entry.attempt = next);
            inDoubt = false;
            return true;
        }
        // The node died, held the call for the maximum time, or has no leader: the queue entry still exists. Or the API
        // bounds the wait of one call.
        boolean isTransient = error.isUncertain() || error.hasCode(Codes.WAIT_TIMEOUT);
        // Until its session ends, a waiter keeps its place and tries the token that the file has.
        return !isOver(error.retryAt) && (isTransient || session.calls.mayGetToken(error));
    }

    private Call call(long wait) {
        boolean isOne = locks.size() == 1;
        Call.Target target = isOne ? Call.Target.of("/v1/locks/", locks.get(0)) : new Call.Target("/v1/locks");
        if (!isOne) {
            locks.forEach(lock -> target.with(Parameter.NAME, lock));
        }
        QueueEntry first = entries.get(0);
        // With the incarnation, the call opens no ended session again.
        target.with(Parameter.SESSION, session.name)
                .with(Parameter.INCARNATION, session.incarnation)
                .with(Parameter.OWNER, first.owner)
                .with(Parameter.ATTEMPT, first.attempt)
                .waiting(wait);
        options.addTo(target);
        return Call.of(isOne ? "PUT" : "POST", target.toString()).harmless().waiting(wait);
    }

    private List<Hold> granted(Delivery delivery) {
        Json body = delivery.json();
        List<Json> grants = locks.size() == 1 ? List.of(body) : body.list("grants");
        if (grants.size() != locks.size()) {
            throw new UnexpectedResponseException("not all locks were granted");
        }
        // All or none of the entries become holds.
        List<QueueEntry> granted = grants.stream().map(this::entryOf).toList();
        Mode mode = options.mode == null ? Mode.EXCLUSIVE : options.mode;
        List<Hold> holds = new ArrayList<>();
        for (int i = 0; i < grants.size(); i++) {
            long countedFrom = session.acknowledgeGrant(grants.get(i), delivery.sent());
            holds.add(Hold.of(session, granted.get(i), grants.get(i), mode, options, countedFrom));
        }
        left = Left.GRANTED;
        return holds;
    }

    private QueueEntry entryOf(Json grant) {
        return entries.stream()
                .filter(entry -> Grant.isOf(entry, grant))
                .findFirst()
                .orElseThrow(() -> new UnexpectedResponseException("the answer grants none of the requested locks"));
    }
}
