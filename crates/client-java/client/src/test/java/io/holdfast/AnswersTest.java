package io.holdfast;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.holdfast.FakeNode.Answer;
import io.holdfast.FakeNode.Received;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Function;
import java.util.function.ToLongFunction;
import java.util.logging.Handler;
import java.util.logging.Level;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Answers that are lost, late or not those of a node, and callers that end a call. */
@Timeout(60)
class AnswersTest {
    private static final Duration SHORT = Duration.ofMillis(500);
    private static final Answer EMPTY = new Answer(200, "{}");

    private final BlockingQueue<Received> released = new LinkedBlockingQueue<>();
    private FakeNode node;

    /** Answers releases of locks, and everything else by a function. */
    private FakeNode node(Function<Received, Answer> others) {
        node = FakeNode.of(call -> {
            if (call.name().startsWith("DELETE /v1/locks/")) {
                released.add(call);
                return EMPTY;
            }
            return others.apply(call);
        });
        return node;
    }

    @AfterEach
    void close() {
        if (node != null) {
            node.close();
        }
    }

    private Map<String, String> release() throws InterruptedException {
        Received call = released.poll(20, TimeUnit.SECONDS);
        assertNotNull(call, "no release");
        return call.query();
    }

    @Test
    void theOutcomeOfANumberedCallIsUnknownIfTheSessionEndedAfterALostAnswer() {
        AtomicInteger calls = new AtomicInteger();
        node(call -> calls.incrementAndGet() == 1 ? Answer.DROPPED : Answer.problem(410, "session-expired"));
        Counter counter = node.client(options -> options).counter("n");
        assertThrows(OutcomeUnknownException.class, () -> counter.add(1));
        // Without a lost answer, the cluster certainly did not execute the call.
        assertThrows(LostException.class, () -> counter.add(1));
    }

    @Test
    void slotsThatMayBeGivenBackAreListedNoMore() throws Exception {
        AtomicInteger releases = new AtomicInteger();
        node = FakeNode.of(call -> {
            if (!"1".equals(call.query().get("permits"))) {
                return node.grant(5, ",\"permits\":2,\"slots\":[0,1]");
            }
            // The second answer is that of another server.
            return releases.incrementAndGet() == 1 ? Answer.problem(403, "forbidden") : new Answer(200, "[]");
        });
        Guard guard = node.client(options -> options).semaphore("orders", 2).permits(2).acquire();
        assertThrows(RejectedException.class, () -> guard.releasePermits(1));
        assertEquals(List.of(0, 1), guard.slots());
        assertThrows(HoldfastException.class, () -> guard.releasePermits(1));
        assertEquals(List.of(0), guard.slots());
    }

    @Test
    void aCallThatConcernsEveryHoldIsNotRepeated() {
        AtomicInteger posts = new AtomicInteger();
        node(call -> posts.incrementAndGet() % 2 == 1 ? Answer.DROPPED : new Answer(200, "{\"ended\":1,\"asked\":1}"));
        Holdfast client = node.client(options -> options);
        List<ToLongFunction<Holdfast>> ofAll = List.of(
                holdfast -> holdfast.forceRelease("orders", "maintenance"),
                holdfast -> holdfast.requestRelease("orders", "maintenance", SHORT, true));
        for (ToLongFunction<Holdfast> call : ofAll) {
            posts.set(0);
            assertThrows(OutcomeUnknownException.class, () -> call.applyAsLong(client));
            assertEquals(1, posts.get());
        }
        List<ToLongFunction<Holdfast>> ofOne = List.of(
                holdfast -> holdfast.forceRelease("orders", 7, "maintenance"),
                holdfast -> holdfast.requestRelease("orders", 7, "maintenance", SHORT, true));
        for (ToLongFunction<Holdfast> call : ofOne) {
            posts.set(0);
            assertEquals(1, call.applyAsLong(client));
            assertEquals(2, posts.get());
        }
        for (String name : List.of("POST /v1/force-releases/orders", "POST /v1/release-requests/orders")) {
            List<Received> calls = node.calls(name);
            assertFalse(calls.get(0).query().containsKey("token"));
            assertEquals("7", calls.get(2).query().get("token"));
        }
    }

