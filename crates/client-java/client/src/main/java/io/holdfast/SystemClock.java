package io.holdfast;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.OptionalLong;
import java.util.concurrent.atomic.AtomicLong;

/**
 * {@link System#nanoTime} plus the time of all suspensions since the first use. On Linux {@code nanoTime} stands still
 * during a suspension and {@code /proc/uptime} does not. Elsewhere a lead of the wall clock counts as a suspension: a
 * wall clock that is set forward then ends holds early, never late.
 */
final class SystemClock implements Clock {
    static final SystemClock INSTANCE = new SystemClock();

    /** The uptime has a resolution of 10 ms, so a smaller lead shows no suspension. */
    private static final long LEAD_MIN = 30 * MILLI;
    private static final Path UPTIME = Path.of("/proc/uptime");

    private final boolean hasUptime = uptime().isPresent();
    private final long started = System.nanoTime();
    private final long startedOutside = outside();
    /** The longest observed lead of the outside clock; it never shrinks. */
    private final AtomicLong suspended = new AtomicLong();

    private SystemClock() {}

    @Override
    public long nanos() {
        long outside = outside() - startedOutside;
        long awake = System.nanoTime() - started;
        long lead = outside - awake;
        long known = suspended.get();
        if (lead > known + LEAD_MIN) {
            known = suspended.accumulateAndGet(lead, Math::max);
        }
        return awake + known;
    }

    private long outside() {
        OptionalLong uptime = hasUptime ? uptime() : OptionalLong.empty();
        return uptime.isPresent() ? uptime.getAsLong() : System.currentTimeMillis() * MILLI;
    }

    private static OptionalLong uptime() {
        try {
            byte[] line = Files.readAllBytes(UPTIME);
            return OptionalLong.of(parseUptime(new String(line, StandardCharsets.US_ASCII)));
        } catch (IOException | RuntimeException e) {
            return OptionalLong.empty();
        }
    }

    /** Parses {@code 350735.47 234388.90}: the seconds since the start of the machine come first. */
    static long parseUptime(String line) {
        String seconds = line.substring(0, line.indexOf(' '));
        return (long) (Double.parseDouble(seconds) * 1e9);
    }
}
