package io.holdfast;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.holdfast.FakeNode.Answer;
import io.holdfast.FakeNode.Received;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.api.io.TempDir;

/** Calls and answers of one node that follows a script. */
@Timeout(60)
class NodeTest {
    private static final Duration SHORT = Duration.ofMillis(500);
    private static final Duration LONG = Duration.ofSeconds(30);
    private static final String ONE_NODE = "watches of one node";
    private static final Answer PAGE = new Answer(200, "<html>Welcome</html>");
    private static final String SUBJECT = "calls_per_second of the subject";

    private FakeNode node;

    private FakeNode node(Function<Received, Answer> locks) {
        node = FakeNode.of(locks);
        return node;
    }

    @AfterEach
    void close() {
        node.close();
    }

    private static Loss.Cause causeOf(Runnable call) {
        return assertThrows(LostException.class, call::run).loss().cause();
    }

    @Test
    void threadsOfTwoClientsWithOneSessionHaveDifferentOwners() {
        node(call -> node.grant(7, ""));
        for (int client = 0; client < 2; client++) {
            HoldfastLock lock = node.client(options -> options.session("nightly")).lock("orders").asLock();
            lock.lock();
            lock.unlock();
            lock.lock();
        }
        List<String> owners = node.calls("PUT /v1/locks/orders").stream().map(call -> call.query().get("owner")).toList();
        assertEquals(owners.get(0), owners.get(1));
        assertEquals(owners.get(2), owners.get(3));
        assertNotEquals(owners.get(0), owners.get(2));
    }

    @Test
    void anEndedSessionIsReplacedDuringAnAcquireUnlessItIsNamed() {
        node(call -> "1".equals(call.query().get("incarnation")) ? Answer.problem(410, "session-expired") : node.grant(7, ""));
        Holdfast generated = node.client(options -> options);
        Guard guard = generated.lock("orders").tryAcquire();
        guard.ensure();
        assertEquals(2, node.opened.get());
        node.opened.set(0);
        Holdfast named = node.client(options -> options.session("nightly"));
        for (int call = 0; call < 2; call++) {
            assertEquals(Loss.Cause.SESSION_ENDED, causeOf(() -> named.lock("orders").tryAcquire()));
        }
        assertEquals(1, node.calls("PUT /v1/sessions/nightly").size());
    }

    @Test
    void anEndedSessionLosesItsGuards() {
        node(call -> call.query().containsKey("change") || !call.name().equals("PUT /v1/locks/orders")
                ? Answer.problem(410, "session-expired") : node.grant(7, ",\"permits\":2"));
        List<Consumer<Guard>> calls = List.of(
                guard -> guard.blockOthersFor(SHORT),
                guard -> guard.downgrade(Mode.SHARED),
                guard -> guard.releasePermits(1));
        for (Consumer<Guard> call : calls) {
            Guard guard = node.client(options -> options).lock("orders").tryAcquire();
            assertEquals(Loss.Cause.SESSION_ENDED, causeOf(() -> call.accept(guard)));
            assertEquals(Loss.Cause.SESSION_ENDED, causeOf(guard::ensure));
        }
        Holdfast named = node.client(options -> options.session("nightly"));
        Guard guard = named.lock("orders").tryAcquire();
        assertThrows(LostException.class, () -> named.lock("stock").tryAcquire());
        assertEquals(Loss.Cause.SESSION_ENDED, causeOf(guard::ensure));
    }

    @Test
    void eachCallThatAcquiresOrChangesNamesTheIncarnation() throws InterruptedException {
        node(call -> call.name().equals("POST /v1/locks")
                ? new Answer(200, "{\"grants\":[" + node.grant(8, "").body() + "]}") : node.grant(7, ""));
        Holdfast client = node.client(options -> options);
        Guard guard = client.lock("orders").upgradable().tryAcquire();
        guard.upgrade(Duration.ZERO);
        guard.blockOthersFor(SHORT);
        guard.downgrade(Mode.SHARED);
        assertThrows(UnexpectedResponseException.class, () -> client.lockAll("orders", "stock").acquire());
        List<Received> calls = node.calls("PUT /v1/locks/orders");
        assertEquals(4, calls.size());
        calls.forEach(call -> assertEquals("1", call.query().get("incarnation")));
        assertEquals("1", node.calls("POST /v1/locks").get(0).query().get("incarnation"));
    }

