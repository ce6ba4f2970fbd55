package io.holdfast;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.net.httpserver.HttpServer;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Function;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Answers with status 200 of another server: each call fails, and none is taken for a grant, a renewal or a release. */
@Timeout(120)
class FalseAnswersTest {
    private static final Duration NONE = Duration.ZERO;
    private static final List<String> BODIES = List.of(
            "{}",
            "[]",
            "null",
            "{\"token\":5,\"lo",
            "{\"lock\":1,\"token\":\"5\",\"value\":\"1\",\"left\":\"no\"}",
            "<html>Welcome</html>",
            "");

    /** A call. */
    private interface Made {
        void by(Holdfast client, Guard guard) throws Exception;
    }

    /** The answer to a request: a body, 204 with null, and no answer with an empty one. */
    private static AutoCloseable serve(Function<String, String> answers, int[] port) throws Exception {
        CountDownLatch closed = new CountDownLatch(1);
        ExecutorService threads = Executors.newCachedThreadPool(task -> Background.thread("false-node", task));
        HttpServer server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        server.setExecutor(threads);
        server.createContext("/", exchange -> {
            String body = answers.apply(exchange.getRequestMethod() + " " + exchange.getRequestURI());
            try {
                if (body == WITHOUT) {
                    closed.await();
                }
            } catch (InterruptedException e) {
                return;
            }
            byte[] bytes = body == null ? new byte[0] : body.getBytes(StandardCharsets.UTF_8);
            exchange.sendResponseHeaders(body == null ? 204 : 200, bytes.length == 0 ? -1 : bytes.length);
            exchange.getResponseBody().write(bytes);
            exchange.close();
        });
        server.start();
        port[0] = server.getAddress().getPort();
        return () -> {
            closed.countDown();
            server.stop(0);
            threads.shutdownNow();
        };
    }

    /** No answer. */
    private static final String WITHOUT = new String("none");

    /** The answers of a cluster in which nothing special happens. */
    private static String good(String request, int leaseMillis) {
        String lease = ",\"expires_in_ms\":" + leaseMillis;
        Function<String, String> grant = lock -> "{\"lock\":\"" + lock + "\",\"mode\":\"upgradable\",\"token\":5,"
                + "\"permits\":2,\"slots\":[0,1]" + lease + "}";
        if (request.startsWith("DELETE")) {
            return null;
        } else if (request.contains("/v1/sessions/")) {
            return "{\"session\":\"nightly\",\"incarnation\":7,\"holds\":[]" + lease + "}";
        } else if (request.startsWith("GET /v1/locks")) {
            String holders = "[{\"session\":\"nightly\",\"token\":9}]";
            return "{\"lock\":\"t\",\"holders\":" + holders + ",\"holders_total\":1,\"revision\":1}";
        } else if (request.startsWith("POST /v1/locks")) {
            return "{\"grants\":[" + grant.apply("b") + "," + grant.apply("c") + "]}";
        } else if (request.contains("barriers")) {
            return "{\"index\":0,\"parties\":1,\"generation\":4}";
        } else if (request.contains("/txn")) {
            return "{\"results\":[{\"stat\":{\"kind\":\"ephemeral\"}}]}";
        }
        Matcher lock = Pattern.compile("locks/([^?]*)").matcher(request);
        return grant.apply(lock.find() ? lock.group(1) : "a");
    }

    private static Map<String, Made> calls() {
        Map<String, Made> calls = new LinkedHashMap<>();
        calls.put("^PUT .*sessions", (client, guard) -> { });
        calls.put("^PUT .*locks/b", (client, guard) -> client.lock("b").tryAcquire());
        calls.put("^POST .*locks", (client, guard) -> client.lockAll("b", "c").acquire());
        calls.put("^DELETE .*locks/a", (client, guard) -> guard.release());
        calls.put("^DELETE .*locks\\?", (client, guard) -> client.lockAll("b", "c").acquire().release());
        calls.put("permits=1", (client, guard) -> guard.releasePermits(1));
        calls.put("mode=exclusive", (client, guard) -> guard.upgrade(NONE));
        calls.put("min_hold", (client, guard) -> new HoldChange(guard.hold).minHold(NONE));
        calls.put("transfers", (client, guard) -> guard.transfer("other"));
        calls.put("change=0", (client, guard) -> client.lock("t").waitAtMost(NONE).receiveTransfer());
        calls.put("^PUT .*hold=durable", (client, guard) -> client.holdDurably("d", "o", "r", NONE));
        calls.put("^DELETE .*hold=durable", (client, guard) -> client.releaseDurable("d", "o", 5));
        calls.put("force-releases", (client, guard) -> client.forceRelease("a", 5, "r"));
        calls.put("release-requests", (client, guard) -> client.requestRelease("a", 5, "r", NONE, false));
        calls.put("^GET .*locks", (client, guard) -> client.lockState("a"));
        calls.put("elections", (client, guard) -> client.election("e").leader());
        calls.put("^PUT .*barriers", (client, guard) -> client.barrier("b", 1).await(NONE));
        calls.put("^DELETE .*barriers", (client, guard) -> client.doubleBarrier("b", 1).enter(NONE).leave(NONE));
        calls.put("^PUT .*latches", (client, guard) -> client.latch("l").create(1));
        calls.put("^POST .*latches", (client, guard) -> client.latch("l").countDown("k"));
        calls.put("^GET .*latches", (client, guard) -> client.latch("l").await(NONE));
        calls.put("^DELETE .*latches", (client, guard) -> client.latch("l").delete());
        calls.put("^GET .*counters", (client, guard) -> client.counter("c").get());
        calls.put("^POST .*counters", (client, guard) -> client.counter("c").add(1));
        calls.put("^PUT .*counters", (client, guard) -> client.counter("c").set(1));
        calls.put("^DELETE .*counters", (client, guard) -> client.counter("c").delete());
        calls.put("^GET .*tree", (client, guard) -> client.tree().get("/z"));
        calls.put("^PUT .*tree", (client, guard) -> client.tree().put("/z", new byte[0]));
        calls.put("^DELETE .*tree", (client, guard) -> client.tree().delete("/z"));
        calls.put("watch", (client, guard) -> client.tree().watch("/z", null));
        calls.put("txn", (client, guard) -> client.group("g").join("x"));
        calls.put("tree", (client, guard) -> client.group("g").members());
        return calls;
    }

