package io.holdfast;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.RegisterExtension;

/** Elections, latches, barriers, counters and the tree of a healthy cluster. */
@Timeout(120)
class RecipesTest {
    private static final Duration WAIT = Duration.ofSeconds(30);
    private static final Duration SHORT = Duration.ofMillis(300);

    @RegisterExtension
    static final TestCluster cluster = TestCluster.of(1);

    private final Holdfast one = cluster.client();
    private final Holdfast two = cluster.client();

    /** A call that may be interrupted. */
    private interface Work {
        void run() throws InterruptedException;
    }

    private static CompletableFuture<Void> async(Work work) {
        return CompletableFuture.runAsync(() -> {
            try {
                work.run();
            } catch (InterruptedException e) {
                throw new AssertionError(e);
            }
        });
    }

    /** Waits until a number of parties has arrived. */
    private void awaitArrivals(String barrier, int parties) throws InterruptedException {
        Call read = Call.get(Call.Target.of("/v1/barriers/", barrier).toString());
        while (one.calls().send(read).json().list("arrived").size() < parties) {
            TestCluster.sleep(Duration.ofMillis(50));
        }
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    @Test
    void anObserverSeesEachLeader() throws Exception {
        BlockingQueue<Optional<Election.Leader>> leaders = new LinkedBlockingQueue<>();
        try (Watch watch = two.election("db").observe(leaders::add)) {
            assertEquals(Optional.empty(), leaders.poll(25, TimeUnit.SECONDS));
            Guard first = one.election("db").campaign("10.0.0.7:5432");
            Election.Leader leader = leaders.poll(25, TimeUnit.SECONDS).orElseThrow();
            assertEquals("10.0.0.7:5432", leader.value());
            assertEquals(first.token(), leader.token());
            assertThrows(BusyException.class, () -> two.election("db").waitAtMost(Duration.ZERO).campaign("x"));
            CompletableFuture<Guard> next = CompletableFuture.supplyAsync(() -> {
                try {
                    return two.election("db").campaign("10.0.0.8:5432");
                } catch (InterruptedException e) {
                    throw new AssertionError(e);
                }
            });
            TestCluster.sleep(SHORT);
            first.close();
            Guard second = next.get(25, TimeUnit.SECONDS);
            assertEquals("10.0.0.8:5432", leaders.poll(25, TimeUnit.SECONDS).orElseThrow().value());
            second.close();
            assertEquals(Optional.empty(), leaders.poll(25, TimeUnit.SECONDS));
            assertEquals(Optional.empty(), one.election("db").leader());
        }
    }

    @Test
    void aLatchOpensAfterDifferentKeys() throws Exception {
        Latch latch = one.latch("migrated");
        latch.create(2);
        latch.create(2);
        assertThrows(RejectedException.class, () -> latch.create(3));
        assertThrows(BusyException.class, () -> latch.await(SHORT));
        CompletableFuture<Void> waiter = async(() -> two.latch("migrated").await(WAIT));
        assertEquals(1, latch.countDown("eu"));
        assertEquals(1, latch.countDown("eu"));
        assertFalse(waiter.isDone());
        assertEquals(0, two.latch("migrated").countDown("us"));
        waiter.get(25, TimeUnit.SECONDS);
        latch.delete();
        assertThrows(RejectedException.class, () -> latch.await(Duration.ZERO));
    }

    @Test
    void aBarrierOpensForAllParties() throws Exception {
        CompletableFuture<Void> first = async(() -> one.barrier("start", 2).await(WAIT));
        CompletableFuture<Void> second = async(() -> one.barrier("start", 2).await(WAIT));
        first.get(25, TimeUnit.SECONDS);
        second.get(25, TimeUnit.SECONDS);
        CompletableFuture<Void> waiter = async(() -> one.barrier("start", 3).await(WAIT));
        awaitArrivals("start", 1);
        assertThrows(BusyException.class, () -> two.barrier("start", 3).await(SHORT));
        Throwable broken = assertThrows(Exception.class, () -> waiter.get(25, TimeUnit.SECONDS)).getCause();
        assertEquals("barrier-broken", ((HoldfastException) broken).code());
    }

    @Test
    void anInterruptedArrivalBreaksTheBarrier() throws Exception {
        Thread leaving = new Thread(() -> assertThrows(InterruptedException.class, () -> one.barrier("s2", 3).await(WAIT)));
        leaving.start();
        CompletableFuture<Void> waiter = async(() -> two.barrier("s2", 3).await(WAIT));
        awaitArrivals("s2", 2);
        leaving.interrupt();
        Throwable broken = assertThrows(Exception.class, () -> waiter.get(25, TimeUnit.SECONDS)).getCause();
        assertEquals("barrier-broken", ((HoldfastException) broken).code());
    }

    @Test
    void partiesEnterAndLeaveTogether() throws Exception {
        CompletableFuture<DoubleBarrier.Inside> first = CompletableFuture.supplyAsync(() -> {
            try {
                return one.doubleBarrier("batch", 2).enter(WAIT);
            } catch (InterruptedException e) {
                throw new AssertionError(e);
            }
        });
        DoubleBarrier.Inside mine = two.doubleBarrier("batch", 2).enter(WAIT);
        DoubleBarrier.Inside other = first.get(25, TimeUnit.SECONDS);
        CompletableFuture<Void> leaving = async(() -> other.leave(WAIT));
        TestCluster.sleep(SHORT);
        assertFalse(leaving.isDone());
        mine.leave(WAIT);
        leaving.get(25, TimeUnit.SECONDS);
        assertThrows(BusyException.class, () -> one.doubleBarrier("batch", 2).enter(SHORT));
    }

    @Test
    void aCounterCounts() {
        Counter hits = one.counter("hits");
        assertEquals(0, hits.get());
        assertEquals(5, hits.add(5));
        assertEquals(3, two.counter("hits").add(-2));
        hits.set(Long.MAX_VALUE);
        assertEquals("counter-overflow", assertThrows(RejectedException.class, () -> hits.add(1)).code());
        hits.delete();
        assertEquals(0, hits.get());
    }

    @Test
    void manyNumberedCallsOfOneSessionAreExecutedOnce() throws Exception {
        CompletableFuture<?>[] calls = new CompletableFuture<?>[60];
        for (int i = 0; i < calls.length; i++) {
            calls[i] = async(() -> one.counter("many").add(1));
        }
        CompletableFuture.allOf(calls).get(100, TimeUnit.SECONDS);
        assertEquals(calls.length, one.counter("many").get());
    }

    @Test
    void theTreeComparesVersionsAndReportsChanges() throws Exception {
        BlockingQueue<Watch.Change> changes = new LinkedBlockingQueue<>();
        Watch.Listener listener = new Watch.Listener() {
            @Override
            public void changed(Watch.Change change) {
                changes.add(change);
            }

            @Override
            public void missed() {}
        };
        Tree tree = one.tree();
        tree.put("/shop/config", bytes("one"));
        try (Watch watch = two.tree().watch("/shop/", listener)) {
            TestCluster.sleep(SHORT);
            Tree.Znode first = two.tree().get("/shop/config").orElseThrow();
            assertArrayEquals(bytes("one"), first.data());
            long next = tree.putIf("/shop/config", bytes("two"), first.version());
            assertEquals(first.version() + 1, next);
            RejectedException old =
                    assertThrows(RejectedException.class, () -> tree.putIf("/shop/config", bytes("x"), first.version()));
            assertEquals("version-mismatch", old.code());
            Watch.Change change = changes.poll(25, TimeUnit.SECONDS);
            assertEquals("changed /shop/config", change.kind() + " " + change.path());
            assertThrows(RejectedException.class, () -> tree.deleteIf("/shop/config", first.version()));
            tree.delete("/shop/config");
            assertEquals("deleted", changes.poll(25, TimeUnit.SECONDS).kind());
            assertTrue(tree.get("/shop/config").isEmpty());
        }
    }
}