    @Test
    void theReceiverAdoptsTheHoldWithACallThatNeverAcquires() throws InterruptedException {
        AtomicInteger reads = new AtomicInteger();
        node(call -> switch (call.name()) {
            case "GET /v1/locks/orders" -> new Answer(200, "{\"lock\":\"orders\",\"revision\":1,\"holders\":[{\"session\":\"nightly\","
                    + "\"mode\":\"exclusive\",\"token\":" + reads.incrementAndGet() + "}]}");
            // At the first call, the hold has ended since the read.
            case "PUT /v1/locks/orders" -> reads.get() == 1
                    ? Answer.problem(409, "not-holder") : node.grant(reads.get(), ",\"ends_in_ms\":10000");
            default -> new Answer(200, "{\"revision\":2}");
        });
        Guard guard = node.client(options -> options.session("nightly")).lock("orders").receiveTransfer();
        assertEquals(2, guard.token());
        List<Received> calls = node.calls("PUT /v1/locks/orders");
        assertEquals(2, calls.size());
        for (Received call : calls) {
            assertEquals("0", call.query().get("change"));
            assertEquals("1", call.query().get("incarnation"));
        }
        assertNotEquals(calls.get(0).query().get("attempt"), calls.get(1).query().get("attempt"));
        // The hold keeps the end of the sender's max_hold, which no later end moves.
        assertTrue(guard.remaining().compareTo(Duration.ofSeconds(10)) < 0);
        guard.endAfter(Duration.ofSeconds(20));
        assertTrue(guard.remaining().compareTo(Duration.ofSeconds(10)) < 0);
        guard.release();
        Received release = node.calls("DELETE /v1/locks/orders").get(0);
        assertEquals("2", release.query().get("token"));
        assertFalse(release.query().containsKey("attempt"));
    }

    @Test
    void aReceiverThatCannotAdoptTheHoldWaitsForAChangeAndForItsTime() {
        node(call -> switch (call.name()) {
            case "GET /v1/locks/orders" -> new Answer(200, "{\"lock\":\"orders\",\"revision\":1,\"holders\":"
                    + "[{\"session\":\"nightly\",\"mode\":\"exclusive\",\"token\":7}]}");
            case "PUT /v1/locks/orders" -> Answer.problem(409, "not-holder");
            default -> Answer.NONE;
        });
        LockRequest request = node.client(options -> options.session("nightly").requestTimeout(SHORT)).lock("orders");
        BusyException busy = assertThrows(BusyException.class, () -> request.waitAtMost(SHORT).receiveTransfer());
        assertEquals(Codes.NOT_YET, busy.code());
        int changes = node.calls("PUT /v1/locks/orders").size();
        assertTrue(changes <= 4, changes + " adoptions");
        Thread.currentThread().interrupt();
        assertThrows(InterruptedException.class, () -> request.waitAtMost(Duration.ZERO).receiveTransfer());
    }

    @Test
    void anUpgradeMovesTheEndOnlyToAnEarlierMoment() throws InterruptedException {
        AtomicInteger ends = new AtomicInteger(20_000);
        node(call -> node.grant(7, ",\"ends_in_ms\":" + ends.get()));
        Guard guard = node.client(options -> options).lock("orders").upgradable().tryAcquire();
        long first = guard.hold.entry.limits().maxUntil();
        ends.set(25_000);
        guard.upgrade(Duration.ZERO);
        assertEquals(first, guard.hold.entry.limits().maxUntil());
        ends.set(5_000);
        guard.downgrade(Mode.SHARED);
        assertTrue(guard.hold.entry.limits().maxUntil() < first - 10_000 * Clock.MILLI);
    }

    @Test
    void anUpgradeWaitsForTheFallbackOfAnEarlierOne() throws Exception {
        AtomicInteger upgrades = new AtomicInteger();
        node(call -> "exclusive".equals(call.query().get("mode")) && upgrades.incrementAndGet() == 1
                ? Answer.NONE : node.grant(7, ""));
        Guard guard = node.client(options -> options).lock("orders").upgradable().tryAcquire();
        QueueEntry entry = guard.hold.entry;
        Thread first = new Thread(() -> assertThrows(InterruptedException.class, () -> guard.upgrade(LONG)));
        first.start();
        await(guard.hold.session, () -> upgrades.get() == 1);
        CompletableFuture<Void> second = CompletableFuture.runAsync(() -> {
            try {
                guard.upgrade(LONG);
            } catch (InterruptedException e) {
                throw new AssertionError(e);
            }
        });
        await(guard.hold.session, entry.changeTurn::hasQueuedThreads);
        first.interrupt();
        second.get();
        List<String> modes = node.calls("PUT /v1/locks/orders").stream().map(call -> call.query().get("mode")).toList();
        assertEquals(List.of("upgradable", "exclusive", "upgradable", "exclusive"), modes);
        assertEquals(Mode.EXCLUSIVE, guard.mode());
    }

