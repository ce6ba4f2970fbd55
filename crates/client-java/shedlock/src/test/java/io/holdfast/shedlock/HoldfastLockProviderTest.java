package io.holdfast.shedlock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.holdfast.Holdfast;
import io.holdfast.TestCluster;
import io.holdfast.TestProcess;
import java.time.Duration;
import java.time.Instant;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import net.javacrumbs.shedlock.core.DefaultLockingTaskExecutor;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.LockExtender;
import net.javacrumbs.shedlock.core.LockingTaskExecutor.TaskResult;
import net.javacrumbs.shedlock.core.LockingTaskExecutor.TaskWithResult;
import net.javacrumbs.shedlock.core.SimpleLock;
import net.javacrumbs.shedlock.support.LockException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.RegisterExtension;

/** The provider under the executor of ShedLock, against a real cluster. */
@Timeout(120)
class HoldfastLockProviderTest {
    private static final Duration TTL = Duration.ofSeconds(6);
    private static final Duration LONG = Duration.ofMinutes(5);

    @RegisterExtension
    static final TestCluster cluster = TestCluster.of(1);

    private final Holdfast two = cluster.client(options -> options.ttl(TTL));
    private final HoldfastLockProvider here = new HoldfastLockProvider(cluster.client(options -> options.ttl(TTL)));
    private final HoldfastLockProvider elsewhere = new HoldfastLockProvider(two);

    private static LockConfiguration of(String name, Duration atMost, Duration atLeast) {
        return new LockConfiguration(Instant.now(), name, atMost, atLeast);
    }

    private static LockConfiguration of(String name) {
        return of(name, LONG, Duration.ZERO);
    }

    @Test
    void oneProcessRunsATask() throws Throwable {
        DefaultLockingTaskExecutor executor = new DefaultLockingTaskExecutor(here);
        DefaultLockingTaskExecutor other = new DefaultLockingTaskExecutor(elsewhere);
        AtomicInteger runs = new AtomicInteger();
        TaskResult<Boolean> outer = executor.executeWithLock(
                () -> {
                    runs.incrementAndGet();
                    // ShedLock runs a task of the same name that is nested in one thread without asking for the lock.
                    return CompletableFuture.supplyAsync(() -> wasExecuted(other, runs::incrementAndGet)).get();
                },
                of("a"));
        assertTrue(outer.wasExecuted());
        assertFalse(outer.getResult(), "the other process skipped the task");
        assertEquals(1, runs.get());
        assertTrue(other.executeWithLock(runs::incrementAndGet, of("a")).wasExecuted());
        assertEquals(2, runs.get());
    }

    private static boolean wasExecuted(DefaultLockingTaskExecutor executor, TaskWithResult<Integer> task) {
        try {
            return executor.executeWithLock(task, of("a")).wasExecuted();
        } catch (Throwable e) {
            throw new AssertionError(e);
        }
    }

    @Test
    void aLockIsKeptForLongerThanTheTtl() throws Exception {
        SimpleLock lock = here.lock(of("b")).orElseThrow();
        TimeUnit.SECONDS.sleep(8);
        assertTrue(elsewhere.lock(of("b")).isEmpty());
        lock.unlock();
        elsewhere.lock(of("b")).orElseThrow().unlock();
    }

    @Test
    void lockAtMostForEndsTheHoldOfATaskThatHangs() throws Exception {
        SimpleLock hung = here.lock(of("c", Duration.ofMillis(500), Duration.ZERO)).orElseThrow();
        TimeUnit.SECONDS.sleep(1);
        SimpleLock next = elsewhere.lock(of("c")).orElseThrow();
        hung.unlock();
        assertTrue(here.lock(of("c")).isEmpty(), "the late unlock released nothing");
        next.unlock();
    }

    @Test
    void lockAtLeastForBlocksAfterTheUnlock() throws Exception {
        here.lock(of("d", LONG, Duration.ofSeconds(5))).orElseThrow().unlock();
        assertTrue(elsewhere.lock(of("d")).isEmpty());
        TimeUnit.MILLISECONDS.sleep(5_500);
        elsewhere.lock(of("d")).orElseThrow().unlock();
    }

