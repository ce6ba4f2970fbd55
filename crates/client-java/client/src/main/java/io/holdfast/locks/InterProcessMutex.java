package io.holdfast.locks;

import io.holdfast.Holdfast;
import io.holdfast.HoldfastLock;
import java.util.concurrent.TimeUnit;

/** A reentrant lock with the method names of Curator's {@code InterProcessMutex}. */
public final class InterProcessMutex {
    private final View lock;

    /** Makes the state of all threads visible. */
    private static final class View extends HoldfastLock {
        View(Holdfast client, String name) {
            super(client.lock(name));
        }

        boolean isHeld() {
            return isHeldHere();
        }
    }

    /**
     * Creates a mutex. Curator's path {@code /locks/orders} is the lock {@code orders} here: both stand in one queue.
     *
     * @param client the client
     * @param path the path; a leading {@code /locks/} or {@code /} is left out
     */
    public InterProcessMutex(Holdfast client, String path) {
        String name = path.startsWith("/locks/") ? path.substring("/locks/".length()) : path;
        this.lock = new View(client, name.startsWith("/") ? name.substring(1) : name);
    }

    /**
     * Acquires the mutex, and waits without bound.
     *
     * @throws InterruptedException if the thread is interrupted while it waits
     */
    public void acquire() throws InterruptedException {
        lock.lockInterruptibly();
    }

    /**
     * Acquires the mutex within a time.
     *
     * @param time the maximum wait
     * @param unit its unit
     * @return whether the thread holds the mutex
     * @throws InterruptedException if the thread is interrupted while it waits
     */
    public boolean acquire(long time, TimeUnit unit) throws InterruptedException {
        return lock.tryLock(time, unit);
    }

    /**
     * Releases one acquire of this thread; the last one releases the mutex.
     *
     * @throws IllegalMonitorStateException if the thread does not hold the mutex
     * @throws io.holdfast.LostException if the mutex was lost before
     */
    public void release() {
        lock.unlock();
    }

    /**
     * Whether this thread certainly holds the mutex.
     *
     * @return false after a loss
     */
    public boolean isOwnedByCurrentThread() {
        return lock.isHeldByCurrentThread();
    }

    /**
     * Whether a thread of this client certainly holds the mutex.
     *
     * @return false after a loss
     */
    public boolean isAcquiredInThisProcess() {
        return lock.isHeld();
    }

    /**
     * The fencing token, which Curator does not have.
     *
     * @return the token of this thread's hold
     */
    public long token() {
        return lock.token();
    }
}