    @Test
    void theDeadlineOfAReleaseRequestCountsFromTheCall() {
        node(call -> node.grant(7, ""));
        Guard guard = node.client(options -> options).lock("orders").tryAcquire();
        Session session = guard.hold.session;
        long from = session.clock.nanos() - 5_000 * Clock.MILLI;
        Json answer = Json.parse("{\"events\":[{\"kind\":\"release-requested\",\"lock\":\"orders\",\"token\":7,"
                + "\"wanted_in_ms\":9000,\"revoke\":true}],\"holds\":[]}");
        new SessionEvents(session).deliver(List.of(), answer, 30_000 * Clock.MILLI, from);
        assertEquals(Lease.deadline(from, 9_000 * Clock.MILLI), guard.hold.entry.limits().revokedAt());
        Duration wanted = guard.releaseRequested().orElseThrow().wantedIn();
        assertTrue(wanted.compareTo(Duration.ofSeconds(4)) <= 0, wanted.toString());
    }

    @Test
    void aLostGuardOfANamedSessionIsReleasedLate() throws Exception {
        AtomicInteger releases = new AtomicInteger();
        CountDownLatch done = new CountDownLatch(1);
        node(call -> {
            if (!call.name().startsWith("DELETE")) {
                return node.grant(7, "");
            }
            if (releases.incrementAndGet() < 8) {
                return Answer.problem(503, "outcome-unknown");
            }
            done.countDown();
            return new Answer(200, "{}");
        });
        node.leaseMillis = 300;
        Holdfast client = node.client(options -> options.session("nightly").requestTimeout(SHORT));
        Guard guard = client.lock("orders").tryAcquire();
        assertEquals(Loss.Cause.NOT_RENEWED, guard.lost().toCompletableFuture().get().cause());
        assertEquals(Loss.Cause.NOT_RENEWED, causeOf(guard::close));
        done.await();
        String attempt = node.calls("PUT /v1/locks/orders").get(0).query().get("attempt");
        node.calls("DELETE /v1/locks/orders").forEach(call -> assertEquals(attempt, call.query().get("attempt")));
    }

    @Test
    void theReleaseOfALostGuardEndsWithTheClient() throws Exception {
        node(call -> call.name().startsWith("DELETE") ? Answer.problem(503, "outcome-unknown") : node.grant(7, ""));
        node.leaseMillis = 300;
        Holdfast client = node.client(options -> options.session("nightly").requestTimeout(SHORT));
        Guard guard = client.lock("orders").tryAcquire();
        guard.lost().toCompletableFuture().get();
        assertThrows(LostException.class, guard::close);
        client.close();
        // The release in progress ends, and no other begins.
        await(guard.hold.session, () -> guard.hold.session.entries.isEmpty());
    }

    private static void await(Session session, BooleanSupplier condition) {
        for (long seen = session.changed.version(); !condition.getAsBoolean(); seen = session.changed.version()) {
            session.changed.awaitUninterruptibly(seen, 100 * Clock.MILLI);
        }
    }

    @Test
    void aWaiterWhoseSessionExpiredQueuesAgainOrIsUnavailable() throws InterruptedException {
        node(call -> {
            if (call.name().startsWith("DELETE")) {
                return new Answer(200, "{}");
            } else if ("1".equals(call.query().get("incarnation"))) {
                node.leaseMillis = 30_000;
                return Answer.NONE;
            }
            return node.grant(7, "");
        });
        node.leaseMillis = 300;
        node.client(options -> options).lock("orders").acquire().ensure();
        node.opened.set(0);
        node.leaseMillis = 300;
        Holdfast named = node.client(options -> options.session("nightly"));
        assertThrows(UnavailableException.class, () -> named.lock("orders").acquire());
    }

