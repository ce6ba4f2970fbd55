package io.holdfast;

import java.time.Duration;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.Lock;

/**
 * A lock of the cluster as a {@link Lock}. The thread that acquires it owns it, and may acquire it again, also through
 * another object for the same lock and mode. Threads of one client exclude each other.
 *
 * <p>A {@code Lock} cannot report a loss by itself: call {@link #ensure} before each write, and send {@link #token} with
 * it.
 */
public class HoldfastLock implements Lock {
    /** What identifies a hold of a thread: a re-entry never changes the mode. */
    record Key(Thread thread, String lock, Mode mode) {}

    /** The hold of one thread; used by that thread alone. */
    static final class Held {
        final Guard guard;
        int count = 1;

        Held(Guard guard) {
            this.guard = guard;
        }
    }

    private final LockRequest request;
    private final Map<Key, Held> held;

    /**
     * Creates a view of a lock.
     *
     * @param request the lock with its options; an owner and a wait are replaced
     */
    public HoldfastLock(LockRequest request) {
        this.request = request;
        this.held = request.client.heldByThreads();
    }

    private Key key() {
        Mode mode = request.options.mode;
        return new Key(Thread.currentThread(), request.name, mode == null ? Mode.EXCLUSIVE : mode);
    }

    /** An acquire of one thread. */
    private interface Acquiring {
        Guard acquire(LockRequest request) throws InterruptedException;
    }

    private void enter(LockRequest wanted, Acquiring acquiring) throws InterruptedException {
        Key key = key();
        Held mine = held.get(key);
        if (mine != null) {
            mine.guard.ensure();
            mine.count++;
            return;
        }
        Guard guard = acquiring.acquire(wanted.owner(request.client.ownerOf(key.thread())));
        held.put(key, new Held(guard));
    }

    private void enterUninterruptibly(LockRequest wanted) {
        try {
            enter(wanted, LockRequest::acquireUninterruptibly);
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    /** Acquires the lock with other options, e.g. with a lease. */
    private boolean tryEnter(LockRequest wanted, Acquiring acquiring) throws InterruptedException {
        try {
            enter(wanted, acquiring);
            return true;
        } catch (BusyException e) {
            return false;
        }
    }

    /**
     * The request of this view.
     *
     * @return the lock with its options
     */
    protected LockRequest request() {
        return request;
    }

    /**
     * Acquires the lock for at most a lease, and waits without bound.
     *
     * @param lease the end of the hold, despite renewals
     */
    protected void lockFor(Duration lease) {
        enterUninterruptibly(request.maxHold(lease));
    }

    /**
     * Acquires the lock for at most a lease.
     *
     * @param wait the maximum wait
     * @param lease the end of the hold, despite renewals
     * @return whether the thread holds the lock
     * @throws InterruptedException if the thread is interrupted while it waits
     */
    protected boolean tryLockFor(Duration wait, Duration lease) throws InterruptedException {
        return tryEnter(request.maxHold(lease).waitAtMost(wait), LockRequest::acquire);
    }

    @Override
    public void lock() {
        enterUninterruptibly(request);
    }

    @Override
    public void lockInterruptibly() throws InterruptedException {
        enter(request, LockRequest::acquire);
    }

    @Override
    public boolean tryLock() {
        try {
            return tryEnter(request, LockRequest::tryAcquire);
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    @Override
    public boolean tryLock(long time, TimeUnit unit) throws InterruptedException {
        Duration wait = Duration.ofNanos(unit.toNanos(time));
        return tryEnter(request.waitAtMost(wait), LockRequest::acquire);
    }

    /**
     * Releases one acquire of this thread; the last one releases the lock.
     *
     * @throws IllegalMonitorStateException if the thread does not hold the lock
     * @throws LostException if the lock was lost before
     */
    @Override
    public void unlock() {
        Held mine = mine();
        if (--mine.count == 0) {
            held.remove(key());
            mine.guard.close();
        }
    }

    /**
     * A cluster lock has no conditions.
     *
     * @throws UnsupportedOperationException always
     */
    @Override
    public Condition newCondition() {
        throw new UnsupportedOperationException("a lock of the cluster has no conditions");
    }

    /**
     * The guard of this thread.
     *
     * @return the guard; unlock the lock instead of closing it
     * @throws IllegalMonitorStateException if the thread does not hold the lock
     */
    public Guard guard() {
        return mine().guard;
    }

    /**
     * The fencing token of this thread's hold.
     *
     * @return the token
     * @throws IllegalMonitorStateException if the thread does not hold the lock
     * @throws LostException if the lock is lost
     */
    public long token() {
        Guard guard = mine().guard;
        guard.ensure();
        return guard.token();
    }

    /**
     * Checks that this thread certainly still holds the lock.
     *
     * @throws IllegalMonitorStateException if the thread did not acquire the lock
     * @throws LostException if the lock is lost
     */
    public void ensure() {
        mine().guard.ensure();
    }

    /**
     * Whether this thread certainly holds the lock.
     *
     * @return false after a loss
     */
    public boolean isHeldByCurrentThread() {
        Held mine = held.get(key());
        return mine != null && mine.guard.isHeld();
    }

    /**
     * How often this thread has acquired the lock.
     *
     * @return 0 if it does not hold the lock
     */
    public int getHoldCount() {
        Held mine = held.get(key());
        return mine == null ? 0 : mine.count;
    }

    /**
     * Whether a thread of this client certainly holds the lock.
     *
     * @return false after a loss
     */
    protected boolean isHeldHere() {
        return held.values().stream().anyMatch(any -> any.guard.lock().equals(request.name) && any.guard.isHeld());
    }

    private Held mine() {
        Held mine = held.get(key());
        if (mine == null) {
            throw new IllegalMonitorStateException("this thread does not hold the lock " + request.name);
        }
        return mine;
    }

    /**
     * The name of the lock.
     *
     * @return the name
     */
    public String getName() {
        return request.name;
    }

    /**
     * Whether any client holds the lock, according to the cluster.
     *
     * @return the answer of the cluster
     */
    public boolean isLocked() {
        return !request.client.lockState(request.name).holders().isEmpty();
    }
}
