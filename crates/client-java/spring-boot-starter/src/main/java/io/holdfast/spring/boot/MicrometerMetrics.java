package io.holdfast.spring.boot;

import io.holdfast.Loss;
import io.holdfast.Metrics;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.Timer;
import io.micrometer.core.instrument.binder.MeterBinder;
import io.micrometer.core.instrument.composite.CompositeMeterRegistry;
import java.time.Duration;
import java.util.Locale;

/**
 * Counts what a client does in the registries that it is bound to. No meter has the name of a lock as a tag, because a
 * program can have any number of locks.
 */
public final class MicrometerMetrics implements Metrics, MeterBinder {
    private final CompositeMeterRegistry meters = new CompositeMeterRegistry();
    private final Timer acquires = Timer.builder("holdfast.client.acquire")
            .description("Time from the call to the grant of a lock")
            .register(meters);
    private final Timer holds = Timer.builder("holdfast.client.hold")
            .description("Time from the grant of a lock to its release")
            .register(meters);

    @Override
    public void bindTo(MeterRegistry registry) {
        meters.add(registry);
    }

    @Override
    public void acquired(String lock, Duration waited) {
        acquires.record(waited);
    }

    @Override
    public void acquireFailed(String lock, Exception error) {
        String name = error.getClass().getSimpleName().replace("Exception", "");
        String kind = name.replaceAll("(?<=.)(?=[A-Z])", "-").toLowerCase(Locale.ROOT);
        meters.counter("holdfast.client.acquire.failures", "error", kind).increment();
    }

    @Override
    public void lost(String lock, Loss.Cause cause) {
        meters.counter("holdfast.client.losses", "cause", cause.code()).increment();
    }

    @Override
    public void released(String lock, Duration held) {
        holds.record(held);
    }

    @Override
    public void renewed(String session, boolean acknowledged) {
        meters.counter("holdfast.client.renewals", "acknowledged", "" + acknowledged).increment();
    }
}
