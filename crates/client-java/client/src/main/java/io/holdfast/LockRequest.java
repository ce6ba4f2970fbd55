package io.holdfast;

import java.time.Duration;
import java.util.List;
import java.util.function.Consumer;
import java.util.function.Function;

/**
 * A request for a lock. Nothing is sent before {@link #acquire} or {@link #tryAcquire}. Each method returns another
 * request, so a request can be shared and used again.
 *
 * <pre>{@code
 * try (Guard guard = holdfast.lock("orders").waitAtMost(Duration.ofSeconds(10)).acquire()) {
 *     guard.ensure();
 *     update(order, guard.token());
 * }
 * }</pre>
 */
public final class LockRequest {
    private static final Duration MILLI = Duration.ofMillis(1);
    private static final Duration HOLD_MAX = Duration.ofHours(720);

    final Holdfast client;
    final String name;
    final LockOptions options;

    LockRequest(Holdfast client, String name, LockOptions options) {
        this.client = client;
        this.name = Names.lock(name);
        this.options = options;
    }

    private LockRequest with(Consumer<LockOptions> change) {
        LockOptions copy = options.copy();
        change.accept(copy);
        return new LockRequest(client, name, copy);
    }

    /**
     * Bounds the wait in the queue: after it, {@link #acquire} throws {@link BusyException}. Without this call it waits
     * without bound.
     *
     * @param wait the maximum wait; zero acquires only a free lock
     * @return the request
     */
    public LockRequest waitAtMost(Duration wait) {
        return with(options -> options.wait = wait.isNegative() ? Duration.ZERO : wait);
    }

    /**
     * How long the lock of a dead holder stays held. A client has one session for each ttl that its locks name.
     *
     * @param ttl from 1 s to 24 h; by default the client's
     * @return the request
     */
    public LockRequest ttl(Duration ttl) {
        Names.ttl(ttl);
        return with(options -> options.ttl = ttl);
    }

    /**
     * Acquires in a mode; by default exclusive.
     *
     * @param mode the mode
     * @return the request
     */
    public LockRequest mode(Mode mode) {
        return with(options -> options.mode = mode);
    }

    /**
     * Acquires in shared mode, beside other shared holders and one upgradable holder.
     *
     * @return the request
     */
    public LockRequest shared() {
        return mode(Mode.SHARED);
    }

    /**
     * Acquires beside shared holders, with the right to become exclusive by {@link Guard#upgrade}.
     *
     * @return the request
     */
    public LockRequest upgradable() {
        return mode(Mode.UPGRADABLE);
    }

    /**
     * The number of permits of a semaphore; the first acquire with a limit creates it.
     *
     * @param limit from 1 to 10,000
     * @return the request
     */
    public LockRequest limit(int limit) {
        Names.between("the limit", limit, 1, 10_000);
        return with(options -> options.limit = limit);
    }

    /**
     * Acquires this many permits of a semaphore, all or none.
     *
     * @param permits from 1 to 10,000; by default 1
     * @return the request
     */
    public LockRequest permits(int permits) {
        Names.between("permits", permits, 1, 10_000);
        return with(options -> options.permits = permits);
    }

    /**
     * The priority in the queue. One level counts as ten seconds of waiting, unless the policy of the lock differs.
     *
     * @param priority from 0 to 9
     * @return the request
     */
    public LockRequest priority(int priority) {
        Names.between("the priority", priority, 0, 9);
        return with(options -> options.priority = priority);
    }

    /**
     * Holds the lock for this owner, which may acquire it again. By default every guard has another owner, so guards of
     * one client exclude each other.
     *
     * @param owner a name without '/' and white space
     * @return the request
     */
    public LockRequest owner(String owner) {
        Names.flat("the owner", owner, 128);
        return with(options -> options.owner = owner);
    }

    /**
     * With false, rejects another acquire of an owner that holds the lock. With true, enters the hold that the owner has
     * in a semaphore. Without this call, another acquire of the owner enters its hold of a lock.
     *
     * @param reentrant whether another acquire of the owner enters
     * @return the request
     */
    public LockRequest reentrant(boolean reentrant) {
        return with(options -> options.reentrant = reentrant);
    }

    /**
     * Throws {@link BusyException} instead of queueing behind this many waiters.
     *
     * @param max at least 1
     * @return the request
     */
    public LockRequest queueMax(int max) {
        Names.between("queueMax", max, 1, Integer.MAX_VALUE);
        return with(options -> options.queueMax = max);
    }

