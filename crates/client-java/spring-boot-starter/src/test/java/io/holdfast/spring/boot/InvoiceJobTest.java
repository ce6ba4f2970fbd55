package io.holdfast.spring.boot;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.holdfast.TestCluster;
import io.holdfast.TestProcess;
import io.holdfast.TestReadme;
import java.util.HashSet;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.quartz.JobBuilder;
import org.quartz.JobDetail;
import org.quartz.Scheduler;
import org.quartz.SimpleScheduleBuilder;
import org.quartz.Trigger;
import org.quartz.TriggerBuilder;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;

/** Two schedulers of Quartz without a shared store. */
@Timeout(300)
class InvoiceJobTest {
    @RegisterExtension
    static final TestCluster cluster = TestCluster.of(1);

    @Configuration(proxyBeanMethods = false)
    @EnableAutoConfiguration
    static class Invoices {
        @Bean
        JobDetail job() {
            return JobBuilder.newJob(InvoiceJob.class).withIdentity("invoices").storeDurably().build();
        }

        @Bean
        Trigger trigger(JobDetail job) {
            return TriggerBuilder.newTrigger()
                    .forJob(job)
                    .withSchedule(SimpleScheduleBuilder.simpleSchedule().withIntervalInMilliseconds(50).repeatForever())
                    .build();
        }
    }

    @Test
    void theReadmeShowsTheJob() throws Exception {
        TestReadme.shows(InvoiceJob.class);
    }

    @Test
    void oneOfTwoSchedulersRunsTheJobAtATime() throws Exception {
        BlockingQueue<String> sessions = new LinkedBlockingQueue<>();
        AtomicInteger inside = new AtomicInteger();
        AtomicInteger worst = new AtomicInteger();
        InvoiceJob.work = guard -> {
            worst.accumulateAndGet(inside.incrementAndGet(), Math::max);
            guard.ensure();
            sessions.add(guard.session());
            inside.decrementAndGet();
        };
        Set<String> seen = new HashSet<>();
        try (ConfigurableApplicationContext one = scheduler("one");
                ConfigurableApplicationContext two = scheduler("two")) {
            assertEquals("one", one.getBean(Scheduler.class).getSchedulerName());
            assertEquals("two", two.getBean(Scheduler.class).getSchedulerName());
            for (int run = 0; run < 20 || seen.size() < 2; run++) {
                String session = sessions.poll(40, TimeUnit.SECONDS);
                assertNotNull(session, "no run");
                seen.add(session);
            }
        }
        assertEquals(1, worst.get(), "runs at the same time");
    }

    @Test
    void aSchedulerThatIsKilledInItsJobIsReplacedAfterTheTtl() throws Exception {
        BlockingQueue<Long> tokens = new LinkedBlockingQueue<>();
        InvoiceJob.work = guard -> tokens.add(guard.token());
        try (TestProcess first = TestProcess.start(InvoiceJob.class, String.join(",", cluster.addresses()))) {
            long killed = first.number("token");
            try (ConfigurableApplicationContext second = scheduler("second")) {
                assertEquals(null, tokens.poll(1, TimeUnit.SECONDS), "a run at the same time");
                first.kill();
                Long token = tokens.poll(40, TimeUnit.SECONDS);
                assertNotNull(token, "no run after the death of the first scheduler");
                assertTrue(token > killed && second.isActive());
            }
        }
    }

    private static ConfigurableApplicationContext scheduler(String name) {
        return TestApplication.start(Invoices.class, cluster, "spring.quartz.scheduler-name=" + name);
    }
}
