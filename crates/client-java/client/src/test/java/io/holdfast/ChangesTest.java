package io.holdfast;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.holdfast.FakeNode.Answer;
import io.holdfast.FakeNode.Received;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Function;
import java.util.function.Supplier;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Changes and releases that the cluster rejects, or that another server answers. */
@Timeout(60)
class ChangesTest {
    private static final Answer PAGE = new Answer(200, "<html>Welcome</html>");
    private static final Answer FORBIDDEN = Answer.problem(403, "forbidden");

    private FakeNode node;

    @AfterEach
    void close() {
        node.close();
    }

    /** Answers each change in turn, and grants everything else. */
    private Holdfast changing(String session, List<Supplier<Answer>> answers) {
        Queue<Supplier<Answer>> left = new ArrayDeque<>(answers);
        return client(session, call -> call.query().containsKey("change") ? left.remove().get() : node.grant(5, ""));
    }

    private Holdfast client(String session, Function<Received, Answer> answers) {
        node = FakeNode.of(answers);
        return node.client(options -> session == null ? options : options.session(session));
    }

    private static boolean within5Seconds(long since) {
        return System.nanoTime() - since < TimeUnit.SECONDS.toNanos(5);
    }

    @Test
    void aRejectedFallbackOfAnUpgradeEndsNoHold() throws Exception {
        CountDownLatch isRejected = new CountDownLatch(1);
        Holdfast client = changing(null, List.of(() -> PAGE, () -> {
            isRejected.countDown();
            return FORBIDDEN;
        }, () -> node.grant(6, "")));
        Guard guard = client.lock("orders").upgradable().tryAcquire();
        assertThrows(UnexpectedResponseException.class, () -> guard.upgrade(Duration.ZERO));
        isRejected.await();
        // It waits for the end of the fallback.
        assertEquals(6, guard.upgrade(Duration.ZERO));
        assertEquals(Mode.EXCLUSIVE, guard.mode());
    }

    @Test
    void aRejectedDowngradeEndsNoHold() {
        for (Mode mode : List.of(Mode.EXCLUSIVE, Mode.SHARED)) {
            boolean isInDoubt = mode == Mode.SHARED;
            Supplier<Answer> granted = () -> node.grant(5, "");
            Holdfast client = changing(null, isInDoubt
                    ? List.of(() -> PAGE, () -> FORBIDDEN, granted) : List.of(() -> FORBIDDEN, granted));
            Guard guard = client.lock("orders").tryAcquire();
            assertThrows(RejectedException.class, () -> guard.downgrade(Mode.SHARED));
            guard.ensure();
            assertEquals(mode, guard.mode());
            // The cluster may still have the stronger mode.
            guard.downgrade(Mode.SHARED);
            assertEquals(Mode.SHARED, guard.mode());
            assertEquals(isInDoubt ? 4 : 3, node.calls("PUT /v1/locks/orders").size());
            node.close();
        }
    }

    @Test
    void theCloseOfTheClientEndsThePauseOfAFallback() throws Exception {
        CountDownLatch isRefused = new CountDownLatch(1);
        Holdfast client = changing("nightly", List.of(() -> PAGE, () -> {
            isRefused.countDown();
            return Answer.refused(503, "", 50);
        }, () -> node.grant(5, "")));
        Guard guard = client.lock("orders").upgradable().tryAcquire();
        assertThrows(UnexpectedResponseException.class, () -> guard.upgrade(Duration.ZERO));
        isRefused.await();
        long began = System.nanoTime();
        client.close();
        assertTrue(within5Seconds(began));
        assertEquals(4, node.calls("PUT /v1/locks/orders").size());
    }

    @Test
    void aReleaseInFlightAtTheCloseThatAnotherServerAnswersIsRepeatedAtOnce() throws Exception {
        AtomicInteger releases = new AtomicInteger();
        CountDownLatch isInFlight = new CountDownLatch(1);
        CountDownLatch mayAnswer = new CountDownLatch(1);
        Holdfast client = client("nightly", call -> {
            if (!call.name().startsWith("DELETE")) {
                return node.grant(5, "");
            } else if (releases.incrementAndGet() == 5) {
                isInFlight.countDown();
                await(mayAnswer);
            }
            return releases.get() <= 5 ? PAGE : new Answer(204, "");
        });
        Guard guard = client.lock("orders").tryAcquire();
        assertThrows(UnexpectedResponseException.class, guard::release);
        isInFlight.await();
        CompletableFuture<Void> closed = CompletableFuture.runAsync(client::close);
        while (!guard.hold.session.pending.isClosing()) {
            Thread.onSpinWait();
        }
        long began = System.nanoTime();
        mayAnswer.countDown();
        closed.get();
        assertEquals(6, releases.get());
        assertTrue(System.nanoTime() - began < TimeUnit.SECONDS.toNanos(1));
    }

