package io.holdfast.spring.boot;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.net.httpserver.HttpServer;
import io.holdfast.BusyException;
import io.holdfast.Guard;
import io.holdfast.Holdfast;
import io.holdfast.LockState;
import io.holdfast.TestCluster;
import io.holdfast.TestReadme;
import io.holdfast.spring.integration.HoldfastLockRegistry;
import io.micrometer.core.instrument.MeterRegistry;
import java.net.InetSocketAddress;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.boot.health.contributor.Status;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;

/** The beans of an application with the starter. */
@Timeout(300)
class HoldfastAutoConfigurationTest {
    @RegisterExtension
    final TestCluster cluster = TestCluster.of(1);

    @Configuration(proxyBeanMethods = false)
    @EnableAutoConfiguration
    static class Plain {}

    @Test
    void thePropertiesAreTheOptionsOfTheClient() {
        try (ConfigurableApplicationContext context = TestApplication.start(
                        Plain.class, cluster, "holdfast.session-prefix=billing", "holdfast.labels.host=web1");
                Guard guard = context.getBean(Holdfast.class).lock("a").tryAcquire()) {
            assertTrue(guard.session().startsWith("billing-"), guard.session());
            assertTrue(guard.remaining().toSeconds() < 6, "the ttl");
            LockState.Holder holder = cluster.client().lockState("a").holders().get(0);
            assertEquals(Map.of("host", "web1"), holder.labels());
        }
    }

    @Test
    void theTextOfThePropertiesHasNoToken() {
        try (ConfigurableApplicationContext context =
                TestApplication.start(Plain.class, cluster, "holdfast.access-token=secret-1")) {
            HoldfastProperties properties = context.getBean(HoldfastProperties.class);
            assertEquals("secret-1", properties.accessToken());
            assertFalse(properties.toString().contains("secret-1"));
        }
    }

    @Test
    void closingTheContextReleasesItsLocks() {
        Holdfast other = cluster.client();
        try (ConfigurableApplicationContext context = TestApplication.start(Plain.class, cluster)) {
            context.getBean(Holdfast.class).lock("b").tryAcquire();
            assertThrows(BusyException.class, () -> other.lock("b").tryAcquire());
        }
        other.lock("b").tryAcquire().close();
    }

    @Test
    void healthFollowsTheCluster() throws Exception {
        try (ConfigurableApplicationContext context =
                TestApplication.start(Plain.class, cluster, "holdfast.request-timeout=1s")) {
            HoldfastHealthIndicator health = context.getBean(HoldfastHealthIndicator.class);
            assertEquals(Status.UP, health.health().getStatus());
            cluster.pause(1);
            await(health, Status.DOWN);
            cluster.resume(1);
            await(health, Status.UP);
        }
        try (ConfigurableApplicationContext context =
                TestApplication.start(Plain.class, cluster, "management.health.holdfast.enabled=false")) {
            assertTrue(context.getBeansOfType(HoldfastHealthIndicator.class).isEmpty());
        }
    }

    @Test
    void aClientWithoutThePermissionToReadTheLockIsHealthy() throws Exception {
        assertEquals(Status.UP, healthIfRejected(403, "forbidden"));
        assertEquals(Status.DOWN, healthIfRejected(401, "unauthenticated"));
    }

    private static Status healthIfRejected(int status, String code) throws Exception {
        HttpServer node = HttpServer.create(new InetSocketAddress("127.0.0.1", 0), 0);
        byte[] problem = ("{\"code\":\"" + code + "\",\"title\":\"rejected\",\"retryable\":false}").getBytes();
        node.createContext("/", exchange -> {
            exchange.getResponseHeaders().set("Content-Type", "application/problem+json");
            exchange.sendResponseHeaders(status, problem.length);
            exchange.getResponseBody().write(problem);
            exchange.close();
        });
        node.start();
        try (Holdfast client = Holdfast.connect("127.0.0.1:" + node.getAddress().getPort())) {
            return new HoldfastHealthIndicator(client).health().getStatus();
        } finally {
            node.stop(0);
        }
    }

    private static void await(HoldfastHealthIndicator health, Status wanted) throws InterruptedException {
        long until = System.nanoTime() + TimeUnit.SECONDS.toNanos(30);
        while (!health.health().getStatus().equals(wanted)) {
            assertTrue(System.nanoTime() < until, () -> "the cluster is not " + wanted);
            TimeUnit.MILLISECONDS.sleep(100);
        }
    }

    @Test
    void metersCountWhatTheClientDoes() throws Exception {
        try (ConfigurableApplicationContext context = TestApplication.start(Plain.class, cluster)) {
            Holdfast holdfast = context.getBean(Holdfast.class);
            MeterRegistry meters = context.getBean(MeterRegistry.class);
            Guard guard = holdfast.lock("c").tryAcquire();
            assertThrows(BusyException.class, () -> holdfast.lock("c").tryAcquire());
            holdfast.forceRelease("c", "maintenance");
            guard.lost().toCompletableFuture().get(20, TimeUnit.SECONDS);
            holdfast.lock("c").tryAcquire().close();
            assertEquals(2, meters.get("holdfast.client.acquire").timer().count());
            assertEquals(1, count(meters, "acquire.failures", "error", "busy"));
            assertEquals(1, count(meters, "losses", "cause", "force-released"));
            assertEquals(1, meters.get("holdfast.client.hold").timer().count());
            assertTrue(count(meters, "renewals", "acknowledged", "true") >= 1);
        }
    }

    private static double count(MeterRegistry meters, String name, String tag, String value) {
        return meters.get("holdfast.client." + name).tag(tag, value).counter().count();
    }

    @Configuration(proxyBeanMethods = false)
    @EnableAutoConfiguration
    static class Replaced {
        static Holdfast client;

        @Bean
        Holdfast mine() {
            return client;
        }
    }

    @Test
    void aClientOfTheApplicationTakesPrecedence() {
        Replaced.client = cluster.client();
        try (ConfigurableApplicationContext context = TestApplication.start(Replaced.class, cluster)) {
            assertSame(Replaced.client, context.getBean(Holdfast.class));
            HoldfastLockRegistry locks = context.getBean(HoldfastLockRegistry.class);
            locks.obtain("d").lock();
            assertEquals(1, Replaced.client.lockState("spring-integration/d").holders().size());
            locks.obtain("d").unlock();
        }
    }

    @Test
    void theReadmeShowsTheScheduledJob() throws Exception {
        TestReadme.shows(Settlement.class);
    }
}
