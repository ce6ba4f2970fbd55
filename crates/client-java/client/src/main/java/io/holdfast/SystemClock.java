package io.holdfast;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.util.OptionalLong;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.LongSupplier;
import java.util.function.Supplier;

/**
 * {@link System#nanoTime} plus the time of all suspensions since the first use. On Linux {@code nanoTime} stands still
 * during a suspension and {@code /proc/uptime} does not. Elsewhere a lead of the wall clock counts as a suspension, see
 * {@link LargerProgress}.
 */
final class SystemClock implements Clock {
    /** The uptime has a resolution of 10 ms, so a smaller lead shows no suspension. */
    private static final long LEAD_MIN = 30 * MILLI;
    private static final Path UPTIME = Path.of("/proc/uptime");
    /** A suspension moves the wall clock against {@code nanoTime} at once, so without such a move no read is needed. */
    private static final long MOVE_MIN = 10 * MILLI;
    private static final long READ_AGAIN = 100 * MILLI;
    /** Comes after the constants, because it reads {@link #UPTIME}. */
    static final SystemClock INSTANCE =
            new SystemClock(System::nanoTime, () -> System.currentTimeMillis() * MILLI, outside());

    /** The times at the last read of the outside clock. */
    private record LastRead(long awake, long wall) {}

    private final LongSupplier awake;
    private final LongSupplier wall;
    final Supplier<OptionalLong> outside;
    private final long started;
    private final OptionalLong startedOutside;
    /** The longest observed lead of the outside clock; it never shrinks. */
    private final AtomicLong suspended = new AtomicLong();
    private volatile LastRead lastRead;

    /** {@code outside} is empty if a read fails: then the last known lead counts. */
    SystemClock(LongSupplier awake, LongSupplier wall, Supplier<OptionalLong> outside) {
        this.awake = awake;
        this.wall = wall;
        this.outside = outside;
        this.started = awake.getAsLong();
        this.startedOutside = outside.get();
    }

    @Override
    public long nanos() {
        long now = awake.getAsLong();
        long wallNow = wall.getAsLong();
        LastRead last = lastRead;
        boolean isKnown = last != null
                && now - last.awake < READ_AGAIN
                && Math.abs(wallNow - last.wall - (now - last.awake)) < MOVE_MIN;
        if (!isKnown) {
            readOutside();
            lastRead = new LastRead(now, wallNow);
        }
        return now - started + suspended.get();
    }

    private void readOutside() {
        OptionalLong read = outside.get();
        if (read.isPresent() && startedOutside.isPresent()) {
            long lead = read.getAsLong() - startedOutside.getAsLong() - (awake.getAsLong() - started);
            if (lead > suspended.get() + LEAD_MIN) {
                suspended.accumulateAndGet(lead, Math::max);
            }
        }
    }

    /** The uptime, or a replacement on a system that has none. */
    private static Supplier<OptionalLong> outside() {
        return uptime().isPresent() ? SystemClock::uptime : new LargerProgress(System::nanoTime, SystemClock::preciseWall);
    }

    /** Milliseconds would be too coarse: {@link LargerProgress} adds up the errors of its readings. */
    private static long preciseWall() {
        Instant now = Instant.now();
        return now.getEpochSecond() * 1_000_000_000 + now.getNano();
    }

    /**
     * Adds up how far {@code nanoTime} or the wall clock has advanced since the reading before, whichever advanced more. A
     * wall clock that is set forward ends holds early. One that is set back hides no later suspension.
     */
    static final class LargerProgress implements Supplier<OptionalLong> {
        private final LongSupplier awake;
        private final LongSupplier wall;
        private final ReentrantLock lock = new ReentrantLock();
        private long lastAwake;
        private long lastWall;
        private long total;

        LargerProgress(LongSupplier awake, LongSupplier wall) {
            this.awake = awake;
            this.wall = wall;
            this.lastAwake = awake.getAsLong();
            this.lastWall = wall.getAsLong();
        }

        @Override
        public OptionalLong get() {
            lock.lock();
            try {
                long awakeNow = awake.getAsLong();
                long wallNow = wall.getAsLong();
                total += Math.max(0, Math.max(awakeNow - lastAwake, wallNow - lastWall));
                lastAwake = awakeNow;
                lastWall = wallNow;
                return OptionalLong.of(total);
            } finally {
                lock.unlock();
            }
        }
    }

    private static OptionalLong uptime() {
        try {
            byte[] line = Files.readAllBytes(UPTIME);
            return OptionalLong.of(parseUptime(new String(line, StandardCharsets.US_ASCII)));
        } catch (IOException | SecurityException | NumberFormatException e) {
            return OptionalLong.empty();
        }
    }

    /** Parses {@code 350735.47 234388.90}: the seconds since the start of the machine come first. */
    static long parseUptime(String line) {
        return (long) (Double.parseDouble(line.split(" ", 2)[0]) * 1e9);
    }
}
