package io.holdfast;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.holdfast.locks.FencedLock;
import io.holdfast.locks.InterProcessMutex;
import io.holdfast.locks.RLock;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.RegisterExtension;

/** Locks of a healthy cluster. */
@Timeout(120)
class LocksTest {
    @RegisterExtension
    static final TestCluster cluster = TestCluster.of(1);

    private final Holdfast one = cluster.client(options -> options.ttl(seconds(10)).label("host", "web1"));
    private final Holdfast two = cluster.client();

    private static Duration seconds(long seconds) {
        return Duration.ofSeconds(seconds);
    }

    private void awaitWaiters(String lock, long waiters) throws InterruptedException {
        while (one.lockState(lock).waiters() != waiters) {
            TestCluster.sleep(Duration.ofMillis(50));
        }
    }

    @Test
    void aLockHasOneHolderAndTokensGrow() throws Exception {
        long first;
        try (Guard guard = one.lock("a/one").acquire()) {
            first = guard.token();
            guard.ensure();
            assertEquals(Map.of("Fencing-Token", first + "; resource=\"a/one\""), guard.headers());
            BusyException busy = assertThrows(BusyException.class, () -> two.lock("a/one").tryAcquire());
            assertEquals(first, busy.holder().token());
            assertEquals("web1", busy.holder().labels().get("host"));
            assertEquals("lock-busy", busy.code());
            assertTrue(busy.retryable());
            assertTrue(busy.getMessage().startsWith("lock \"a/one\" is held by session \"sdk-"), busy.getMessage());
            assertThrows(BusyException.class, () -> one.lock("a/one").tryAcquire(), "guards of one client");
        }
        try (Guard guard = two.lock("a/one").waitAtMost(seconds(20)).acquire()) {
            assertTrue(guard.token() > first);
        }
        assertTrue(one.lockState("a/one").holders().isEmpty());
    }

    @Test
    void aWaiterGetsTheLockAtTheReleaseAndABoundedWaitEnds() throws Exception {
        Guard guard = one.lock("b").acquire();
        BusyException timeout =
                assertThrows(BusyException.class, () -> two.lock("b").waitAtMost(seconds(1)).acquire());
        assertEquals("wait-timeout", timeout.code());
        CompletableFuture<Long> waiter = CompletableFuture.supplyAsync(() -> {
            try (Guard next = two.lock("b").acquireUninterruptibly()) {
                return next.token();
            }
        });
        awaitWaiters("b", 1);
        guard.release();
        guard.release();
        assertTrue(waiter.get(20, TimeUnit.SECONDS) > guard.token());
        assertThrows(LostException.class, guard::ensure, "a released guard");
    }

    @Test
    void anInterruptLeavesTheQueue() throws Exception {
        try (Guard guard = one.lock("c").acquire()) {
            AtomicReference<Throwable> thrown = new AtomicReference<>();
            Thread waiter = new Thread(() -> {
                try {
                    two.lock("c").acquire();
                } catch (Throwable e) {
                    thrown.set(e);
                }
            });
            waiter.start();
            awaitWaiters("c", 1);
            waiter.interrupt();
            waiter.join(20_000);
            assertEquals(InterruptedException.class, thrown.get().getClass());
            awaitWaiters("c", 0);
            guard.ensure();
        }
    }

    @Test
    void aHoldIsRenewedForLongerThanItsTtl() throws Exception {
        try (Guard guard = one.lock("d").ttl(seconds(4)).acquire()) {
            for (int i = 0; i < 14; i++) {
                TestCluster.sleep(Duration.ofMillis(500));
                guard.ensure();
            }
            assertTrue(guard.remaining().compareTo(seconds(1)) > 0, guard.toString());
        }
    }

    @Test
    void aForceReleaseIsReportedAtOnce() throws Exception {
        Guard guard = one.lock("e").acquire();
        CompletableFuture<Loss> lost = new CompletableFuture<>();
        guard.onLost(lost::complete);
        TestCluster.sleep(Duration.ofMillis(200));
        assertEquals(1, two.forceRelease("e", "host burnt down"));
        assertEquals(new Loss(Loss.Cause.FORCE_RELEASED, "host burnt down"), lost.get(20, TimeUnit.SECONDS));
        LostException loss = assertThrows(LostException.class, guard::ensure);
        assertEquals("force-released", loss.loss().cause().code());
        assertThrows(LostException.class, guard::close);
        assertEquals(Duration.ZERO, guard.remaining());
    }

