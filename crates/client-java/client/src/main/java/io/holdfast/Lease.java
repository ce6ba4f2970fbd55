package io.holdfast;

/**
 * The time that a session certainly lives, as pure arithmetic: every moment and every random number is an argument.
 *
 * <p>A deadline counts from the <em>sending</em> of the last acknowledged renewal, because the server starts to count
 * later. A margin covers clocks that run at different rates. A deadline that has passed stays passed.
 *
 * @param deadline no other client can hold a lock of the session before
 * @param renewAt the moment of the next plain renewal
 * @param held the length of the lease in the last acknowledgement
 * @param ended the loss, or null
 * @param failure the error of the last renewal, or null
 */
record Lease(long deadline, long renewAt, long held, Loss ended, String failure) {
    /** Two clocks may differ by 1/RATE of the time that they measure. */
    private static final long RATE = 100;
    /** For the time between reading a clock and acting on it. */
    private static final long SAFETY = 5 * Clock.MILLI;
    /** A node drops the events of a session that sends no poll for two minutes. */
    private static final long PARK_MAX = 45_000 * Clock.MILLI;
    private static final long RETRY = 200 * Clock.MILLI;
    private static final int RETRY_DOUBLINGS_MAX = 6;

    /** A lease that was just acknowledged for {@code held} from {@code countedFrom} or later. */
    static Lease acknowledged(long countedFrom, long held, int jitter) {
        return new Lease(deadline(countedFrom, held), nextRenewal(countedFrom, held, jitter), held, null, null);
    }

    static long deadline(long countedFrom, long held) {
        return Clock.plus(countedFrom, Math.max(0, held - held / RATE - SAFETY));
    }

    /** After a third of the lease, less up to a tenth of it. {@code jitter} from 0 to 255 spreads clients. */
    static long nextRenewal(long countedFrom, long held, int jitter) {
        long third = held / 3;
        return Clock.plus(countedFrom, third - third / 10 * jitter / 255);
    }

    /** The pause after this many consecutive failures. It starts at 200 ms and doubles with each failure. */
    static long retryPause(int failures) {
        return RETRY << Math.min(RETRY_DOUBLINGS_MAX, Math.max(0, failures - 1));
    }

    /** How long to park a keepalive: a sixth of the lease, less up to a tenth of that. */
    long parkTime(int jitter) {
        long sixth = held / 6;
        return Math.min(PARK_MAX, sixth - sixth / 10 * jitter / 255);
    }

    /** Returns the loss, or null while the session certainly lives. */
    Loss loss(long now) {
        if (ended != null) {
            return ended;
        }
        String reason = failure == null ? "no renewal was answered" : failure;
        return now >= deadline ? new Loss(Loss.Cause.NOT_RENEWED, reason) : null;
    }

    /** Extends the lease, unless its deadline has passed. */
    Lease acknowledge(long countedFrom, long length, int jitter, long now) {
        if (loss(now) != null) {
            return this;
        }
        long later = Math.max(deadline, deadline(countedFrom, length));
        return new Lease(later, nextRenewal(countedFrom, length, jitter), length, null, null);
    }

    Lease renewalFailed(String reason, long now) {
        return new Lease(deadline, Clock.plus(now, RETRY), held, ended, reason);
    }

    /** Ends the session; the first loss stays. */
    Lease end(Loss loss, long now) {
        Loss first = loss(now);
        return new Lease(deadline, renewAt, held, first == null ? loss : first, failure);
    }
}