    @Test
    void anInterruptedLeaveOfADoubleBarrierGoesOnInTheBackground() throws Exception {
        CountDownLatch left = new CountDownLatch(1);
        node(call -> {
            if (call.name().startsWith("PUT")) {
                return new Answer(200, "{\"generation\":3,\"index\":0,\"parties\":1}");
            } else if (call.query().containsKey("wait")) {
                return Answer.NONE;
            }
            assertEquals("3", call.query().get("generation"));
            left.countDown();
            return new Answer(200, "{}");
        });
        DoubleBarrier.Inside inside = node.client(options -> options).doubleBarrier("start", 1).enter(SHORT);
        Thread.currentThread().interrupt();
        assertThrows(InterruptedException.class, () -> inside.leave(LONG));
        left.await();
    }

    @Test
    void anInterruptedCallMayHaveBeenExecutedWhenItsNextCopyIsNot() throws Exception {
        AtomicInteger calls = new AtomicInteger();
        node(call -> calls.incrementAndGet() == 1 ? Answer.NONE : Answer.problem(503, "no-leader"));
        Holdfast client = node.client(options -> options.requestTimeout(SHORT.multipliedBy(4)));
        CompletableFuture<Throwable> result = new CompletableFuture<>();
        Thread thread = new Thread(() -> result.complete(assertThrows(HoldfastException.class, () -> client.counter("n").add(1))));
        thread.start();
        await(client.sessions().use(null), () -> calls.get() == 1);
        thread.interrupt();
        assertEquals(OutcomeUnknownException.class, result.get().getClass());
    }

    @Test
    void anObserverSeesAValueThatTheLeaderReplaces() throws Exception {
        AtomicInteger reads = new AtomicInteger();
        node(call -> call.name().equals("GET /v1/watch")
                ? new Answer(200, "{\"events\":[],\"revision\":5}")
                : new Answer(200, "{\"election\":\"db\",\"leader\":{\"session\":\"s\",\"token\":7,\"value\":\""
                        + (reads.incrementAndGet() == 1 ? "old" : "new") + "\"}}"));
        BlockingQueue<String> values = new LinkedBlockingQueue<>();
        try (Watch watch = node.client(options -> options).election("db")
                .observe(leader -> values.add(leader.orElseThrow().value()))) {
            assertEquals("old", values.poll(25, TimeUnit.SECONDS));
            assertEquals("new", values.poll(25, TimeUnit.SECONDS));
        }
    }

    @Test
    void theWaitsOfAClientEndWhenItCloses() throws Exception {
        AtomicInteger waits = new AtomicInteger();
        node(call -> {
            if (call.name().startsWith("DELETE") && !call.query().containsKey("wait")) {
                return new Answer(200, "{}");
            } else if (call.name().equals("GET /v1/locks/orders")) {
                return new Answer(200, "{\"lock\":\"orders\",\"revision\":1,\"holders\":[]}");
            } else if (call.name().equals("PUT /v1/double-barriers/batch")) {
                return new Answer(200, "{\"generation\":3,\"index\":0,\"parties\":1}");
            }
            waits.incrementAndGet();
            return Answer.NONE;
        });
        Holdfast client = node.client(options -> options);
        DoubleBarrier.Inside inside = client.doubleBarrier("batch", 1).enter(SHORT);
        List<CompletableFuture<Loss.Cause>> ends = List.of(
                lossOf(() -> client.barrier("start", 2).await(LONG)),
                lossOf(() -> inside.leave(LONG)),
                lossOf(() -> client.latch("ready").await(LONG)),
                lossOf(() -> client.holdDurably("freeze", "carol", "moving", LONG)),
                lossOf(() -> client.lock("orders").receiveTransfer()));
        Session session = client.sessions().use(null);
        await(session, () -> waits.get() == ends.size());
        client.close();
        for (CompletableFuture<Loss.Cause> end : ends) {
            assertEquals(Loss.Cause.SESSION_ENDED, end.get(5, TimeUnit.SECONDS));
        }
    }

    private static CompletableFuture<Loss.Cause> lossOf(Executable wait) {
        return CompletableFuture.supplyAsync(() -> assertThrows(LostException.class, wait).loss().cause());
    }

    @Test
    void aLeaveOfAGroupWithoutAnAnswerGoesOnInTheBackground() throws Exception {
        AtomicInteger calls = new AtomicInteger();
        CountDownLatch left = new CountDownLatch(1);
        node(call -> {
            if (calls.incrementAndGet() == 2) {
                return Answer.NONE;
            } else if (calls.get() > 2) {
                left.countDown();
            }
            return new Answer(200, "{\"results\":[]}");
        });
        Holdfast client = node.client(options -> options.requestTimeout(SHORT));
        Membership membership = client.group("web").join("10.0.0.1:80");
        client.openSession();
        assertThrows(OutcomeUnknownException.class, membership::leave);
        left.await();
    }

