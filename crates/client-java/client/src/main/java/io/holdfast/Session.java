package io.holdfast;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Supplier;

/**
 * A session of this client: its lease, its queue entries, and the count of its users. Guards and acquires in progress
 * are users. The session is renewed exactly while it has users.
 */
final class Session {
    private static final System.Logger LOG = System.getLogger("io.holdfast");
    /** The machine may be suspended while a thread sleeps, so deadlines are compared with the clock this often. */
    private static final long CLOCK_CHECK = 500 * Clock.MILLI;
    private static final long IDLE = Duration.ofHours(1).toNanos();

    final Calls calls;
    final Clock clock;
    final Background background;
    final Metrics metrics;
    final String name;
    final long incarnation;
    /** Whether the client generated the name: no other client uses the session, and it ends with the client. */
    final boolean isOwn;
    final Entries entries = new Entries();
    final Pending pending = new Pending();
    final NumberedCalls numbered = new NumberedCalls();
    /** Fires after a change that the deadlines may need: of the lease or of the entries. */
    final Signal changed = new Signal();
    /** Fires after a change that the renewal may need: of the lease or of the users. */
    final Signal renewalDue = new Signal();
    private final AtomicReference<Lease> lease;
    private final AtomicInteger users = new AtomicInteger();
    private volatile boolean isAbandoned;
    private volatile boolean isFinished;
    private final Renewal renewal;

    private Session(Client client, String name, boolean isOwn, Delivery opened) {
        Json body = opened.json();
        this.calls = client.calls();
        this.clock = calls.clock;
        this.background = client.background();
        this.metrics = client.metrics();
        this.name = name;
        this.isOwn = isOwn;
        this.incarnation = body.numberOr("incarnation", 0);
        long held = Clock.millis(body.numberOr("expires_in_ms", 0));
        this.lease = new AtomicReference<>(Lease.acknowledged(opened.sent(), held, Numbers.jitter()));
        this.renewal = new Renewal(this, body.number("revision"));
    }

    /** What a session needs of its client. */
    interface Client {
        Calls calls();

        Background background();

        Metrics metrics();
    }

    /** Opens a session, or joins an open one of this name. {@code ttl} may be null. */
    static Session open(
            Client client, String name, boolean isOwn, Duration ttl, Map<String, String> labels, boolean isInterruptible)
            throws InterruptedException {
        Long millis = ttl == null ? null : ttl.toMillis();
        Delivery opened = client.calls().open(name, Numbers.next(0), millis, labels, isInterruptible);
        long newest = opened.error() == null ? -1 : opened.error().newest(Codes.ATTEMPT_OVER);
        if (newest >= 0) {
            // An earlier session of this name had a larger number.
            opened = client.calls().open(name, Numbers.next(newest), millis, labels, isInterruptible);
        }
        Session session = new Session(client, name, isOwn, opened.expecting(body -> body.numberOr("incarnation", 0) > 0));
        Background.thread("holdfast-renewal-" + name, session.renewal::run).start();
        Background.thread("holdfast-deadlines-" + name, session::watchDeadlines).start();
        return session;
    }

    Lease lease() {
        return lease.get();
    }

    /** Returns the loss, or null while the session certainly lives. */
    Loss loss() {
        return lease.get().loss(clock.nanos());
    }

    boolean isAlive() {
        return loss() == null;
    }

    /** Returns why every wait must end: the session is over, or the client closes. Otherwise null. */
    Loss ending() {
        Loss loss = loss();
        return loss == null && pending.isClosing() ? Loss.SESSION_ENDED : loss;
    }

    void throwIfEnding() {
        Loss loss = ending();
        if (loss != null) {
            throw new LostException(loss);
        }
    }

    /** Records an acknowledged renewal. Returns the loss if the deadline passed before, otherwise null. */
    Loss acknowledge(long countedFrom, long held) {
        Lease now = lease.updateAndGet(before ->
                before.acknowledge(countedFrom, held, Numbers.jitter(), clock.nanos()));
        long read = clock.nanos();
        // Most acknowledgements only extend the lease, and wake no thread.
        changed.fireWithin(Clock.left(now.deadline(), read));
        renewalDue.fireWithin(Clock.left(now.renewAt(), read));
        return now.loss(read);
    }

    void renewalFailed(HoldfastException error) {
        String hint = error.hint() == null ? "" : " (" + error.hint() + ")";
        lease.updateAndGet(before -> before.renewalFailed(error.getMessage() + hint, clock.nanos()));
        background.run(() -> metrics.renewed(name, false));
        LOG.log(System.Logger.Level.DEBUG, () -> "a renewal of session " + name + " failed: " + error.getMessage());
    }

