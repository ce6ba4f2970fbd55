package io.holdfast;

import java.security.SecureRandom;
import java.util.HexFormat;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Numbers and names that no earlier call has. A number must exceed those of all earlier attempts of its session, also of
 * other processes. Microseconds since 1970 do, unless clocks disagree; the cluster then names its newest number.
 */
final class Numbers {
    private static final SecureRandom RANDOM = new SecureRandom();
    private static final AtomicLong NEWEST = new AtomicLong();

    private Numbers() {}

    /** Returns a number larger than {@code after} and than every number returned before. */
    static long next(long after) {
        long now = System.currentTimeMillis() * 1_000;
        return NEWEST.updateAndGet(newest -> Math.max(now, Math.max(after, newest) + 1));
    }

    /** A name with 64 random bits. */
    static String unique(String prefix) {
        return prefix + "-" + HexFormat.of().toHexDigits(RANDOM.nextLong());
    }

    /** A number from 0 to 255, which may be predictable. */
    static int jitter() {
        return ThreadLocalRandom.current().nextInt(256);
    }
}
