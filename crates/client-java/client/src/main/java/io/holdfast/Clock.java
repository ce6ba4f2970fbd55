package io.holdfast;

/** A clock that never goes back and that also advances while the machine is suspended. Unit: nanoseconds. */
@FunctionalInterface
interface Clock {
    long MILLI = 1_000_000L;

    long nanos();

    /** The clock of this machine. */
    static Clock system() {
        return SystemClock.INSTANCE;
    }

    /** The time from {@code now} until {@code moment}; zero if it has passed. */
    static long left(long moment, long now) {
        return Math.max(0, moment - now);
    }

    /** A later moment; saturates. */
    static long plus(long moment, long nanos) {
        long sum = moment + nanos;
        return sum < moment ? Long.MAX_VALUE : sum;
    }

    static long millis(long millis) {
        return millis >= Long.MAX_VALUE / MILLI ? Long.MAX_VALUE : millis * MILLI;
    }
}
