package io.holdfast.spring.boot;

import io.holdfast.Holdfast;
import org.springframework.boot.health.contributor.AbstractHealthIndicator;
import org.springframework.boot.health.contributor.Health;

/**
 * Reports whether the cluster answers: a majority of its nodes must be up, because it reads the lock {@code health}. Without
 * the cluster, the answer takes the request timeout of the client.
 */
public final class HoldfastHealthIndicator extends AbstractHealthIndicator {
    private final Holdfast holdfast;

    /**
     * Creates an indicator.
     *
     * @param holdfast the client
     */
    public HoldfastHealthIndicator(Holdfast holdfast) {
        super("the holdfast cluster did not answer");
        this.holdfast = holdfast;
    }

    @Override
    protected void doHealthCheck(Health.Builder builder) {
        holdfast.lockState("health");
        builder.up();
    }
}
