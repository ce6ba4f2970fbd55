package io.holdfast;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Function;
import java.util.function.UnaryOperator;

/**
 * A node that opens sessions, each with the next incarnation, and answers locks by a function. A call without an answer
 * stays open.
 */
final class FakeNode implements AutoCloseable {
    /**
     * A call that the node received.
     *
     * @param name e.g. {@code PUT /v1/locks/orders}
     * @param query the parameters
     */
    record Received(String name, Map<String, String> query) {}

    /**
     * An answer.
     *
     * @param status the HTTP status
     * @param body the body
     */
    record Answer(int status, String body) {
        /** No answer. */
        static final Answer NONE = new Answer(0, "");
        /** The node closes the connection instead of an answer. */
        static final Answer DROPPED = new Answer(-1, "");

        /** A refusal whose header Retry-After has these seconds, as that of a node. */
        static Answer refused(int status, String bound, long seconds) {
            String facts = "\"retryable\":true,\"bound\":\"" + bound + "\",\"retry_after_ms\":" + seconds * 1_000;
            return new Answer(status, "{\"code\":\"rate-limited\",\"title\":\"no\"," + facts + "}");
        }

        static Answer problem(int status, String code) {
            boolean isRetryable = status == 503;
            return new Answer(status, "{\"code\":\"" + code + "\",\"title\":\"no\",\"retryable\":" + isRetryable + "}");
        }
    }

    final AtomicInteger opened = new AtomicInteger();
    volatile long leaseMillis = 30_000;
    /** The answer to the close of a session. */
    volatile Answer closes = new Answer(204, "");
    /** The answers to keepalives. */
    volatile Function<Received, Answer> keepalives = call -> Answer.NONE;
    /** The answer to a ping. */
    volatile Answer pings = new Answer(200, "{}");
    private final List<Received> calls = new CopyOnWriteArrayList<>();
    private final List<Holdfast> clients = new CopyOnWriteArrayList<>();
    private final Function<Received, Answer> locks;
    private final HttpServer server;
    private final ExecutorService threads = Executors.newCachedThreadPool(task -> Background.thread("fake-node", task));
    private final CountDownLatch closed = new CountDownLatch(1);

    FakeNode(Function<Received, Answer> locks) throws IOException {
        this.locks = locks;
        this.server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        server.setExecutor(threads);
        server.createContext("/", this::serve);
        server.start();
    }

    String address() {
        return "127.0.0.1:" + server.getAddress().getPort();
    }

    /** A client of this node, or of these nodes, which is closed with this one. */
    Holdfast client(UnaryOperator<HoldfastBuilder> options, String... addresses) {
        String[] nodes = addresses.length == 0 ? new String[] {address()} : addresses;
        Holdfast client = options.apply(Holdfast.builder(nodes)).build();
        clients.add(client);
        return client;
    }

    Answer grant(long token, String more) {
        return new Answer(200, "{\"lock\":\"orders\",\"mode\":\"exclusive\",\"token\":" + token + ",\"expires_in_ms\":"
                + leaseMillis + more + "}");
    }

    List<Received> calls(String name) {
        return calls.stream().filter(call -> call.name.equals(name)).toList();
    }

    private void serve(HttpExchange exchange) throws IOException {
        String name = exchange.getRequestMethod() + " " + exchange.getRequestURI().getPath();
        Received received = new Received(name, query(exchange.getRequestURI().getRawQuery()));
        calls.add(received);
        Answer answer = answer(received);
        if (name.startsWith("DELETE ") && answer.status == 200 && answer.body.startsWith("{")) {
            answer = new Answer(204, "");
        }
        if (answer == Answer.DROPPED) {
            exchange.close();
            return;
        }
        if (answer.status == 0) {
            try {
                closed.await();
            } catch (InterruptedException e) {
                throw new IOException(e);
            }
        }
        Long retryAfter = answer.body.startsWith("{") ? Json.parse(answer.body).number("retry_after_ms") : null;
        if (retryAfter != null) {
            exchange.getResponseHeaders().set("Retry-After", String.valueOf(retryAfter / 1_000));
        }
        // That of each znode.
        exchange.getResponseHeaders().set("Holdfast-Kind", "ephemeral");
        byte[] body = answer.body.getBytes(StandardCharsets.UTF_8);
        exchange.sendResponseHeaders(answer.status == 0 ? 500 : answer.status, body.length == 0 ? -1 : body.length);
        exchange.getResponseBody().write(body);
        exchange.close();
    }

    private Answer answer(Received call) {
        if (call.name.startsWith("PUT /v1/sessions/")) {
            return new Answer(200, "{\"session\":\"s\",\"incarnation\":" + opened.incrementAndGet() + ",\"expires_in_ms\":"
                    + leaseMillis + ",\"revision\":1}");
        } else if (call.name.endsWith("/keepalive")) {
            return keepalives.apply(call);
        } else if (call.name.startsWith("DELETE /v1/sessions/")) {
            return closes;
        } else if (call.name.equals("GET /livez")) {
            return pings;
        }
        return locks.apply(call);
    }

    private static Map<String, String> query(String raw) {
        Map<String, String> query = new TreeMap<>();
        for (String parameter : raw == null ? new String[0] : raw.split("&")) {
            String[] pair = parameter.split("=", 2);
            query.put(pair[0], URLDecoder.decode(pair[1], StandardCharsets.UTF_8));
        }
        return query;
    }

    @Override
    public void close() {
        clients.forEach(Holdfast::close);
        closed.countDown();
        server.stop(0);
        threads.shutdownNow();
    }

    static FakeNode of(Function<Received, Answer> locks) {
        try {
            return new FakeNode(locks);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