    private static void await(CountDownLatch latch) {
        try {
            latch.await();
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    @Test
    void aMultiLockThatTheClusterNoLongerHasIsLost() throws Exception {
        for (String code : List.of("not-holder", "attempt-over")) {
            Holdfast client = client(null, call -> {
                String grants = node.grant(5, "").body() + "," + node.grant(6, "").body().replace("orders", "stock");
                return call.name().startsWith("DELETE")
                        ? Answer.problem(409, code) : new Answer(200, "{\"grants\":[" + grants + "]}");
            });
            MultiGuard guard = client.lockAll("orders", "stock").acquire();
            LostException lost = assertThrows(LostException.class, guard::release);
            assertEquals(Loss.RELEASED_ELSEWHERE, lost.loss());
            node.close();
        }
    }

    @Test
    void theOtherGuardsOfAHoldGetTheNewToken() throws Exception {
        for (String way : List.of("upgrade", "acquire", "renewal")) {
            Holdfast client = client(null, call -> {
                if ("p".equals(call.query().get("owner"))) {
                    return node.grant(4, ",\"ticket\":2");
                }
                boolean isExclusive = call.query().getOrDefault("mode", "exclusive").equals("exclusive");
                return node.grant(isExclusive ? 6 : 5, ",\"ticket\":1");
            });
            Guard first = client.lock("orders").owner("o").upgradable().tryAcquire();
            Guard second = client.lock("orders").owner("o").shared().tryAcquire();
            Guard other = client.lock("orders").owner("p").shared().tryAcquire();
            switch (way) {
                case "upgrade" -> first.upgrade(Duration.ZERO);
                case "acquire" -> client.lock("orders").owner("o").tryAcquire();
                default -> {
                    SessionEvents events = new SessionEvents(first.hold.session);
                    List<Json> listed = List.of(
                            Json.parse("{\"lock\":\"orders\",\"ticket\":1,\"token\":6}"),
                            Json.parse("{\"lock\":\"orders\",\"ticket\":2,\"token\":4}"));
                    events.reconcile(events.knownHolds(), listed, TimeUnit.SECONDS.toNanos(30));
                }
            }
            for (Guard guard : List.of(first, second)) {
                guard.ensure();
                assertEquals(6, guard.token(), way);
                assertEquals(6, guard.hold.entry.token(), way);
            }
            assertEquals(4, other.token());
            assertTrue(node.calls("GET /v1/locks/orders").isEmpty());
            node.close();
        }
    }

    /** Two guards of one hold: ticket 5, token 7. A function answers changes and reads. */
    private List<Guard> twoGuards(Function<Received, Answer> answers) {
        Holdfast client = client("nightly", call -> {
            if (call.name().startsWith("DELETE")) {
                return new Answer(204, "");
            }
            boolean isAcquire = call.name().startsWith("PUT") && !call.query().containsKey("change");
            return isAcquire ? node.grant(7, ",\"ticket\":5") : answers.apply(call);
        });
        LockRequest request = client.lock("orders").owner("o").upgradable();
        return List.of(request.tryAcquire(), request.tryAcquire());
    }

    @Test
    void anUpgradeThatARenewalListsIsRequestedAgainAlthoughAnotherGuardHasItsToken() throws Exception {
        AtomicInteger upgrades = new AtomicInteger();
        CountDownLatch isInFlight = new CountDownLatch(1);
        List<Guard> guards = twoGuards(call -> {
            isInFlight.countDown();
            return upgrades.incrementAndGet() == 1 ? Answer.NONE : node.grant(9, ",\"ticket\":5");
        });
        Guard outer = guards.get(0);
        Guard inner = guards.get(1);
        SessionEvents events = new SessionEvents(outer.hold.session);
        CompletableFuture<Long> upgraded = CompletableFuture.supplyAsync(() -> {
            try {
                return inner.upgrade(Duration.ofSeconds(50));
            } catch (InterruptedException e) {
                throw new AssertionError(e);
            }
        });
        isInFlight.await();
        List<Json> listed = List.of(Json.parse("{\"lock\":\"orders\",\"ticket\":5,\"token\":9}"));
        events.reconcile(events.knownHolds(), listed, TimeUnit.SECONDS.toNanos(30));
        assertEquals(9, outer.token());
        Clock clock = outer.hold.session.clock;
        assertTrue(events.nextExamination(clock.nanos()) < Long.MAX_VALUE);
        while (events.nextExamination(clock.nanos()) > 0) {
            Thread.onSpinWait();
        }
        events.reconcile(events.knownHolds(), listed, TimeUnit.SECONDS.toNanos(30));
        assertEquals(9, upgraded.get());
        assertEquals(2, upgrades.get());
        assertEquals(Mode.EXCLUSIVE, inner.mode());
        outer.ensure();
    }

    @Test
    void theGuardsOfAnUpgradedHoldGetItsReleaseRequest() {
        String granted = "{\"kind\":\"granted\",\"lock\":\"orders\",\"token\":9}";
        String facts = "\"wanted_in_ms\":60000,\"revoke\":true}";
        String request = "{\"kind\":\"release-requested\",\"lock\":\"orders\"," + facts;
        String before = request.replace("}", ",\"token\":7}");
        String after = request.replace("}", ",\"token\":9}");
        for (String events : List.of(
                "\"events\":[" + granted + "," + after + "]", "\"events\":[" + before + "," + granted + "]", "\"gap\":{}")) {
            List<Guard> guards = twoGuards(call -> new Answer(200,
                    "{\"lock\":\"orders\",\"holders_total\":1,\"revision\":1,\"holders\":[{\"session\":\"nightly\",\"token\":9,"
                    + "\"release_request\":{" + facts + "}]}"));
            Session session = guards.get(0).hold.session;
            SessionEvents delivery = new SessionEvents(session);
            long lease = TimeUnit.SECONDS.toNanos(30);
            Json body = Json.parse("{\"holds\":[{\"lock\":\"orders\",\"ticket\":5,\"token\":9}]," + events + "}");
            delivery.deliver(delivery.knownHolds(), body, lease, session.clock.nanos());
            session.pending.settle(session.clock, lease);
            for (Guard guard : guards) {
                assertEquals(9, guard.token());
                assertTrue(guard.releaseRequested().map(ReleaseRequest::revoke).orElse(false), events);
            }
            node.close();
        }
    }

    @Test
    void anEventNamesItsHoldByTheTicket() {
        String hold = "\"lock\":\"orders\",\"ticket\":5,\"token\":9}";
        String lost = "{\"kind\":\"lost\",\"cause\":\"force-released\",\"reason\":\"stuck\"," + hold;
        for (String events : List.of("{\"kind\":\"granted\"," + hold + "," + lost,
                "{\"kind\":\"release-requested\",\"wanted_in_ms\":60000,\"revoke\":true," + hold)) {
            List<Guard> guards = twoGuards(call -> new Answer(200,
                    "{\"lock\":\"orders\",\"holders_total\":0,\"revision\":1,\"holders\":[]}"));
            Session session = guards.get(0).hold.session;
            SessionEvents delivery = new SessionEvents(session);
            boolean isLost = events.contains("lost");
            if (!isLost) {
                // Its upgrade has no answer yet.
                guards.get(1).hold.entry.enter(QueueEntry.Stage.CONVERTING);
            }
            // The list is of another upgrade, after the one of the event.
            String listed = isLost ? "" : "{" + hold.replace("9}", "11}");
            String other = isLost ? "" : ",{\"kind\":\"lost\",\"lock\":\"orders\",\"ticket\":6,\"token\":11}";
            Json body = Json.parse("{\"holds\":[" + listed + "],\"events\":[" + events + other + "]}");
            delivery.deliver(delivery.knownHolds(), body, TimeUnit.SECONDS.toNanos(30), session.clock.nanos());
            for (Guard guard : guards) {
                Loss loss = session.lossOf(guard.hold.entry);
                assertEquals(isLost ? Loss.Cause.FORCE_RELEASED : null, loss == null ? null : loss.cause());
                assertEquals(!isLost, guard.releaseRequested().isPresent());
            }
            node.close();
        }
    }

    @Test
    void onlyAStaleTokenIsALossOfAHoldThatIsNotListed() {
        for (String code : List.of("forbidden", "stale-token")) {
            Answer state = new Answer(200, "{\"lock\":\"orders\",\"holders_total\":2,\"revision\":1,\"holders\":[]}");
            Hold hold = twoGuards(call -> call.name().contains("fence") ? Answer.problem(409, code) : state).get(0).hold;
            SessionEvents events = new SessionEvents(hold.session);
            events.reconcile(events.knownHolds(), List.of(), TimeUnit.SECONDS.toNanos(30));
            hold.session.pending.settle(hold.session.clock, TimeUnit.SECONDS.toNanos(30));
            assertEquals(code.equals("stale-token"), hold.session.lossOf(hold.entry) != null, code);
            assertEquals(2, node.calls("GET /v1/fence/orders").size());
            node.close();
        }
    }

    @Test
    void aTokenNeverGoesBack() {
        AtomicReference<Runnable> duringChange = new AtomicReference<>();
        Guard guard = twoGuards(call -> {
            duringChange.get().run();
            return node.grant(7, ",\"ticket\":5");
        }).get(0);
        duringChange.set(() -> guard.hold.entry.onUpgraded.accept(9));
        guard.downgrade(Mode.SHARED);
        assertEquals(9, guard.token());
        guard.hold.entry.onUpgraded.accept(8);
        assertEquals(9, guard.token());
    }
}