    @Test
    void anExtensionMovesBothTimes() throws Exception {
        SimpleLock lock = here.lock(of("e", Duration.ofSeconds(3), Duration.ZERO)).orElseThrow();
        TimeUnit.MILLISECONDS.sleep(300);
        SimpleLock extended = lock.extend(Duration.ofSeconds(30), Duration.ofSeconds(1)).orElseThrow();
        assertThrows(IllegalStateException.class, lock::unlock, "ShedLock invalidates the earlier lock");
        TimeUnit.SECONDS.sleep(4);
        assertTrue(elsewhere.lock(of("e")).isEmpty());
        extended.unlock();
        elsewhere.lock(of("e")).orElseThrow().unlock();
        SimpleLock over = here.lock(of("e2", Duration.ofMillis(200), Duration.ZERO)).orElseThrow();
        TimeUnit.MILLISECONDS.sleep(400);
        assertEquals(Optional.empty(), over.extend(LONG, Duration.ZERO));
    }

    @Test
    void aTaskExtendsItsLock() throws Throwable {
        new DefaultLockingTaskExecutor(here).executeWithLock(
                () -> {
                    LockExtender.extendActiveLock(LONG, Duration.ZERO);
                    TimeUnit.SECONDS.sleep(4);
                    assertTrue(elsewhere.lock(of("f")).isEmpty());
                    return true;
                },
                of("f", Duration.ofSeconds(3), Duration.ZERO));
        elsewhere.lock(of("f")).orElseThrow().unlock();
    }

    @Test
    void manyThreadsRunATaskOneAtATime() throws Exception {
        AtomicInteger inside = new AtomicInteger();
        AtomicInteger worst = new AtomicInteger();
        CountDownLatch done = new CountDownLatch(4);
        for (int t = 0; t < 4; t++) {
            DefaultLockingTaskExecutor executor = new DefaultLockingTaskExecutor(t % 2 == 0 ? here : elsewhere);
            new Thread(() -> {
                for (int i = 0; i < 5; i++) {
                    Runnable task = () -> {
                        worst.accumulateAndGet(inside.incrementAndGet(), Math::max);
                        inside.decrementAndGet();
                    };
                    executor.executeWithLock(task, of("g"));
                }
                done.countDown();
            }).start();
        }
        assertTrue(done.await(100, TimeUnit.SECONDS));
        assertEquals(1, worst.get());
    }

    @Test
    void withoutTheClusterShedLockGetsItsException() {
        try (Holdfast lost = Holdfast.builder("127.0.0.1:9").requestTimeout(Duration.ofMillis(500)).build()) {
            assertThrows(LockException.class, () -> new HoldfastLockProvider(lost).lock(of("h")));
        }
    }

    @Test
    void aWorkerThatIsKilledFreesItsJobAfterTheTtl() throws Exception {
        try (TestProcess worker = TestProcess.start(Worker.class, cluster.addresses()[0])) {
            assertEquals("in the job", worker.line());
            long before = two.lockState("shedlock/job").holders().get(0).token();
            assertTrue(elsewhere.lock(of("job")).isEmpty());
            worker.kill();
            long start = System.nanoTime();
            Optional<SimpleLock> next = Optional.empty();
            while (next.isEmpty()) {
                TimeUnit.MILLISECONDS.sleep(100);
                next = elsewhere.lock(of("job"));
            }
            long millis = (System.nanoTime() - start) / 1_000_000;
            assertTrue(millis < 30_000, millis + " ms, although lockAtMostFor is " + LONG);
            assertTrue(two.lockState("shedlock/job").holders().get(0).token() > before);
            next.get().unlock();
        }
    }

    /** A worker that is killed in its job. */
    static final class Worker {
        private Worker() {}

        public static void main(String[] arguments) {
            Holdfast client = Holdfast.builder(arguments[0]).ttl(TTL).build();
            DefaultLockingTaskExecutor executor = new DefaultLockingTaskExecutor(new HoldfastLockProvider(client));
            Runnable job = () -> {
                System.out.println("in the job");
                try {
                    TimeUnit.MINUTES.sleep(1);
                } catch (InterruptedException e) {
                    Thread.currentThread().interrupt();
                }
            };
            executor.executeWithLock(job, of("job"));
        }
    }
}