    @Test
    void aSecondLeaveOrAnInvalidNameEndsNoOtherUseOfTheSession() throws Exception {
        node(call -> new Answer(200, "{\"generation\":3,\"index\":0,\"parties\":1}"));
        Holdfast client = node.client(options -> options);
        DoubleBarrier.Inside inside = client.doubleBarrier("start", 1).enter(SHORT);
        Session session = client.sessions().use(null);
        inside.leave(SHORT);
        inside.leave(SHORT);
        assertEquals(1, session.users());
        assertThrows(InvalidArgumentException.class, () -> client.barrier("a/../b", 1).await(SHORT));
        assertEquals(1, session.users());
    }

    @Test
    void anInterruptedEnterOfADoubleBarrierLeavesNoParty() throws Exception {
        CountDownLatch left = new CountDownLatch(1);
        node(call -> {
            if (call.name().startsWith("PUT")) {
                return Answer.NONE;
            }
            if (!call.query().containsKey("request")) {
                left.countDown();
            }
            return new Answer(200, "{}");
        });
        DoubleBarrier barrier = node.client(options -> options).doubleBarrier("start", 1);
        Thread.currentThread().interrupt();
        assertThrows(InterruptedException.class, () -> barrier.enter(LONG));
        left.await();
        List<Received> withdrawals = node.calls("DELETE /v1/double-barriers/start");
        assertEquals(List.of(true, false), withdrawals.stream().map(call -> call.query().containsKey("request")).toList());
        assertEquals(1, withdrawals.stream().map(call -> call.query().get("owner")).distinct().count());
    }

    @Test
    void aCallIsRepeatedAfterTheTimeOfRetryAfter() throws InterruptedException {
        boolean isNodePaused = secondCallAfter(503, "", 1, LONG) >= 1_000;
        boolean isOtherNodePaused = secondCallAfter(503, "", 2, LONG) >= 1_000;
        boolean isFullNodePaused = secondCallAfter(429, ONE_NODE, 1, LONG) >= 1_000;
        boolean isFreeNodePaused = secondCallAfter(429, ONE_NODE, 2, LONG) >= 1_000;
        boolean isCallerPaused = secondCallAfter(429, SUBJECT, 1, LONG) >= 1_000;
        boolean isCallerPausedAtEachNode = secondCallAfter(429, SUBJECT, 2, LONG) >= 1_000;
        boolean isLongerWaitPaused = secondCallAfter(503, "", 1, SHORT) >= 1_000;
        assertEquals(List.of(true, false), List.of(isNodePaused, isOtherNodePaused));
        assertEquals(List.of(true, false), List.of(isFullNodePaused, isFreeNodePaused));
        assertEquals(List.of(true, true, true), List.of(isCallerPaused, isCallerPausedAtEachNode, isLongerWaitPaused));
    }

    /** The milliseconds between a refusal of an acquire for one second, and its next copy. */
    private long secondCallAfter(int status, String bound, int nodes, Duration requestTimeout) throws InterruptedException {
        List<Long> acquires = new CopyOnWriteArrayList<>();
        Function<Received, Answer> answers = call -> {
            if (!call.name().equals("PUT /v1/locks/orders")) {
                return new Answer(200, "{}");
            }
            acquires.add(System.nanoTime());
            return acquires.size() == 1 ? Answer.refused(status, bound, 1) : node.grant(7, "");
        };
        try (FakeNode one = node(answers); FakeNode two = FakeNode.of(answers)) {
            String[] addresses = Stream.of(one, two).limit(nodes).map(FakeNode::address).toArray(String[]::new);
            one.client(options -> options.requestTimeout(requestTimeout), addresses)
                    .lock("orders").waitAtMost(LONG).acquire().close();
        }
        assertEquals(2, acquires.size());
        return (acquires.get(1) - acquires.get(0)) / 1_000_000;
    }

    @Test
    void aCallFailsAtOnceIfTheTimeOfRetryAfterIsBeyondItsOwn() {
        node(call -> Answer.refused(429, "", 3_600));
        Holdfast client = node.client(options -> options.requestTimeout(LONG));
        long began = System.nanoTime();
        var error = assertThrows(UnavailableException.class, () -> client.lockState("orders"));
        assertTrue(error.getMessage().contains("rate-limited"), error.getMessage());
        assertTrue(System.nanoTime() - began < 15_000_000_000L);
        assertEquals(1, node.calls("GET /v1/locks/orders").size());
    }

