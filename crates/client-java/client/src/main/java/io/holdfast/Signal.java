package io.holdfast;

import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;

/** Wakes threads that wait for a change. A change between {@link #version} and {@link #await} is not missed. */
final class Signal {
    private static final long WAIT_MAX = 86_400_000 * Clock.MILLI;

    private final ReentrantLock lock = new ReentrantLock();
    private final Condition changed = lock.newCondition();
    private final AtomicLong version = new AtomicLong();
    private volatile int waiting;
    /** The moment at which the last waiting thread wakes without a change, of {@link System#nanoTime}, or a later one. */
    private volatile long wakesAt;

    long version() {
        return version.get();
    }

    void fire() {
        version.incrementAndGet();
        if (waiting > 0) {
            wake();
        }
    }

    /** Fires, but leaves threads asleep that wake within {@code nanos} without a change. */
    void fireWithin(long nanos) {
        version.incrementAndGet();
        if (waiting > 0 && wakesAt - System.nanoTime() > nanos) {
            wake();
        }
    }

    private void wake() {
        lock.lock();
        try {
            changed.signalAll();
        } finally {
            lock.unlock();
        }
    }

    /** Returns after a change since {@code seen}, or after {@code nanos}. */
    void await(long seen, long nanos) throws InterruptedException {
        lock.lockInterruptibly();
        try {
            long left = Math.min(nanos, WAIT_MAX);
            long mine = System.nanoTime() + left;
            wakesAt = waiting == 0 ? mine : mine + Math.max(0, wakesAt - mine);
            waiting++;
            try {
                while (version.get() == seen && left > 0) {
                    left = changed.awaitNanos(left);
                }
            } finally {
                waiting--;
            }
        } finally {
            lock.unlock();
        }
    }

    /** As {@link #await}, for a thread that must not end early. */
    void awaitUninterruptibly(long seen, long nanos) {
        boolean interrupted = false;
        long until = System.nanoTime() + nanos;
        try {
            while (true) {
                try {
                    await(seen, until - System.nanoTime());
                    return;
                } catch (InterruptedException e) {
                    interrupted = true;
                }
            }
        } finally {
            if (interrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    static void sleepUninterruptibly(long nanos) {
        boolean interrupted = false;
        long until = System.nanoTime() + nanos;
        for (long left = nanos; left > 0; left = until - System.nanoTime()) {
            try {
                TimeUnit.NANOSECONDS.sleep(left);
            } catch (InterruptedException e) {
                interrupted = true;
            }
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }
}
