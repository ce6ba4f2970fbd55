package io.holdfast.spring.boot;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.holdfast.TestCluster;
import io.holdfast.TestProcess;
import java.util.HashSet;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.springframework.context.ConfigurableApplicationContext;

/** A scheduled job under a lock, in several application contexts and processes. */
@Timeout(300)
class SettlementTest {
    private record Run(String session, long token) {}

    @RegisterExtension
    final TestCluster cluster = TestCluster.of(1);

    private final BlockingQueue<Run> runs = new LinkedBlockingQueue<>();
    private final AtomicInteger inside = new AtomicInteger();
    private final AtomicInteger worst = new AtomicInteger();

    @BeforeEach
    void recordRuns() {
        Settlement.work = guard -> {
            worst.accumulateAndGet(inside.incrementAndGet(), Math::max);
            runs.add(new Run(guard.session(), guard.token()));
            inside.decrementAndGet();
        };
    }

    private Run next() throws InterruptedException {
        Run run = runs.poll(40, TimeUnit.SECONDS);
        assertNotNull(run, "no run");
        return run;
    }

    @Test
    void oneOfTwoContextsRunsTheJobAtATime() throws Exception {
        HashSet<String> sessions = new HashSet<>();
        try (ConfigurableApplicationContext one = TestApplication.start(Settlement.class, cluster);
                ConfigurableApplicationContext two = TestApplication.start(Settlement.class, cluster)) {
            assertTrue(one.isActive() && two.isActive());
            long token = 0;
            for (int run = 0; run < 20 || sessions.size() < 2; run++) {
                Run next = next();
                assertTrue(next.token() > token, next + " after " + token);
                token = next.token();
                sessions.add(next.session());
            }
        }
        assertEquals(1, worst.get(), "runs at the same time");
    }

    @Test
    void aKilledInstanceIsReplacedAfterTheTtl() throws Exception {
        try (TestProcess first = TestProcess.start(Settlement.class, String.join(",", cluster.addresses()))) {
            long token = first.number("token");
            try (ConfigurableApplicationContext second = TestApplication.start(Settlement.class, cluster)) {
                assertEquals(null, runs.poll(1, TimeUnit.SECONDS), "a second run");
                first.kill();
                assertTrue(next().token() > token);
                assertTrue(second.isActive());
            }
        }
    }

    @Test
    void aPausedInstanceSeesItsLossBeforeItsNextWrite() throws Exception {
        try (TestProcess first = TestProcess.start(Settlement.class, String.join(",", cluster.addresses()))) {
            long token = first.number("token");
            try (ConfigurableApplicationContext second = TestApplication.start(Settlement.class, cluster)) {
                first.pause();
                assertTrue(next().token() > token);
                first.resume();
                assertEquals("lost", first.line());
                assertTrue(second.isActive());
            }
        }
    }
}