    @Test
    void aReleaseRequestArrivesAndCanRevoke() throws Exception {
        Guard guard = one.lock("f").acquire();
        CompletableFuture<ReleaseRequest> asked = new CompletableFuture<>();
        CompletableFuture<Loss> lost = new CompletableFuture<>();
        guard.onReleaseRequested(asked::complete);
        guard.onLost(lost::complete);
        assertEquals(1, two.requestRelease("f", "maintenance", seconds(2), true));
        assertEquals("maintenance", asked.get(20, TimeUnit.SECONDS).reason());
        assertEquals(new Loss(Loss.Cause.REVOKED, "maintenance"), lost.get(20, TimeUnit.SECONDS));
        try (Guard next = two.lock("f").waitAtMost(seconds(20)).acquire()) {
            assertTrue(next.token() > guard.token());
        }
    }

    @Test
    void limitsOfAHoldEndIt() throws Exception {
        Guard max = one.lock("g/max").maxHold(Duration.ofMillis(600)).acquire();
        Guard stalled = one.lock("g/progress").progressTimeout(seconds(2)).acquire();
        for (int i = 0; i < 3; i++) {
            TestCluster.sleep(Duration.ofMillis(800));
            stalled.reportProgress();
        }
        assertEquals(Loss.Cause.STALLED, stalled.lost().toCompletableFuture().get(20, TimeUnit.SECONDS).cause());
        assertEquals(Loss.Cause.MAX_HOLD_EXCEEDED, max.lost().toCompletableFuture().get(20, TimeUnit.SECONDS).cause());
        two.lock("g/max").waitAtMost(seconds(20)).acquire().close();
        two.lock("g/progress").waitAtMost(seconds(20)).acquire().close();
        assertThrows(LostException.class, stalled::reportProgress);
    }

    @Test
    void minHoldDelaysTheNextGrant() throws Exception {
        one.lock("g/min").minHold(seconds(4)).acquire().close();
        BusyException busy = assertThrows(BusyException.class, () -> two.lock("g/min").tryAcquire());
        assertEquals("lock-in-cooldown", busy.code());
        assertNull(busy.holder());
        two.lock("g/min").waitAtMost(seconds(20)).acquire().close();
    }

    @Test
    void aLockIsFreeAfterBothReleasesAlthoughOneGuardOfItsOwnerUpgradedIt() throws Exception {
        LockRequest request = one.lock("upgraded").owner("importer").ttl(seconds(3)).upgradable();
        // The session lives on, so its end frees no lock.
        Guard beside = one.lock("beside-upgraded").ttl(seconds(3)).acquire();
        Guard first = request.acquire();
        Guard second = request.acquire();
        first.upgrade(seconds(20));
        second.ensure();
        assertEquals(first.token(), second.token());
        second.release();
        first.release();
        two.lock("upgraded").waitAtMost(seconds(20)).acquire().close();
        beside.close();
    }

    @Test
    void sharedUpgradableAndExclusive() throws Exception {
        Guard reader = one.lock("h").shared().acquire();
        Guard editor = two.lock("h").upgradable().acquire();
        assertThrows(BusyException.class, () -> two.lock("h").tryAcquire());
        assertThrows(BusyException.class, () -> editor.upgrade(Duration.ofMillis(300)));
        editor.ensure();
        assertEquals(Mode.UPGRADABLE, editor.mode());
        long before = editor.token();
        reader.close();
        assertTrue(editor.upgrade(seconds(20)) > before);
        TestCluster.sleep(Duration.ofMillis(700));
        editor.ensure();
        assertThrows(BusyException.class, () -> one.lock("h").shared().tryAcquire());
        assertThrows(InvalidArgumentException.class, () -> new HoldChange(reader(one, "h2").hold).downgrade(Mode.EXCLUSIVE));
        editor.downgrade(Mode.SHARED);
        // The cluster accepts the mode that the hold has.
        editor.downgrade(Mode.SHARED);
        one.lock("h").shared().tryAcquire().close();
        editor.close();
    }

    private static Guard reader(Holdfast client, String lock) {
        return client.lock(lock).shared().tryAcquire();
    }

