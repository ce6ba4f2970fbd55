package io.holdfast;

import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/** The waits and the releases in progress of a session, or of a client without one. When the client closes, the waits stop. */
final class Pending {
    /** A wait or a release. What a failed wait may have left is released before {@link #close}. */
    final class Work implements AutoCloseable {
        private final Stop stop;

        private Work(Stop stop) {
            this.stop = stop;
        }

        /** Ends the work. */
        @Override
        public void close() {
            all.remove(this);
            changed.fire();
        }
    }

    private final Set<Work> all = ConcurrentHashMap.newKeySet();
    private final Signal changed = new Signal();
    private volatile boolean isClosing;

    /** Begins a release, or a wait that stops none of its calls. */
    Work begin() {
        return stoppable(new Stop());
    }

    /** Begins a wait. The stop fires when the client closes, or at once if the client is closing. */
    Work stoppable(Stop stop) {
        Work work = new Work(stop);
        all.add(work);
        if (isClosing) {
            stop.fire(Stop.Reason.LOST);
        }
        return work;
    }

    boolean isClosing() {
        return isClosing;
    }

    /** Stops the waits. */
    void stop() {
        isClosing = true;
        all.forEach(work -> work.stop.fire(Stop.Reason.LOST));
    }

    /** Returns when all work has ended, or after {@code nanos}. */
    void settle(Clock clock, long nanos) {
        long until = Clock.plus(clock.nanos(), nanos);
        long seen = changed.version();
        while (!all.isEmpty() && Clock.left(until, clock.nanos()) > 0) {
            changed.awaitUninterruptibly(seen, Clock.left(until, clock.nanos()));
            seen = changed.version();
        }
    }
}