    /**
     * Ends the hold after this time, despite renewals.
     *
     * @param max from 1 ms to 720 h
     * @return the request
     */
    public LockRequest maxHold(Duration max) {
        Names.between("maxHold", max, MILLI, HOLD_MAX);
        return with(options -> options.maxHold = max);
    }

    /**
     * Blocks other holders for this time after the grant, even if the lock is released earlier.
     *
     * @param min from 1 ms to 720 h
     * @return the request
     */
    public LockRequest minHold(Duration min) {
        Names.between("minHold", min, MILLI, HOLD_MAX);
        return with(options -> options.minHold = min);
    }

    /**
     * A text that readers of the lock see, e.g. an address or a job number.
     *
     * @param value at most 4,096 bytes
     * @return the request
     */
    public LockRequest value(String value) {
        return with(options -> options.value = value);
    }

    /**
     * The maximum time between two calls of {@link Guard#reportProgress}. After it, the client releases the lock.
     *
     * @param timeout the time
     * @return the request
     */
    public LockRequest progressTimeout(Duration timeout) {
        return with(options -> options.progressTimeout = timeout);
    }

    /**
     * Acquires one of several shards of a sharded lock, each of which is a separate lock. The cluster selects the shard
     * that the owner holds, otherwise a free one, otherwise the one with the shortest queue.
     *
     * @param count the number of shards, which the first acquire sets
     * @return the request
     */
    public LockRequest shards(int count) {
        Names.between("the number of shards", count, 1, Integer.MAX_VALUE);
        return with(options -> options.shards = count);
    }

    /**
     * Acquires this shard of a sharded lock.
     *
     * @param number counted from 0
     * @return the request
     */
    public LockRequest shard(int number) {
        Names.between("the shard", number, 0, Integer.MAX_VALUE);
        return with(options -> options.shard = number);
    }

    /**
     * Waits for the lock that {@link Guard#transfer} gives to the session of this client. Never acquires the lock. The
     * receiver is the {@link #owner}, or the session itself. {@link #progressTimeout} and {@link #ttl} apply, too.
     *
     * @return the guard; its release ends the hold, so release guards that re-entered it first
     * @throws InterruptedException if the thread is interrupted while it waits
     * @throws BusyException if {@link #waitAtMost} ended before the transfer
     */
    public Guard receiveTransfer() throws InterruptedException {
        return new Guard(Transfer.receive(client, name, options));
    }

    /**
     * Acquires the lock and keeps it until the guard is closed or lost. An interrupt leaves the queue.
     *
     * @return the guard
     * @throws InterruptedException if the thread is interrupted while it waits
     * @throws BusyException if the wait ended before the grant
     * @throws HoldfastException see its subclasses
     */
    public Guard acquire() throws InterruptedException {
        return new Guard(Acquire.run(client, List.of(name), options));
    }

    /**
     * As {@link #acquire}, but an interrupt takes effect afterwards.
     *
     * @return the guard
     * @throws BusyException if the wait ended before the grant
     * @throws HoldfastException see its subclasses
     */
    public Guard acquireUninterruptibly() {
        return new Guard(Acquire.runUninterruptibly(client, List.of(name), options));
    }

    /**
     * Acquires the lock if it is free, and does not queue. An interrupt takes effect afterwards.
     *
     * @return the guard
     * @throws BusyException if the lock is not free
     * @throws HoldfastException see its subclasses
     */
    public Guard tryAcquire() {
        return waitAtMost(Duration.ZERO).acquireUninterruptibly();
    }

    /**
     * Acquires the lock, runs the work and releases the lock.
     *
     * @param work gets the guard; must check {@link Guard#ensure} before each write
     * @param <T> the result of the work
     * @return the result
     * @throws InterruptedException if the thread is interrupted while it waits
     * @throws LostException if the lock was lost during the work
     */
    public <T> T withLock(Function<Guard, T> work) throws InterruptedException {
        try (Guard guard = acquire()) {
            return work.apply(guard);
        }
    }

    /**
     * A view of this lock for code that knows {@link java.util.concurrent.locks.Lock}. The thread that acquires it owns
     * it, and may acquire it again.
     *
     * @return the view
     */
    public HoldfastLock asLock() {
        return new HoldfastLock(this);
    }
}
