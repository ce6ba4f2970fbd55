package io.holdfast.spring.integration;

import io.holdfast.HoldfastLock;
import io.holdfast.LockRequest;
import io.holdfast.LostException;
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import org.springframework.integration.support.locks.DistributedLock;

/**
 * A lock of the cluster for Spring Integration. The client renews it while its thread holds it. A time-to-live ends the
 * hold of a thread that hangs; the lock of a process that dies is free after the ttl of the client.
 *
 * <p>{@link #token} returns the fencing token, and {@link #guard} a guard that another thread can use.
 */
public final class HoldfastDistributedLock extends HoldfastLock implements DistributedLock {
    HoldfastDistributedLock(LockRequest request) {
        super(request);
    }

    /**
     * Acquires the lock, and waits without bound.
     *
     * @param ttl the end of the hold from the grant, unless {@link HoldfastLockRegistry#renewLock(Object, Duration)} moves
     *     it
     */
    @Override
    public void lock(Duration ttl) {
        lock();
        endAfter(ttl);
    }

    /**
     * Acquires the lock within a time.
     *
     * @param waitTime the maximum wait
     * @param ttl as for {@link #lock(Duration)}
     * @return whether the thread holds the lock
     * @throws InterruptedException if the thread is interrupted while it waits
     */
    @Override
    public boolean tryLock(Duration waitTime, Duration ttl) throws InterruptedException {
        boolean isHeld = tryLock(waitTime.toNanos(), TimeUnit.NANOSECONDS);
        if (isHeld) {
            endAfter(ttl);
        }
        return isHeld;
    }

    /** Unlocks a lock that is lost already, so that a caller without the lock has nothing to unlock. */
    private void endAfter(Duration ttl) {
        try {
            guard().endAfter(ttl);
        } catch (LostException e) {
            unlock();
            throw e;
        }
    }
}
