package io.holdfast;

import java.time.Duration;

/** Receives what the client does, for counters and timers. The methods must return quickly and throw nothing. */
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
     * An acquire failed.
     *
     * @param lock the name
     * @param error the error
     */
    default void acquireFailed(String lock, HoldfastException error) {}

    /**
     * A held lock was lost.
     *
     * @param lock the name
     * @param cause the cause
     */
    default void lost(String lock, Loss.Cause cause) {}

    /**
     * A lock was released.
     *
     * @param lock the name
     */
    default void released(String lock) {}

    /**
     * A renewal was acknowledged, or failed and is repeated.
     *
     * @param acknowledged whether the cluster acknowledged it
     */
    default void renewed(boolean acknowledged) {}
}