    @Test
    void anInterruptedCallThatConcernsEveryHoldIsNotRepeated() throws Exception {
        BlockingQueue<Received> posts = new LinkedBlockingQueue<>();
        node(call -> {
            posts.add(call);
            return Answer.NONE;
        });
        Holdfast client = node.client(options -> options);
        CompletableFuture<Throwable> result = new CompletableFuture<>();
        Thread thread = new Thread(() ->
                result.complete(assertThrows(HoldfastException.class, () -> client.forceRelease("orders", "maintenance"))));
        thread.start();
        posts.take();
        thread.interrupt();
        assertEquals(OutcomeUnknownException.class, result.get(20, TimeUnit.SECONDS).getClass());
        assertTrue(posts.isEmpty());
    }

    @Test
    void anAnswerFromAnotherServerIsNoGrant() throws Exception {
        for (String body : List.of("{}", "{\"lock\":\"stock\",\"mode\":\"exclusive\",\"token\":7,\"expires_in_ms\":30000}")) {
            node(call -> new Answer(200, body));
            Holdfast client = node.client(options -> options);
            assertThrows(UnexpectedResponseException.class, () -> client.lock("orders").tryAcquire());
            String attempt = node.calls("PUT /v1/locks/orders").get(0).query().get("attempt");
            assertEquals(attempt, release().get("attempt"));
            node.close();
        }
    }

    @Test
    void anAnswerFromAnotherServerOpensNoSession() {
        node(call -> EMPTY);
        node.opened.set(-1);
        Holdfast client = node.client(options -> options);
        assertThrows(UnexpectedResponseException.class, client::openSession);
    }

    @Test
    void anAnswerFromAnotherServerIsNoUpgradeAndNoTransfer() throws Exception {
        node(call -> call.name().equals("POST /v1/transfers/orders") || "exclusive".equals(call.query().get("mode"))
                ? EMPTY : node.grant(7, ""));
        Guard guard = node.client(options -> options).lock("orders").upgradable().tryAcquire();
        assertThrows(UnexpectedResponseException.class, () -> guard.upgrade(SHORT));
        guard.ensure();
        assertEquals(7, guard.token());
        assertThrows(UnexpectedResponseException.class, () -> guard.transfer("other"));
        assertThrows(LostException.class, guard::ensure);
        release();
    }

    /** Receives a transfer whose call to adopt the hold gets an answer. */
    private HoldfastException receive(Answer adoption) {
        node(call -> call.name().startsWith("GET")
                ? new Answer(200, "{\"lock\":\"orders\",\"revision\":1,\"holders\":[{\"session\":\"nightly\",\"token\":7}]}")
                : adoption);
        LockRequest request = node.client(options -> options.session("nightly").requestTimeout(SHORT)).lock("orders");
        return assertThrows(HoldfastException.class, request::receiveTransfer);
    }

    @Test
    void aReceiverWithoutACertainAnswerReleasesTheHold() throws Exception {
        assertEquals(OutcomeUnknownException.class, receive(Answer.DROPPED).getClass());
        assertEquals("7", release().get("token"));
        node.close();
        assertEquals(UnexpectedResponseException.class, receive(EMPTY).getClass());
        assertEquals("7", release().get("token"));
    }

    @Test
    void aReceiverThatTheClusterRejectsReleasesNothing() {
        assertEquals(RejectedException.class, receive(Answer.problem(403, "forbidden")).getClass());
        node.close();
        assertTrue(released.isEmpty());
    }

    @Test
    void theGuardsOfAClosedClientReportTheEndButTheMetricsDoNot() throws Exception {
        node(call -> node.grant(7, ""));
        BlockingQueue<Loss.Cause> losses = new LinkedBlockingQueue<>();
        Holdfast client = node.client(options -> options.metrics(new Metrics() {
            @Override
            public void lost(String lock, Loss.Cause cause) {
                losses.add(cause);
            }
        }));
        Guard guard = client.lock("orders").tryAcquire();
        CompletableFuture<Loss> lost = guard.lost().toCompletableFuture();
        client.close();
        assertEquals(Loss.Cause.SESSION_ENDED, lost.get(20, TimeUnit.SECONDS).cause());
        assertTrue(losses.isEmpty());
    }

    @Test
    void aCallbackOfTheMetricsThatThrowsLeavesNoLockWithoutAGuard() {
        node(call -> node.grant(7, ""));
        Holdfast client = node.client(options -> options.metrics(new Metrics() {
            @Override
            public void acquired(String lock, Duration waited) {
                throw new NoClassDefFoundError("no registry");
            }

            @Override
            public void released(String lock, Duration held) {
                throw new IllegalStateException("no registry");
            }
        }));
        Guard guard = client.lock("orders").tryAcquire();
        guard.ensure();
        guard.close();
        assertEquals(1, released.size());
    }