    void end(Loss loss) {
        lease.updateAndGet(before -> before.end(loss, clock.nanos()));
        fireAll();
    }

    private void fireAll() {
        changed.fire();
        renewalDue.fire();
    }

    /** Ends the session if the cluster answered that it has ended. */
    Delivery checked(Delivery delivery) {
        if (delivery.error() instanceof LostException lost) {
            end(lost.loss());
        }
        return delivery;
    }

    /** Records a grant, and returns the moment from which its times count. Throws the loss if the deadline passed before. */
    long acknowledgeGrant(Json grant, long sent) {
        long countedFrom = Clock.plus(sent, Clock.millis(grant.numberOr("waited_ms", 0)));
        Loss loss = acknowledge(countedFrom, Clock.millis(grant.numberOr("expires_in_ms", 0)));
        if (loss != null) {
            throw new LostException(loss);
        }
        return countedFrom;
    }

    void addUser() {
        users.incrementAndGet();
        renewalDue.fireWithin(Renewal.PAUSE);
    }

    void removeUser() {
        if (users.decrementAndGet() == 0) {
            renewalDue.fireWithin(Renewal.PAUSE);
        }
    }

    int users() {
        return users.get();
    }

    /** Records that the client will not use the session again: its threads end when its users are gone. */
    void abandon() {
        isAbandoned = true;
        fireAll();
    }

    boolean isAbandoned() {
        return isAbandoned;
    }

    /** Ends the threads of the session, after its end. */
    void finish() {
        isFinished = true;
        renewal.stop();
        fireAll();
    }

    boolean isFinished() {
        return isFinished;
    }

    /** Returns the loss of a hold, or null while it is certainly held. */
    Loss lossOf(QueueEntry entry) {
        if (entry.isTransferred) {
            return Loss.TRANSFERRED;
        }
        long now = clock.nanos();
        Loss limit = entry.limits().loss(now);
        return limit != null ? limit : lease.get().loss(now);
    }

    long deadlineOf(QueueEntry entry) {
        return Math.min(entry.limits().next(), lease.get().deadline());
    }

    /** Marks a hold as lost; the first loss stays. */
    void lose(QueueEntry entry, Loss loss) {
        entry.limit(limits -> limits.lose(loss, clock.nanos()));
        changed.fire();
    }

    /** Stores entries whose waits end with the session. */
    void add(List<QueueEntry> added) {
        entries.add(added);
        changed.fireWithin(CLOCK_CHECK);
    }

    /** Makes the deadlines count the limits of a new hold. */
    void limitsChanged(QueueEntry entry) {
        changed.fireWithin(Clock.left(entry.limits().next(), clock.nanos()));
    }

    /** The thread that reports each loss, and releases holds that the client ended. It ends with the session. */
    private void watchDeadlines() {
        while (true) {
            long seen = changed.version();
            boolean isLast = isFinished || isAbandoned && entries.isEmpty();
            long next = reportLosses();
            if (isLast) {
                return;
            }
            long wait = entries.isEmpty() ? IDLE : Math.min(CLOCK_CHECK, Clock.left(next, clock.nanos()));
            changed.awaitUninterruptibly(seen, wait);
        }
    }

    /** Reports each new loss. Returns the next deadline. */
    long reportLosses() {
        long next = lease.get().deadline();
        for (QueueEntry entry : entries.all()) {
            Loss loss = lossOf(entry);
            QueueEntry.Stage stage = entry.stage();
            if (loss == null) {
                next = Math.min(next, entry.limits().next());
            } else if (stage == QueueEntry.Stage.WAITING) {
                entry.stop(Stop.Reason.LOST);
            } else if (stage != QueueEntry.Stage.LEAVING && !entry.isLossReported.getAndSet(true)) {
                report(entry, loss);
            }
        }
        return next;
    }

    private void report(QueueEntry entry, Loss loss) {
        entry.limit(limits -> limits.lose(loss, clock.nanos()));
        entry.stop(Stop.Reason.LOST);
        LOG.log(System.Logger.Level.DEBUG, () -> "lock " + entry.lock + " of session " + name + " is lost: " + loss);
        background.run(() -> entry.lost.complete(loss));
        background.run(() -> metrics.lost(entry.lock, loss.cause()));
        if (loss.cause().isEndedByClient()) {
            releaseInBackground(List.of(entry));
        }
    }