    @Test
    void theNextCallBeginsAtANodeThatAcceptsIt() throws InterruptedException {
        node(call -> Answer.refused(429, ONE_NODE, 60));
        try (FakeNode other = FakeNode.of(call -> Answer.problem(503, "starting"))) {
            Holdfast client = node.client(options -> options.requestTimeout(SHORT), node.address(), other.address());
            Nodes nodes = client.sessions().use(null, true).calls.nodes;
            Node full = nodes.order(0).stream().filter(one -> one.base.endsWith(node.address())).findFirst().orElseThrow();
            nodes.prefer(full);
            assertThrows(UnavailableException.class, () -> client.lockState("orders"));
            assertEquals(List.of(false, true), nodes.order(client.clock().nanos()).stream().map(full::equals).toList());
            assertEquals(1, node.calls("GET /v1/locks/orders").size());
        }
    }

    @Test
    void aNodeThatRefusedACallComesLastAfterTheAnswerOfAnother() throws InterruptedException {
        node(call -> Answer.refused(429, ONE_NODE, 60));
        try (FakeNode other = FakeNode.of(call -> new Answer(200, "{\"lock\":\"orders\",\"holders\":[],\"revision\":1}"))) {
            Holdfast client = node.client(options -> options, node.address(), other.address());
            Nodes nodes = client.sessions().use(null, true).calls.nodes;
            Node full = nodes.order(0).stream().filter(one -> one.base.endsWith(node.address())).findFirst().orElseThrow();
            for (int call = 0; call < 3; call++) {
                // As the leader, which each call tries first.
                nodes.prefer(full);
                client.lockState("orders");
            }
            assertEquals(1, node.calls("GET /v1/locks/orders").size());
        }
    }

    @Test
    void anAnswerEndsTheRestOfANodeBeforeAnotherAnswers() throws InterruptedException {
        node(call -> Answer.refused(429, ONE_NODE, 60));
        AtomicReference<Runnable> answered = new AtomicReference<>();
        Function<Received, Answer> answers = call -> {
            answered.get().run();
            return new Answer(200, "{\"lock\":\"orders\",\"holders\":[],\"revision\":1}");
        };
        try (FakeNode other = FakeNode.of(answers)) {
            Holdfast client = node.client(options -> options, node.address(), other.address());
            Nodes nodes = client.sessions().use(null, true).calls.nodes;
            Node full = nodes.order(0).stream().filter(one -> one.base.endsWith(node.address())).findFirst().orElseThrow();
            // The answer to another call.
            answered.set(() -> full.answered(client.clock().nanos()));
            nodes.prefer(full);
            client.lockState("orders");
            assertEquals(1, node.calls("GET /v1/locks/orders").size());
            assertFalse(full.rests(client.clock().nanos()));
        }
    }

    /** Counts releases and losses. */
    private static Metrics counting(BlockingQueue<String> counted) {
        return new Metrics() {
            @Override
            public void released(String lock, Duration held) {
                counted.add(lock + " released");
            }

            @Override
            public void lost(String lock, Loss.Cause cause) {
                counted.add(lock + " " + cause);
            }
        };
    }

    @Test
    void aReleaseCountsWhenTheClusterHasConfirmedIt() throws InterruptedException {
        BlockingQueue<String> counted = new LinkedBlockingQueue<>();
        AtomicReference<Answer> answer = new AtomicReference<>();
        node(call -> call.name().startsWith("PUT") ? node.grant(7, "") : answer.get());
        Holdfast client = node.client(options -> options.session("nightly").requestTimeout(SHORT).metrics(counting(counted)));
        List<Answer> answers = List.of(
                Answer.DROPPED, PAGE, new Answer(404, PAGE.body()), new Answer(200, "null"), new Answer(200, "[]"));
        for (Answer unclear : answers) {
            answer.set(unclear);
            Guard guard = client.lock("orders").tryAcquire();
            assertTrue(assertThrows(HoldfastException.class, guard::release).isUnclear());
            assertTrue(counted.isEmpty());
            answer.set(new Answer(204, ""));
            assertEquals("orders released", counted.poll(20, TimeUnit.SECONDS));
        }
        answer.set(Answer.problem(403, "forbidden"));
        assertThrows(RejectedException.class, client.lock("orders").tryAcquire()::close);
        assertTrue(counted.isEmpty());
    }

