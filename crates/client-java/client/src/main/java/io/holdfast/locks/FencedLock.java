package io.holdfast.locks;

import io.holdfast.HoldfastLock;
import io.holdfast.LockRequest;
import java.util.concurrent.TimeUnit;

/** A reentrant lock with the method names of Hazelcast's {@code FencedLock}. The fence is the fencing token. */
public final class FencedLock extends HoldfastLock {
    /** The fence of a lock that was not acquired. */
    public static final long INVALID_FENCE = 0;

    /**
     * Creates a view of a lock.
     *
     * @param request the lock with its options
     */
    public FencedLock(LockRequest request) {
        super(request);
    }

    /**
     * Acquires the lock.
     *
     * @return the fence
     */
    public long lockAndGetFence() {
        lock();
        return getFence();
    }

    /**
     * Acquires the lock if it is free.
     *
     * @return the fence, or {@link #INVALID_FENCE}
     */
    public long tryLockAndGetFence() {
        return tryLock() ? getFence() : INVALID_FENCE;
    }

    /**
     * Acquires the lock within a time.
     *
     * @param time the maximum wait
     * @param unit its unit
     * @return the fence, or {@link #INVALID_FENCE}
     */
    public long tryLockAndGetFence(long time, TimeUnit unit) {
        try {
            return tryLock(time, unit) ? getFence() : INVALID_FENCE;
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return INVALID_FENCE;
        }
    }

    /**
     * The fence of this thread's hold.
     *
     * @return the fencing token
     * @throws IllegalMonitorStateException if the thread does not hold the lock
     * @throws io.holdfast.LostException if the lock is lost
     */
    public long getFence() {
        return token();
    }

    /**
     * Whether this thread certainly holds the lock.
     *
     * @return false after a loss
     */
    public boolean isLockedByCurrentThread() {
        return isHeldByCurrentThread();
    }

    /**
     * How often this thread has acquired the lock.
     *
     * @return 0 if it does not hold the lock
     */
    public int getLockCount() {
        return getHoldCount();
    }
}
