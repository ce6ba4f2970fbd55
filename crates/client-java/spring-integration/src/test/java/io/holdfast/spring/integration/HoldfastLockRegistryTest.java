package io.holdfast.spring.integration;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.holdfast.Holdfast;
import io.holdfast.Loss;
import io.holdfast.LostException;
import io.holdfast.TestCluster;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.springframework.integration.util.CheckedRunnable;

/** The registry against a real cluster. */
@Timeout(300)
class HoldfastLockRegistryTest {
    private static final Duration LONG = Duration.ofMinutes(5);

    @RegisterExtension
    static final TestCluster cluster = TestCluster.of(1);

    private final Holdfast client = cluster.client();
    private final HoldfastLockRegistry here = new HoldfastLockRegistry(client);
    private final HoldfastLockRegistry elsewhere = new HoldfastLockRegistry(cluster.client());

    @Test
    void onlyTheThreadThatHoldsALockMayAcquireItAgain() throws Exception {
        HoldfastDistributedLock lock = here.obtain("a");
        lock.lock();
        assertTrue(here.obtain("a").tryLock(), "the same thread, another object");
        assertFalse(CompletableFuture.supplyAsync(() -> here.obtain("a").tryLock()).get(), "another thread");
        assertFalse(elsewhere.obtain("a").tryLock(), "another client");
        here.obtain("a").unlock();
        assertTrue(lock.token() > 0);
        assertEquals(1, client.lockState("spring-integration/a").holders().size());
        lock.unlock();
        assertThrows(IllegalMonitorStateException.class, lock::unlock);
        elsewhere.obtain("a").lock();
        elsewhere.obtain("a").unlock();
    }

    @Test
    void workRunsUnderTheLockOfItsKey() throws Exception {
        AtomicInteger inside = new AtomicInteger();
        CheckedRunnable<RuntimeException> work = inside::incrementAndGet;
        here.executeLocked("b", () -> {
            assertThrows(TimeoutException.class, () ->
                    elsewhere.executeLocked("b", Duration.ofMillis(200), work));
            elsewhere.executeLocked("b2", work);
        });
        assertEquals(1, inside.get());
        elsewhere.executeLocked("b", Duration.ofSeconds(20), work);
        assertEquals(2, inside.get());
    }

    @Test
    void aTtlEndsTheHoldOfAThreadThatHangs() throws Exception {
        HoldfastDistributedLock hung = here.obtain("c");
        assertTrue(hung.tryLock(Duration.ofSeconds(20), Duration.ofMillis(500)));
        assertTrue(elsewhere.obtain("c").tryLock(Duration.ofSeconds(20), LONG), "after the ttl");
        LostException lost = assertThrows(LostException.class, hung::unlock);
        assertEquals(Loss.Cause.MAX_HOLD_EXCEEDED, lost.loss().cause());
        assertThrows(IllegalMonitorStateException.class, hung::unlock, "the loss was reported once");
        elsewhere.obtain("c").unlock();
    }

    @Test
    void aRenewalMovesTheEndOfTheHold() throws Exception {
        here.obtain("d").lock(Duration.ofSeconds(2));
        here.renewLock("d", LONG);
        assertFalse(elsewhere.obtain("d").tryLock(4, TimeUnit.SECONDS));
        here.renewLock("d");
        here.obtain("d").unlock();
        assertThrows(IllegalMonitorStateException.class, () -> here.renewLock("d"));
    }

    @Test
    void aLostLockIsNeitherRenewedNorAcquiredAgain() throws Exception {
        HoldfastDistributedLock lock = here.obtain("e");
        lock.lock(LONG);
        client.forceRelease("spring-integration/e", "maintenance");
        lock.guard().lost().toCompletableFuture().get(20, TimeUnit.SECONDS);
        assertThrows(LostException.class, lock::tryLock);
        assertThrows(LostException.class, () -> here.renewLock("e"));
        assertThrows(LostException.class, () -> here.renewLock("e", LONG));
        assertThrows(LostException.class, lock::unlock);
        assertTrue(lock.tryLock());
        lock.unlock();
    }

    @Test
    void otherRegistriesHaveOtherNames() throws ExecutionException, InterruptedException {
        HoldfastLockRegistry billing = new HoldfastLockRegistry(key -> client.lock("billing/" + key).value("invoice 7"));
        billing.obtain("f").lock();
        assertTrue(here.obtain("f").tryLock());
        assertEquals(1, client.lockState("billing/f").holders().size());
        here.obtain("f").unlock();
        billing.obtain("f").unlock();
    }
}
