package io.holdfast;

import java.util.concurrent.atomic.AtomicInteger;

/** One node: its address, its health, and the calls that wait at it. */
final class Node {
    /** A node rests this long after its first failure; each further failure in sequence doubles the time. */
    private static final long REST_MIN = 1_000 * Clock.MILLI;
    private static final long REST_MAX = 10_000 * Clock.MILLI;

    private record Health(long answeredAt, long restsUntil, int failures) {}

    final String base;
    final AtomicInteger waiting = new AtomicInteger();
    /** The id of the node behind this address, from its last answer; 0 before. */
    volatile long id;
    private volatile Health health = new Health(Long.MIN_VALUE / 2, Long.MIN_VALUE, 0);

    Node(String base) {
        this.base = base;
    }

    boolean rests(long now) {
        return now < health.restsUntil;
    }

    boolean answeredWithin(long time, long now) {
        return now - health.answeredAt < time;
    }

    void answered(long now) {
        health = new Health(now, Long.MIN_VALUE, 0);
    }

    /** Records that the node gave no answer, or a later one than another node. Concurrent records may be lost. */
    void rest(long now) {
        Health before = health;
        long rest = Math.min(REST_MAX, REST_MIN << Math.min(4, before.failures));
        health = new Health(before.answeredAt, now + rest, before.failures + 1);
    }

    /** Records that the node refused a call until then. An answer ends the rest. */
    void restUntil(long until) {
        Health before = health;
        if (until > before.restsUntil) {
            health = new Health(before.answeredAt, until, before.failures);
        }
    }
}
