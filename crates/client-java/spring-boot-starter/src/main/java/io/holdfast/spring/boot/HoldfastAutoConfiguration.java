package io.holdfast.spring.boot;

import io.holdfast.Holdfast;
import io.holdfast.HoldfastBuilder;
import io.holdfast.Metrics;
import io.holdfast.spring.integration.HoldfastLockRegistry;
import io.micrometer.core.instrument.MeterRegistry;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.context.properties.EnableConfigurationProperties;
import org.springframework.boot.health.autoconfigure.contributor.ConditionalOnEnabledHealthIndicator;
import org.springframework.boot.health.contributor.HealthIndicator;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.integration.support.locks.LockRegistry;

/**
 * Creates the client of an application from {@link HoldfastProperties}, and closes it with the context, which releases
 * everything that it holds. Beans of the application take precedence.
 */
@AutoConfiguration
@EnableConfigurationProperties(HoldfastProperties.class)
public final class HoldfastAutoConfiguration {
    @Bean
    @ConditionalOnMissingBean
    Holdfast holdfast(HoldfastProperties properties, ObjectProvider<Metrics> metrics) {
        HoldfastBuilder builder = properties.builder();
        metrics.ifAvailable(builder::metrics);
        return builder.build();
    }

    @Configuration(proxyBeanMethods = false)
    @ConditionalOnClass(MeterRegistry.class)
    static class Meters {
        @Bean
        @ConditionalOnMissingBean(Metrics.class)
        MicrometerMetrics holdfastMetrics() {
            return new MicrometerMetrics();
        }
    }

    @Configuration(proxyBeanMethods = false)
    @ConditionalOnClass(HealthIndicator.class)
    @ConditionalOnEnabledHealthIndicator("holdfast")
    static class ClusterHealth {
        @Bean
        @ConditionalOnMissingBean
        HoldfastHealthIndicator holdfastHealthIndicator(Holdfast holdfast) {
            return new HoldfastHealthIndicator(holdfast);
        }
    }

    @Configuration(proxyBeanMethods = false)
    @ConditionalOnClass(HoldfastLockRegistry.class)
    static class Integration {
        @Bean
        @ConditionalOnMissingBean(LockRegistry.class)
        HoldfastLockRegistry holdfastLockRegistry(Holdfast holdfast) {
            return new HoldfastLockRegistry(holdfast);
        }
    }
}