    @Test
    void anAcquireThatIsInterruptedCountsAsAFailure() {
        BlockingQueue<String> counted = new LinkedBlockingQueue<>();
        node(call -> Answer.NONE);
        Holdfast client = node.client(options -> options.metrics(new Metrics() {
            @Override
            public void acquireFailed(String lock, Exception error) {
                counted.add(lock + " " + error.getClass().getSimpleName());
            }
        }));
        Thread.currentThread().interrupt();
        assertThrows(InterruptedException.class, client.lock("orders")::acquire);
        assertEquals(List.of("orders InterruptedException"), List.copyOf(counted));
    }

    @Test
    void twoThreadsThatCloseOneGuardReleaseItOnce() throws Exception {
        BlockingQueue<String> counted = new LinkedBlockingQueue<>();
        CountDownLatch isReleasing = new CountDownLatch(1);
        CountDownLatch mayAnswer = new CountDownLatch(1);
        node(call -> {
            if (call.name().startsWith("PUT")) {
                return node.grant(7, "");
            }
            isReleasing.countDown();
            await(mayAnswer);
            return new Answer(204, "");
        });
        Guard guard = node.client(options -> options.metrics(counting(counted))).lock("orders").tryAcquire();
        CompletableFuture<Void> first = CompletableFuture.runAsync(guard::close);
        isReleasing.await();
        CompletableFuture<Void> second = CompletableFuture.runAsync(guard::close);
        try {
            second.get(5, TimeUnit.SECONDS);
        } finally {
            mayAnswer.countDown();
        }
        first.get();
        assertEquals(List.of("orders released"), List.copyOf(counted));
        assertEquals(1, node.calls("DELETE /v1/locks/orders").size());
        assertEquals(0, guard.hold.session.users());
    }

