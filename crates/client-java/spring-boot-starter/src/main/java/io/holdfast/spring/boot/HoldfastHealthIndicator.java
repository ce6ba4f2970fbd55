package io.holdfast.spring.boot;

import io.holdfast.Holdfast;
import io.holdfast.RejectedException;
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
        super("the health check of holdfast failed");
        this.holdfast = holdfast;
    }

    @Override
    protected void doHealthCheck(Health.Builder builder) {
        try {
            holdfast.lockState("health");
        } catch (RejectedException e) {
            // The node answered; the client need not be allowed to read this lock.
            if (!"forbidden".equals(e.code())) {
                throw e;
            }
        }
        builder.up();
    }
}