    @Test
    void aSemaphoreHasPermits() throws Exception {
        Guard guard = one.semaphore("i", 3).permits(2).acquire();
        assertEquals(2, guard.slots().size());
        assertThrows(BusyException.class, () -> two.semaphore("i", 3).permits(2).tryAcquire());
        guard.releasePermits(1);
        assertEquals(1, guard.permits());
        two.semaphore("i", 3).permits(2).tryAcquire().close();
        RejectedException rejected = assertThrows(RejectedException.class, () -> two.semaphore("i", 4).tryAcquire());
        assertEquals("limit-mismatch", rejected.code());
        assertThrows(InvalidArgumentException.class, () -> guard.releasePermits(1));
        guard.close();
    }

    @Test
    void aMultiLockIsAllOrNone() throws Exception {
        try (MultiGuard both = one.lockAll("j/7", "j/9").acquire()) {
            both.ensure();
            assertEquals(2, both.tokens().size());
            assertThrows(BusyException.class, () -> two.lock("j/9").tryAcquire());
            assertThrows(BusyException.class, () -> two.lockAll("j/9", "j/8").waitAtMost(Duration.ZERO).acquire());
            assertFalse(two.lockState("j/8").holders().iterator().hasNext());
        }
        two.lock("j/9").tryAcquire().close();
    }

    @Test
    void anOwnerEntersItsHoldAgain() throws Exception {
        Guard outer = one.lock("k").owner("importer").acquire();
        Guard inner = one.lock("k").owner("importer").acquire();
        assertEquals(outer.token(), inner.token());
        outer.close();
        inner.ensure();
        assertThrows(BusyException.class, () -> two.lock("k").tryAcquire());
        RejectedException rejected =
                assertThrows(RejectedException.class, () -> one.lock("k").owner("importer").reentrant(false).tryAcquire());
        assertEquals("not-reentrant", rejected.code());
        inner.close();
        two.lock("k").tryAcquire().close();
    }

    @Test
    void closingTheClientReleasesAndEndsWaits() throws Exception {
        Guard guard = one.lock("l").acquire();
        CompletableFuture<Void> waiter = CompletableFuture.runAsync(() -> one.lock("l").acquireUninterruptibly());
        awaitWaiters("l", 1);
        one.close();
        ExecutionException ended = assertThrows(ExecutionException.class, () -> waiter.get(20, TimeUnit.SECONDS));
        assertEquals(LostException.class, ended.getCause().getClass());
        assertEquals(Loss.Cause.SESSION_ENDED, assertThrows(LostException.class, guard::ensure).loss().cause());
        two.lock("l").waitAtMost(seconds(20)).acquire().close();
        assertThrows(InvalidArgumentException.class, () -> one.lock("l").tryAcquire());
    }

    @Test
    void aNamedSessionIsNeverReplaced() throws Exception {
        try (Holdfast named = cluster.client(options -> options.session("worker-1").ttl(seconds(4)))) {
            Guard guard = named.lock("m").acquire();
            assertEquals("worker-1", guard.session());
            guard.close();
            TestCluster.sleep(seconds(9));
            assertThrows(LostException.class, () -> named.lock("m").tryAcquire());
        }
    }

    @Test
    void threadsOwnALockView() throws Exception {
        FencedLock lock = new FencedLock(one.lock("n"));
        long fence = lock.lockAndGetFence();
        assertTrue(lock.tryLock());
        assertEquals(2, lock.getLockCount());
        assertEquals(fence, lock.getFence());
        FencedLock other = new FencedLock(one.lock("n"));
        assertTrue(other.tryLock(), "the same thread, another object");
        assertEquals(fence, other.getFence());
        other.unlock();
        CompletableFuture.runAsync(() -> {
            assertFalse(lock.tryLock(), "another thread, the same object");
            assertEquals(FencedLock.INVALID_FENCE, other.tryLockAndGetFence(), "another thread, another object");
            assertThrows(IllegalMonitorStateException.class, lock::unlock);
            assertTrue(lock.isLocked());
            assertFalse(lock.isLockedByCurrentThread());
        }).get();
        lock.unlock();
        assertTrue(lock.isLockedByCurrentThread());
        lock.unlock();
        assertFalse(lock.isLockedByCurrentThread());
        assertThrows(IllegalMonitorStateException.class, lock::unlock);
        assertThrows(UnsupportedOperationException.class, lock::newCondition);
        two.lock("n").tryAcquire().close();
    }

