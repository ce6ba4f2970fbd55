package io.holdfast;

import java.util.TreeMap;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.LongFunction;

/**
 * Calls with a request number, which the cluster executes once. A session remembers the answers to its last calls, and
 * rejects calls up to the largest forgotten number. So no call starts while 32 calls since the oldest one in progress
 * exist.
 */
final class NumberedCalls {
    private static final int CALLS_MAX = 32;

    private final ReentrantLock lock = new ReentrantLock();
    private final Condition ended = lock.newCondition();
    /** The calls from the oldest one in progress, each with whether it is over. */
    private final TreeMap<Long, Boolean> started = new TreeMap<>();

    /** Sends a call with a new number; once more with a larger one, if the cluster did not execute it for its number. */
    Delivery send(LongFunction<Delivery> call) {
        Delivery first = sendOnce(0, call);
        long newest = first.error() == null ? -1 : first.error().newest(Codes.REQUEST_OVER);
        return newest < 0 ? first : sendOnce(newest, call);
    }

    private Delivery sendOnce(long after, LongFunction<Delivery> call) {
        long number = begin(after);
        try {
            return outcomeOf(call.apply(number));
        } finally {
            end(number);
        }
    }

    /** The end of the session hides whether an earlier copy of the call was executed. */
    private static Delivery outcomeOf(Delivery delivery) {
        if (!delivery.inDoubt() || !(delivery.error() instanceof LostException)) {
            return delivery;
        }
        var unknown = new OutcomeUnknownException("the session ended before the answer, so read the state");
        return new Delivery(null, delivery.sent(), unknown, true);
    }

    private long begin(long after) {
        lock.lock();
        try {
            while (started.size() >= CALLS_MAX) {
                ended.awaitUninterruptibly();
            }
            long number = Numbers.next(after);
            started.put(number, false);
            return number;
        } finally {
            lock.unlock();
        }
    }

    private void end(long number) {
        lock.lock();
        try {
            started.put(number, true);
            while (!started.isEmpty() && started.firstEntry().getValue()) {
                started.pollFirstEntry();
            }
            ended.signalAll();
        } finally {
            lock.unlock();
        }
    }
}
