package io.holdfast.locks;

import io.holdfast.HoldfastLock;
import io.holdfast.LockRequest;
import java.time.Duration;
import java.util.concurrent.TimeUnit;

/**
 * A reentrant lock with the method names of Redisson's {@code RLock}. Without a lease the client renews the hold; with a
 * lease the hold ends after it.
 */
public final class RLock extends HoldfastLock {
    /**
     * Creates a view of a lock.
     *
     * @param request the lock with its options
     */
    public RLock(LockRequest request) {
        super(request);
    }

    /**
     * Acquires the lock for at most a lease; a lease below zero is no limit.
     *
     * @param leaseTime the lease
     * @param unit its unit
     */
    public void lock(long leaseTime, TimeUnit unit) {
        if (leaseTime < 0) {
            lock();
        } else {
            lockFor(Duration.ofNanos(unit.toNanos(leaseTime)));
        }
    }

    /**
     * Acquires the lock within a time, for at most a lease; a lease below zero is no limit.
     *
     * @param waitTime the maximum wait
     * @param leaseTime the lease
     * @param unit the unit of both
     * @return whether the thread holds the lock
     * @throws InterruptedException if the thread is interrupted while it waits
     */
    public boolean tryLock(long waitTime, long leaseTime, TimeUnit unit) throws InterruptedException {
        return leaseTime < 0
                ? tryLock(waitTime, unit)
                : tryLockFor(Duration.ofNanos(unit.toNanos(waitTime)), Duration.ofNanos(unit.toNanos(leaseTime)));
    }

    /**
     * The time that this thread certainly holds the lock without another renewal.
     *
     * @return milliseconds; -2 if the thread does not hold the lock
     */
    public long remainTimeToLive() {
        return isHeldByCurrentThread() ? guard().remaining().toMillis() : -2;
    }
}