    @Test
    void aFalseAnswerFailsItsCall() throws Exception {
        for (Map.Entry<String, Made> call : calls().entrySet()) {
            Pattern pattern = Pattern.compile(call.getKey());
            for (String body : BODIES) {
                String name = call.getKey() + " " + body;
                AtomicBoolean isFalse = new AtomicBoolean(true);
                BlockingQueue<String> released = new LinkedBlockingQueue<>();
                Function<String, String> answers = request -> {
                    if (request.contains("/keepalive")) {
                        return WITHOUT;
                    } else if (request.startsWith("DELETE /v1/locks")) {
                        released.add(request);
                    }
                    return pattern.matcher(request).find() && isFalse.getAndSet(false) ? body : good(request, 30_000);
                };
                int[] port = new int[1];
                try (AutoCloseable node = serve(answers, port);
                        Holdfast client = Holdfast.builder("127.0.0.1:" + port[0]).session("nightly").build()) {
                    assertThrows(
                            UnexpectedResponseException.class,
                            () -> call.getValue().by(client, client.lock("a").upgradable().tryAcquire()),
                            name);
                    assertFalse(isFalse.get(), name);
                    if (call.getKey().matches(".*locks.*|transfers|change=0") && !call.getKey().contains("GET")) {
                        assertTrue(released.poll(20, TimeUnit.SECONDS) != null, name);
                    }
                }
            }
        }
    }

    @Test
    void aCallThatAnotherServerAnswersContinuesAtTheNextAddress() throws Exception {
        for (String page : List.of("{}", "[]", "<html>Welcome</html>", "")) {
            BlockingQueue<String> pages = new LinkedBlockingQueue<>();
            int[] port = new int[1];
            try (AutoCloseable foreign = serve(request -> {
                pages.add(request);
                return page;
            }, port)) {
                String first = "127.0.0.1:" + port[0];
                // A keepalive would list no hold.
                Function<String, String> answers =
                        request -> request.contains("/keepalive") ? WITHOUT : good(request, 30_000);
                try (AutoCloseable node = serve(answers, port);
                        Holdfast client = Holdfast.builder(first, "127.0.0.1:" + port[0]).session("nightly").build()) {
                    first(client, first);
                    Guard guard = client.lock("a").tryAcquire();
                    first(client, first);
                    assertEquals(1, client.lockState("a").holders().size());
                    first(client, first);
                    guard.release();
                    assertTrue(pages.size() >= 3, page + pages);
                }
            }
        }
    }

    /** Makes the next call start at an address. */
    private static void first(Holdfast client, String address) {
        Nodes nodes = client.calls().nodes;
        Node node = nodes.order(0).stream().filter(other -> other.base.endsWith(address)).findFirst().orElseThrow();
        node.answered(client.clock().nanos());
        nodes.prefer(node);
    }

    @Test
    void theErrorNamesEachAddressOfAnotherServer() throws Exception {
        int[] port = new int[1];
        try (AutoCloseable one = serve(request -> "<html>", port)) {
            String first = "127.0.0.1:" + port[0];
            try (AutoCloseable other = serve(request -> "<html>", port);
                    Holdfast client = Holdfast.builder(first, "127.0.0.1:" + port[0]).build()) {
                var error = assertThrows(UnexpectedResponseException.class, () -> client.lockState("a"));
                assertTrue(error.getMessage().contains(first + " answered 200 without the fields of a node"), error.getMessage());
                assertTrue(error.getMessage().contains(":" + port[0]), error.getMessage());
            }
        }
    }

    @Test
    void aFalseAnswerClosesNoSession() throws Exception {
        for (String body : BODIES) {
            int[] port = new int[1];
            try (AutoCloseable node = serve(
                    request -> request.startsWith("DELETE /v1/sessions/") ? body : good(request, 30_000), port)) {
                Holdfast client = Holdfast.builder("127.0.0.1:" + port[0]).build();
                client.lock("a").tryAcquire();
                assertThrows(UnexpectedResponseException.class, client::close, body);
                client.close();
            }
        }
    }

    @Test
    void aFalseAnswerRenewsNothing() throws Exception {
        for (String body : BODIES) {
            Queue<Boolean> renewals = new ConcurrentLinkedQueue<>();
            Metrics metrics = new Metrics() {
                @Override
                public void renewed(String session, boolean isAcknowledged) {
                    renewals.add(isAcknowledged);
                }
            };
            int[] port = new int[1];
            Function<String, String> answers = request -> request.contains("/keepalive") ? body : good(request, 1_000);
            try (AutoCloseable node = serve(answers, port);
                    Holdfast client = Holdfast.builder("127.0.0.1:" + port[0]).metrics(metrics).build()) {
                Loss loss = client.lock("a").tryAcquire().lost().toCompletableFuture().get(20, TimeUnit.SECONDS);
                assertEquals(Loss.Cause.NOT_RENEWED, loss.cause(), body);
                assertTrue(!renewals.isEmpty() && !renewals.contains(true), body);
            }
        }
    }
}
