package io.holdfast;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.holdfast.FakeNode.Answer;
import io.holdfast.FakeNode.Received;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.UnaryOperator;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** The reads of locks that a renewal makes necessary, while the node holds their answers back. */
@Timeout(180)
class RenewalReadsTest {
    private static final int LOCKS = 8;
    private static final Duration SHORT = Duration.ofMillis(500);
    private static final Duration LONG = Duration.ofSeconds(30);

    /** The tokens of the locks that a keepalive lists. */
    private final Map<String, Integer> listed = new ConcurrentSkipListMap<>();
    /** More of the answer to a keepalive. */
    private volatile String more = "";
    private volatile boolean areHeld = true;
    private volatile String session;
    private final CountDownLatch mayAnswer = new CountDownLatch(1);
    private final BlockingQueue<String> reads = new LinkedBlockingQueue<>();
    private final BlockingQueue<Received> renewals = new LinkedBlockingQueue<>();
    private final AtomicInteger reading = new AtomicInteger();
    private final AtomicInteger readingMost = new AtomicInteger();
    private final CountDownLatch strays = new CountDownLatch(LOCKS);
    private FakeNode node;
    private Holdfast client;

    private List<Guard> guards(UnaryOperator<HoldfastBuilder> options) {
        node = FakeNode.of(call -> {
            String lock = call.name().substring(call.name().lastIndexOf('/') + 1);
            if (call.name().startsWith("PUT")) {
                session = call.query().get("session");
                listed.put(lock, Integer.valueOf(lock));
                return new Answer(200, node.grant(listed.get(lock), "").body().replace("orders", lock));
            } else if (call.name().startsWith("DELETE")) {
                if (listed.remove(lock) != null) {
                    strays.countDown();
                }
                return new Answer(204, "");
            }
            readingMost.accumulateAndGet(reading.incrementAndGet(), Math::max);
            reads.add(lock);
            await(mayAnswer);
            reading.decrementAndGet();
            return state(lock);
        });
        node.keepalives = call -> {
            renewals.add(call);
            return new Answer(200, "{\"expires_in_ms\":30000,\"revision\":1,\"holds\":" + holds() + more + "}");
        };
        client = node.client(options);
        return IntStream.rangeClosed(1, LOCKS).mapToObj(lock -> client.lock("" + lock).tryAcquire()).toList();
    }

    private String holds() {
        return listed.entrySet().stream()
                .map(hold -> "{\"lock\":\"" + hold.getKey() + "\",\"token\":" + hold.getValue() + "}")
                .collect(Collectors.joining(",", "[", "]"));
    }

    /** A hold whose release is requested, or no hold. */
    private Answer state(String lock) {
        String holder = "{\"session\":\"" + session + "\",\"owner\":\"g-late\",\"token\":" + lock
                + ",\"release_request\":{\"wanted_in_ms\":60000,\"revoke\":false}}";
        int total = areHeld ? 1 : 0;
        return new Answer(200, "{\"lock\":\"" + lock + "\",\"revision\":1,\"holders_total\":" + total + ",\"holders\":["
                + (areHeld ? holder : "") + "]}");
    }