    private static void await(CountDownLatch latch) {
        try {
            latch.await();
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    @Test
    void aCloseThatNoNodeConfirmsIsAnErrorAndThatOfAnEndedSessionIsNone() {
        for (Answer answer : List.of(Answer.DROPPED, Answer.problem(403, "forbidden"), Answer.problem(410, "session-expired"))) {
            node(call -> node.grant(7, ""));
            node.closes = answer;
            Holdfast client = node.client(options -> options.requestTimeout(SHORT));
            client.lock("orders").tryAcquire();
            if (answer.status() == 410) {
                client.close();
            } else {
                assertThrows(HoldfastException.class, client::close);
            }
            node.close();
        }
    }

    @Test
    void theCloseOfAClientCountsNoLossOfANamedSession() throws Exception {
        BlockingQueue<String> counted = new LinkedBlockingQueue<>();
        node(call -> node.grant(7, ""));
        Holdfast client = node.client(options -> options.session("closed").metrics(counting(counted)));
        Guard guard = client.lock("orders").tryAcquire();
        Thread deadlines = Thread.getAllStackTraces().keySet().stream()
                .filter(thread -> thread.getName().equals("holdfast-deadlines-closed")).findFirst().orElseThrow();
        client.close();
        assertEquals(Loss.SESSION_ENDED, guard.lost().toCompletableFuture().get(20, TimeUnit.SECONDS));
        deadlines.join();
        // The thread stores each loss that it reports.
        assertNull(guard.hold.entry.limits().loss(client.clock().nanos()));
        assertTrue(counted.isEmpty());
    }

    @Test
    void aPausedReleaseIsRepeatedAtTheCloseOfItsClient() throws Exception {
        CountDownLatch refusals = new CountDownLatch(2);
        AtomicReference<Answer> answer = new AtomicReference<>(Answer.refused(503, "", 60));
        AtomicInteger released = new AtomicInteger();
        node(call -> {
            if (call.name().startsWith("PUT")) {
                return node.grant(7, "");
            }
            refusals.countDown();
            released.addAndGet(answer.get().status() == 204 ? 1 : 0);
            return answer.get();
        });
        Holdfast client = node.client(options -> options.session("nightly"));
        client.lock("orders").tryAcquire().close();
        refusals.await();
        answer.set(new Answer(204, ""));
        client.close();
        assertEquals(1, released.get());
    }

    @Test
    void aPlaceIsLeftAgainAfterTheAnswerOfAnotherServer() throws Exception {
        AtomicInteger pages = new AtomicInteger();
        BlockingQueue<String> left = new LinkedBlockingQueue<>();
        node(call -> {
            if (pages.getAndUpdate(count -> Math.max(0, count - 1)) > 0) {
                return PAGE;
            } else if (call.name().equals("PUT /v1/barriers/start")) {
                return new Answer(200, "{}");
            } else if (call.name().startsWith("DELETE")) {
                left.add(call.query().containsKey("request") ? "numbered" : call.query().getOrDefault("generation", "any"));
            } else if (call.name().equals("POST /v1/txn")) {
                left.add("txn");
                return new Answer(200, "{\"results\":[]}");
            }
            return new Answer(200, "{\"generation\":3,\"index\":0,\"parties\":1}");
        });
        Holdfast client = node.client(options -> options);
        // The second time: the arrival, and the first of its withdrawals.
        for (int wrong : new int[] {0, 2}) {
            pages.set(wrong);
            assertThrows(UnexpectedResponseException.class, () -> client.barrier("start", 2).await(SHORT));
            assertEquals("numbered", left.poll(20, TimeUnit.SECONDS));
            assertEquals("any", left.poll(20, TimeUnit.SECONDS));
        }
        DoubleBarrier.Inside inside = client.doubleBarrier("batch", 1).enter(SHORT);
        pages.set(1);
        assertThrows(UnexpectedResponseException.class, () -> inside.leave(SHORT));
        assertEquals("3", left.poll(20, TimeUnit.SECONDS));
        Membership membership = client.group("web").join("10.0.0.1:80");
        assertEquals("txn", left.poll(20, TimeUnit.SECONDS));
        pages.set(1);
        membership.close();
        assertEquals("txn", left.poll(20, TimeUnit.SECONDS));
    }

    @Test
    void aPageConfirmsNoChange() {
        node(call -> PAGE);
        Holdfast client = node.client(options -> options.requestTimeout(SHORT));
        List<Executable> changes = List.of(
                () -> client.tree().delete("/a"),
                () -> client.counter("n").delete(),
                () -> client.latch("ready").delete(),
                () -> client.latch("ready").await(Duration.ZERO));
        changes.forEach(change -> assertThrows(UnexpectedResponseException.class, change));
    }

    @Test
    void aLossThatTheReleaseFindsFirstIsCounted() throws Exception {
        BlockingQueue<String> counted = new LinkedBlockingQueue<>();
        CountDownLatch released = new CountDownLatch(1);
        node(call -> {
            if (call.name().startsWith("DELETE")) {
                released.countDown();
            }
            return node.grant(7, "");
        });
        Guard guard = node.client(options -> options.metrics(counting(counted))).lock("orders").tryAcquire();
        // The thread of the deadlines sleeps.
        guard.hold.entry.limit(limits -> limits.lose(Loss.RELEASED_ELSEWHERE, guard.hold.session.clock.nanos()));
        assertEquals(Loss.Cause.RELEASED_ELSEWHERE, causeOf(guard::release));
        assertEquals("orders RELEASED_ELSEWHERE", counted.poll(20, TimeUnit.SECONDS));
        assertEquals(Loss.RELEASED_ELSEWHERE, guard.lost().toCompletableFuture().get(20, TimeUnit.SECONDS));
        // The cluster may have a claim of the guard.
        released.await();
    }

    @Test
    void thePauseOfAnUpgradeSeesALossThatCameBefore() {
        node(call -> node.grant(7, ""));
        Holdfast client = node.client(options -> options);
        Hold hold = client.lock("orders").tryAcquire().hold;
        hold.session.lose(hold.entry, Loss.RELEASED_ELSEWHERE);
        long at = client.clock().nanos() + LONG.toNanos();
        assertEquals(Loss.Cause.RELEASED_ELSEWHERE, causeOf(() -> {
            try {
                new HoldChange(hold).awaitRetry(at);
            } catch (InterruptedException e) {
                throw new AssertionError(e);
            }
        }));
    }

    @Test
    void aWaiterKeepsItsPlaceUntilTheFileHasAnotherToken(@TempDir Path folder) throws Exception {
        AtomicInteger rejections = new AtomicInteger();
        node(call -> rejections.incrementAndGet() < 12 ? Answer.problem(401, "token-expired") : node.grant(7, ""));
        Path file = Files.writeString(folder.resolve("token"), "hf_one\n");
        Holdfast client = node.client(options -> options.accessTokenFile(file).requestTimeout(SHORT));
        client.lock("orders").waitAtMost(LONG).acquire().ensure();
        List<Received> calls = node.calls("PUT /v1/locks/orders");
        assertEquals(1, calls.stream().map(call -> call.query().get("attempt")).distinct().count());
        assertEquals(0, node.calls("DELETE /v1/locks/orders").size());
    }
}