    @Test
    void aLeaseEndsTheHoldOfAnRLock() throws Exception {
        RLock lock = new RLock(one.lock("o"));
        assertTrue(lock.tryLock(3, 3, TimeUnit.SECONDS));
        assertTrue(lock.remainTimeToLive() > 0 && lock.remainTimeToLive() <= 3_000);
        TestCluster.sleep(Duration.ofMillis(3_100));
        assertFalse(lock.isHeldByCurrentThread());
        assertThrows(LostException.class, lock::ensure);
        assertThrows(LostException.class, lock::unlock);
        two.lock("o").waitAtMost(seconds(20)).acquire().close();
    }

    @Test
    void aMutexOfCuratorHasTheSameName() throws Exception {
        InterProcessMutex mutex = new InterProcessMutex(one, "/locks/p");
        mutex.acquire();
        assertTrue(mutex.isAcquiredInThisProcess() && mutex.isOwnedByCurrentThread());
        assertThrows(BusyException.class, () -> two.lock("p").tryAcquire());
        InterProcessMutex other = new InterProcessMutex(two, "/locks/p");
        assertFalse(other.acquire(200, TimeUnit.MILLISECONDS));
        mutex.release();
        assertTrue(other.acquire(20, TimeUnit.SECONDS));
        other.release();
    }

    @Test
    void aDurableHoldOutlastsItsClient() throws Exception {
        long token = one.holdDurably("r", "carol", "moving to v2", Duration.ZERO);
        assertEquals(token, two.holdDurably("r", "carol", "moving to v2", Duration.ZERO), "the owner names the hold");
        BusyException busy = assertThrows(
                BusyException.class, () -> two.holdDurably("r", "dave", "a freeze", Duration.ofMillis(100)));
        assertTrue(busy.code().equals("wait-timeout"), busy.code());
        one.close();
        assertThrows(BusyException.class, () -> two.lock("r").tryAcquire());
        two.releaseDurable("r", "carol", token + 1);
        assertThrows(BusyException.class, () -> two.lock("r").tryAcquire(), "another token ends nothing");
        two.releaseDurable("r", "carol", token);
        two.releaseDurable("r", "carol", token);
        try (Guard guard = two.lock("r").tryAcquire()) {
            assertTrue(guard.token() > token);
        }
    }

    @Test
    void manyThreadsExcludeEachOther() throws Exception {
        int threads = 8;
        int rounds = 6;
        int[] counter = {0};
        CountDownLatch done = new CountDownLatch(threads);
        AtomicReference<Throwable> failed = new AtomicReference<>();
        for (int t = 0; t < threads; t++) {
            Holdfast client = t % 2 == 0 ? one : two;
            new Thread(() -> {
                try {
                    for (int i = 0; i < rounds; i++) {
                        try (Guard guard = client.lock("q").acquire()) {
                            int seen = counter[0];
                            Thread.yield();
                            guard.ensure();
                            counter[0] = seen + 1;
                        }
                    }
                } catch (Throwable e) {
                    failed.set(e);
                } finally {
                    done.countDown();
                }
            }).start();
        }
        assertTrue(done.await(100, TimeUnit.SECONDS));
        assertNull(failed.get());
        assertEquals(threads * rounds, counter[0]);
    }

    @Test
    void invalidArgumentsSendNothing() {
        assertThrows(InvalidArgumentException.class, () -> one.lock("a//b"));
        assertThrows(InvalidArgumentException.class, () -> one.lock(""));
        assertThrows(InvalidArgumentException.class, () -> one.lock("a").owner("a b"));
        assertThrows(InvalidArgumentException.class, () -> one.lock("a").ttl(Duration.ofMillis(1)));
        assertThrows(InvalidArgumentException.class, () -> Holdfast.connect("no address"));
        assertThrows(InvalidArgumentException.class, () -> one.lockAll());
    }

    @Test
    void namesMayHaveEveryAllowedCharacter() throws Exception {
        String name = "ä/ö ü/?&=#%+\"\\;:@!$'()*,[]{}|<>^`~/日本/🔒";
        try (Guard guard = one.lock(name).value("v & w=1 ü").acquire()) {
            LockState.Holder holder = two.lockState(name).holders().get(0);
            assertEquals(guard.token(), holder.token());
            assertEquals("v & w=1 ü", holder.value());
            TestCluster.sleep(Duration.ofMillis(500));
            guard.ensure();
        }
    }
}
