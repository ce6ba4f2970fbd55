package io.holdfast;

import java.time.Duration;

/**
 * Receives what the client does, once for each lock of an acquire, for counters and timers. The methods must return quickly
 * and throw nothing.
 */
public interface Metrics {
    /** Counts nothing. */
    Metrics NONE = new Metrics() {};

    /**
     * A lock was acquired.
     *
     * @param lock the name
     * @param waited the time from the call to the grant
     */
    default void acquired(String lock, Duration waited) {}

    /**
     * An acquire ended without a grant.
     *
     * @param lock the name
     * @param error a {@link HoldfastException}, or an {@link InterruptedException}
     */
    default void acquireFailed(String lock, Exception error) {}

    /**
     * A held lock was lost.
     *
     * @param lock the name
     * @param cause the cause
     */
    default void lost(String lock, Loss.Cause cause) {}

    /**
     * The cluster has confirmed that a guard released its lock.
     *
     * @param lock the name
     * @param held the time since the grant
     */
    default void released(String lock, Duration held) {}

    /**
     * A renewal was acknowledged, or failed and is repeated.
     *
     * @param session the name
     * @param acknowledged whether the cluster acknowledged it
     */
    default void renewed(String session, boolean acknowledged) {}
}