    private static void await(CountDownLatch latch) {
        try {
            latch.await();
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    @AfterEach
    void close() {
        mayAnswer.countDown();
        node.close();
    }

    private void assertRenewsDuringReads() throws InterruptedException {
        assertNotNull(reads.poll(20, TimeUnit.SECONDS), "no read");
        renewals.clear();
        assertNotNull(renewals.poll(20, TimeUnit.SECONDS), "no renewal during a read");
        awaitReads(Background.READERS_MAX - 1);
        mayAnswer.countDown();
    }

    private void awaitReads(int count) throws InterruptedException {
        for (int i = 0; i < count; i++) {
            assertNotNull(reads.poll(20, TimeUnit.SECONDS), "no read");
        }
    }

    @Test
    void aGapInTheEventsDelaysNoRenewal() throws Exception {
        List<Guard> guards = guards(options -> options);
        CountDownLatch requests = new CountDownLatch(LOCKS);
        guards.forEach(guard -> guard.onReleaseRequested(request -> requests.countDown()));
        more = ",\"gap\":{}";
        assertRenewsDuringReads();
        await(requests);
        guards.forEach(Guard::ensure);
        assertEquals(Background.READERS_MAX, readingMost.get());
    }

    @Test
    void holdsThatAreNotListedDelayNoRenewal() throws Exception {
        List<Guard> guards = guards(options -> options);
        areHeld = false;
        listed.clear();
        assertRenewsDuringReads();
        for (Guard guard : guards) {
            assertEquals(Loss.RELEASED_ELSEWHERE, guard.lost().toCompletableFuture().get(20, TimeUnit.SECONDS));
        }
        assertEquals(Background.READERS_MAX, readingMost.get());
    }

    @Test
    void holdsWithoutAGuardDelayNoRenewal() throws Exception {
        List<Guard> guards = guards(options -> options);
        IntStream.rangeClosed(LOCKS + 1, 2 * LOCKS).forEach(stray -> listed.put("" + stray, stray));
        assertRenewsDuringReads();
        await(strays);
        guards.forEach(Guard::ensure);
        assertEquals(Background.READERS_MAX, readingMost.get());
    }

    private void deliverGap(Session owner) {
        deliverGap(owner, new SessionEvents(owner));
    }

    private void deliverGap(Session owner, SessionEvents events) {
        Json gap = Json.parse("{\"holds\":" + holds() + ",\"events\":[],\"gap\":{}}");
        events.deliver(events.knownHolds(), gap, Duration.ofHours(1).toNanos(), owner.clock.nanos());
    }

    @Test
    void aReadThatHasNotBegunIsQueuedOnce() throws Exception {
        Session owner = guards(options -> options).get(0).hold.session;
        SessionEvents events = new SessionEvents(owner);
        deliverGap(owner, events);
        awaitReads(Background.READERS_MAX);
        for (int gap = 0; gap < 5; gap++) {
            deliverGap(owner, events);
        }
        mayAnswer.countDown();
        owner.pending.settle(owner.clock, LONG.toNanos());
        // The reads in progress are repeated, and the others see the state after each gap.
        assertEquals(LOCKS, reads.size());
    }

    @Test
    void aReadReplacesNoLaterReleaseRequestAndReachesNoReleasedGuard() throws Exception {
        List<Guard> guards = guards(options -> options);
        Session owner = guards.get(0).hold.session;
        deliverGap(owner);
        awaitReads(Background.READERS_MAX);
        // While the reads of the first locks are in progress.
        owner.requestRelease(guards.get(0).hold.entry, new ReleaseRequest("later", LONG, false), owner.clock.nanos());
        guards.get(1).close();
        mayAnswer.countDown();
        owner.pending.settle(owner.clock, LONG.toNanos());
        assertEquals("later", guards.get(0).releaseRequested().orElseThrow().reason());
        assertTrue(guards.get(1).releaseRequested().isEmpty());
        assertTrue(guards.get(2).releaseRequested().isPresent());
    }

    @Test
    void readsEndWithTheirClient() throws Exception {
        for (String name : List.of("", "nightly")) {
            Session owner = guards(options -> (name.isEmpty() ? options : options.session(name)).requestTimeout(LONG))
                    .get(0).hold.session;
            deliverGap(owner);
            awaitReads(Background.READERS_MAX);
            long start = System.nanoTime();
            client.close();
            owner.pending.settle(owner.clock, LONG.toNanos());
            assertTrue(System.nanoTime() - start < TimeUnit.SECONDS.toNanos(5));
            assertTrue(reads.isEmpty());
            node.close();
        }
    }

    @Test
    void aLostSessionBeginsNoRead() throws Exception {
        Session owner = guards(options -> options.requestTimeout(SHORT)).get(0).hold.session;
        deliverGap(owner);
        awaitReads(Background.READERS_MAX);
        owner.end(Loss.SESSION_ENDED);
        owner.pending.settle(owner.clock, LONG.toNanos());
        assertTrue(reads.isEmpty());
    }
}