    @Test
    void anInterruptEndsAnAcquireWhoseSessionIsNotOpen() throws Exception {
        BlockingQueue<Boolean> isInterrupted = new LinkedBlockingQueue<>();
        try (MisbehavingNode silent = MisbehavingNode.of(socket -> socket.getInputStream().transferTo(java.io.OutputStream.nullOutputStream()))) {
            Holdfast client = Holdfast.builder(silent.address()).requestTimeout(Duration.ofSeconds(50)).build();
            List<Thread> threads = new ArrayList<>();
            for (int i = 0; i < 2; i++) {
                threads.add(Background.thread("acquire", () -> {
                    try {
                        client.lock("orders").acquire();
                    } catch (InterruptedException e) {
                        isInterrupted.add(true);
                    }
                }));
            }
            threads.get(0).start();
            assertNotNull(silent.accepted.poll(20, TimeUnit.SECONDS));
            // The second thread waits for the first one, and both end at once.
            threads.get(1).start();
            threads.get(1).interrupt();
            assertNotNull(isInterrupted.poll(5, TimeUnit.SECONDS));
            threads.get(0).interrupt();
            assertNotNull(isInterrupted.poll(5, TimeUnit.SECONDS));
        }
    }

    @Test
    void aDurableAcquireWithoutAnAnswerIsRepeatedWithItsAttempt() throws Exception {
        node(call -> Answer.NONE);
        node.pings = Answer.NONE;
        try (FakeNode other = FakeNode.of(call -> new Answer(200, "{\"lock\":\"freeze\",\"token\":7}"))) {
            Holdfast client = node.client(options -> options.requestTimeout(SHORT), node.address(), other.address());
            Nodes nodes = client.calls().nodes;
            nodes.prefer(nodes.order(0).stream().filter(one -> one.base.endsWith(node.address())).findFirst().orElseThrow());
            assertEquals(7, client.holdDurably("freeze", "carol", "moving", Duration.ofSeconds(50)));
            Map<String, String> first = new TreeMap<>(node.calls("PUT /v1/locks/freeze").get(0).query());
            Map<String, String> second = new TreeMap<>(other.calls("PUT /v1/locks/freeze").get(0).query());
            long waited = millis(first.remove("wait")) - millis(second.remove("wait"));
            assertTrue(waited > 0 && waited < 50_000, waited + " ms");
            assertEquals(first, second);
        }
    }

    private static long millis(String wait) {
        return Long.parseLong(wait.replace("ms", ""));
    }

    @Test
    void aDurableAcquireWithoutAnAnswerUntilTheEndOfItsWaitIsInDoubt() {
        node(call -> Answer.NONE);
        Holdfast client = node.client(options -> options.requestTimeout(SHORT));
        assertThrows(OutcomeUnknownException.class, () -> client.holdDurably("freeze", "carol", "moving", SHORT));
        assertEquals(1, node.calls("PUT /v1/locks/freeze").size());
    }

    @Test
    void aRejectedWatchEndsWithAWarning() throws Exception {
        watchEndsWithAWarning(Answer.problem(403, "forbidden"));
    }

    @Test
    void aWatchThatAnotherServerAnswersEndsWithAWarning() throws Exception {
        watchEndsWithAWarning(new Answer(404, "<html>"));
    }

    private void watchEndsWithAWarning(Answer answer) throws Exception {
        node(call -> answer);
        BlockingQueue<LogRecord> warnings = new LinkedBlockingQueue<>();
        Handler handler = new Handler() {
            @Override
            public void publish(LogRecord entry) {
                if (entry.getLevel() == Level.WARNING) {
                    warnings.add(entry);
                }
            }

            @Override
            public void flush() {}

            @Override
            public void close() {}
        };
        Logger log = Logger.getLogger("io.holdfast");
        log.addHandler(handler);
        try (Watch watch = node.client(options -> options).group("web").watch(members -> { })) {
            LogRecord warning = warnings.poll(20, TimeUnit.SECONDS);
            assertNotNull(warning, "no warning");
            assertTrue(warning.getMessage().contains("/groups/web"), warning.getMessage());
            assertEquals(1, node.calls("GET /v1/watch").size());
        } finally {
            log.removeHandler(handler);
        }
    }
}
