package io.holdfast.spring.integration;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.holdfast.Guard;
import io.holdfast.LostException;
import io.holdfast.TestCluster;
import io.holdfast.TestProcess;
import io.holdfast.TestReadme;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.springframework.context.ConfigurableApplicationContext;

/** Spring Integration's elections, with several application contexts and processes. */
@Timeout(300)
class LeaderTest {
    @RegisterExtension
    final TestCluster cluster = TestCluster.of(1);

    private static BillingNode.Leadership leadership(ConfigurableApplicationContext context) {
        return context.getBean(BillingNode.Leadership.class);
    }

    private static Guard leader(BillingNode.Leadership leadership) throws InterruptedException {
        Guard guard = leadership.granted.poll(40, TimeUnit.SECONDS);
        assertNotNull(guard, "no leader");
        return guard;
    }

    @Test
    void aContextThatClosesLetsTheNextOneLead() throws Exception {
        ConfigurableApplicationContext first = BillingNode.start(cluster.addresses());
        Guard led = leader(leadership(first));
        try (ConfigurableApplicationContext second = BillingNode.start(cluster.addresses())) {
            assertEquals(null, leadership(second).granted.poll(2, TimeUnit.SECONDS), "a second leader");
            led.ensure();
            first.close();
            assertThrows(LostException.class, led::ensure);
            Guard next = leader(leadership(second));
            assertTrue(next.token() > led.token());
            next.ensure();
        }
    }

    @Test
    void aForceReleasedLeaderIsRevoked() throws Exception {
        try (ConfigurableApplicationContext context = BillingNode.start(cluster.addresses())) {
            Guard led = leader(leadership(context));
            cluster.client().forceRelease("spring-integration/billing", "maintenance");
            assertEquals("billing", leadership(context).revoked.poll(20, TimeUnit.SECONDS));
            assertTrue(leader(leadership(context)).token() > led.token());
        }
    }

    @Test
    void aKilledLeaderIsReplacedAfterTheTtl() throws Exception {
        try (TestProcess first = TestProcess.start(BillingNode.class, cluster.addresses())) {
            long token = first.number("granted");
            try (ConfigurableApplicationContext second = BillingNode.start(cluster.addresses())) {
                first.kill();
                Guard next = leader(leadership(second));
                assertTrue(next.token() > token);
            }
        }
    }

    @Test
    void aPausedLeaderIsRevokedWhenItContinues() throws Exception {
        try (TestProcess first = TestProcess.start(BillingNode.class, cluster.addresses())) {
            long token = first.number("granted");
            try (ConfigurableApplicationContext second = BillingNode.start(cluster.addresses())) {
                first.pause();
                Guard next = leader(leadership(second));
                assertTrue(next.token() > token);
                first.resume();
                assertEquals("revoked billing", first.line());
                next.ensure();
            }
        }
    }

    @Test
    void theReadmeShowsTheBeans() throws Exception {
        TestReadme.shows(BillingNode.class);
    }
}