    /**
     * Stores a release request, whose time counts from {@code countedFrom}. A request that revokes ends the hold at its
     * deadline.
     */
    void requestRelease(QueueEntry entry, ReleaseRequest request, long countedFrom) {
        if (request.revoke()) {
            long at = Lease.deadline(countedFrom, request.wantedIn().toNanos());
            entry.limit(limits -> limits.revoke(at, request.reason()));
            changed.fire();
        }
        ReleaseRequest arrived = request.arrivedAfter(clock.nanos() - countedFrom);
        entry.releaseRequest.set(arrived);
        entry.releaseListeners.forEach(listener -> background.run(() -> listener.accept(arrived)));
    }

    /** Releases entries of one acquire. Entries with an uncertain outcome stay listed. Returns the error, or null. */
    HoldfastException release(List<QueueEntry> released) {
        released.forEach(entry -> entry.enter(QueueEntry.Stage.LEAVING));
        try (Pending.Work release = pending.begin()) {
            HoldfastException error = calls.send(releaseCall(released)).expectingEnd().error();
            if (error == null || !error.isUnclear()) {
                forget(released);
            }
            return error;
        }
    }

    void forget(List<QueueEntry> released) {
        entries.remove(released);
        if (isAbandoned) {
            changed.fire();
        }
    }

    /** Releases entries in the background, until the outcome is certain. */
    void releaseInBackground(List<QueueEntry> released) {
        releaseInBackground(released, () -> { });
    }

    /** As {@link #releaseInBackground(List)}. Runs {@code confirmed} if the cluster confirms the release. */
    void releaseInBackground(List<QueueEntry> released, Runnable confirmed) {
        released.forEach(entry -> entry.enter(QueueEntry.Stage.LEAVING));
        inBackground(() -> {
            if (untilCertain(() -> release(released))) {
                confirmed.run();
            }
            forget(released);
        });
    }

    /**
     * Repeats a release until its outcome is certain or the client is closed. The end of a generated session ends its
     * holds, so the repetition stops. A named session that this client did not renew may live in the cluster, because
     * another program renews it. A copy of a release is harmless, however late it arrives. Returns whether the cluster has
     * confirmed it.
     */
    boolean untilCertain(Supplier<HoldfastException> release) {
        boolean isClosing = false;
        for (int failures = 1; ; failures++) {
            HoldfastException error = release.get();
            boolean isOver = isFinished || isOwn && !isAlive();
            if (error == null || !error.isUnclear() || isOver) {
                return error == null;
            }
            pause(Math.max(Lease.retryPause(failures), Clock.left(error.retryAt, clock.nanos())), isClosing);
            if (!isClosing && pending.isClosing()) {
                // The close waits for the release, so the next one is sent at once, and the pauses are short again.
                isClosing = true;
                failures = 0;
            }
        }
    }

    /** Returns after {@code nanos}, at the end of the threads, or when the client begins to close. */
    void pause(long nanos, boolean isClosing) {
        long until = Clock.plus(clock.nanos(), nanos);
        long seen = changed.version();
        while (!isFinished && pending.isClosing() == isClosing && Clock.left(until, clock.nanos()) > 0) {
            changed.awaitUninterruptibly(seen, Clock.left(until, clock.nanos()));
            seen = changed.version();
        }
    }

    /** Stops the waits and the pauses of releases. Returns when all work has ended, or after the request timeout. */
    void settle() {
        pending.stop();
        changed.fire();
        pending.settle(clock, calls.timeout);
    }

    /** Runs a release in the background. */
    void inBackground(Runnable release) {
        Pending.Work work = pending.begin();
        background.run(() -> {
            try (work) {
                release.run();
            }
        });
    }

    private Call releaseCall(List<QueueEntry> released) {
        QueueEntry first = released.get(0);
        Call.Target target;
        if (released.size() == 1) {
            target = Call.Target.of("/v1/locks/", first.lock);
        } else {
            target = new Call.Target("/v1/locks");
            released.forEach(entry -> target.with(Parameter.NAME, entry.lock));
        }
        target.with(Parameter.SESSION, name).with(Parameter.OWNER, first.owner);
        if (first.attempt == QueueEntry.TRANSFERRED) {
            target.with(Parameter.TOKEN, first.token());
        } else {
            target.with(Parameter.ATTEMPT, first.attempt);
        }
        return Call.of("DELETE", target.toString()).harmless();
    }

    /** Closes the session in the cluster; if no node answers, it expires after its time-to-live. */
    HoldfastException close() {
        return calls.close(name, incarnation).error();
    }
}
