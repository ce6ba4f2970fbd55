package io.holdfast;

import java.time.Duration;

/** Passes what the client does to the metrics of the caller. An exception or an error there is logged, and changes no hold. */
final class GuardedMetrics implements Metrics {
    private static final System.Logger LOG = System.getLogger("io.holdfast");

    private final Metrics metrics;

    GuardedMetrics(Metrics metrics) {
        this.metrics = metrics;
    }

    private static void run(Runnable callback) {
        try {
            callback.run();
        } catch (Throwable e) {
            LOG.log(System.Logger.Level.WARNING, "a callback of the metrics failed", e);
        }
    }

    @Override
    public void acquired(String lock, Duration waited) {
        run(() -> metrics.acquired(lock, waited));
    }

    @Override
    public void acquireFailed(String lock, Exception error) {
        run(() -> metrics.acquireFailed(lock, error));
    }

    @Override
    public void lost(String lock, Loss.Cause cause) {
        run(() -> metrics.lost(lock, cause));
    }

    @Override
    public void released(String lock, Duration held) {
        run(() -> metrics.released(lock, held));
    }

    @Override
    public void renewed(String session, boolean acknowledged) {
        run(() -> metrics.renewed(session, acknowledged));
    }
}
