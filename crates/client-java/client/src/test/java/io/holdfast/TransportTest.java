package io.holdfast;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.holdfast.MisbehavingNode.Script;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.SocketTimeoutException;
import java.net.URI;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Requests to a server that behaves badly. */
@Timeout(120)
class TransportTest {
    private static final long LONG = 30_000 * Clock.MILLI;
    private static final long SHORT = 200 * Clock.MILLI;
    private static final Call GET = Call.get("/livez");

    private final Transport transport = new Transport(Tls.unused(), AccessToken.text("hf_secret"));
    private final CountDownLatch isOver = new CountDownLatch(1);
    private MisbehavingNode node;

    private void node(Script script) throws IOException {
        node = MisbehavingNode.of(script);
    }

    /** Answers each request of a connection with its number. */
    private static void count(Socket socket) throws IOException {
        for (int number = 1; !MisbehavingNode.head(socket).isEmpty(); number++) {
            MisbehavingNode.send(socket, MisbehavingNode.answer("" + number));
        }
    }

    @AfterEach
    void close() throws IOException {
        isOver.countDown();
        transport.close();
        if (node != null) {
            node.close();
            assertEquals(0, node.failures.size(), () -> node.failures.toString());
        }
    }

    private Request request() throws IOException {
        return request(GET);
    }

    private Request request(Call call) throws IOException {
        Request request = transport.request("http://" + node.address(), call);
        if (!request.isOpen()) {
            request.open();
        }
        return request;
    }

    private String get() throws IOException {
        return new String(request().answer(LONG).body());
    }

    private static long millisSince(long nanos) {
        return (System.nanoTime() - nanos) / Clock.MILLI;
    }

    @Test
    void aRequestNamesTheHostTheClientAndTheCredential() throws Exception {
        AtomicReference<String> head = new AtomicReference<>();
        node(socket -> {
            head.set(MisbehavingNode.head(socket));
            MisbehavingNode.send(socket, MisbehavingNode.answer(""));
        });
        request(Call.of("PUT", "/v1/tree/a?x=%20").with("If-Match", "\"3\"")).answer(LONG);
        assertEquals("PUT /v1/tree/a?x=%20 HTTP/1.1\r\nHost: " + node.address() + "\r\nUser-Agent: holdfast-java/0.1\r\n"
                + "Authorization: Bearer hf_secret\r\nIf-Match: \"3\"\r\nContent-Length: 0\r\n\r\n", head.get());
        assertThrows(InvalidArgumentException.class, () -> request(GET.with("If-Match", "3\r\nHost: other")));
    }

    @Test
    void aConnectionIsUsedAgainUnlessTheNodeClosesIt() throws Exception {
        node(TransportTest::count);
        assertEquals("1", get());
        assertEquals("2", get());
        assertEquals(1, node.accepted.size());
        // Two requests at the same time are on two connections.
        Request one = request();
        Request two = request();
        assertEquals("1", new String(two.answer(LONG).body()));
        assertEquals("3", new String(one.answer(LONG).body()));
        assertEquals(2, node.accepted.size());
    }

    @Test
    void anIdleConnectionThatTheNodeClosedIsNotUsed() throws Exception {
        CountDownLatch isAnswered = new CountDownLatch(1);
        node(socket -> {
            MisbehavingNode.head(socket);
            MisbehavingNode.send(socket, MisbehavingNode.answer("1"));
            isAnswered.await();
        });
        assertEquals("1", get());
        isAnswered.countDown();
        TestCluster.sleep(Duration.ofMillis(200));
        assertEquals("1", get());
        assertEquals(2, node.accepted.size());
    }

    @Test
    void aConnectionThatBreaksBeforeTheAnswerLeavesTheOutcomeUnknown() throws Exception {
        node(socket -> {
            MisbehavingNode.head(socket);
            MisbehavingNode.send(socket, MisbehavingNode.answer("1"));
            MisbehavingNode.head(socket);
            socket.setSoLinger(true, 0);        // The close is a reset.
        });
        assertEquals("1", get());
        IOException error = assertThrows(IOException.class, this::get);
        assertEquals(Outcome.Kind.MAY_BE_DONE, Transport.failed("b", error).kind());
    }

    @Test
    void anAnswerThatStopsInTheHeadOrTheBodyEndsWithTheTimeOfTheCall() throws Exception {
        for (String start : new String[] {"", "HTTP/1.1 200 OK\r\ncontent-le", "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhello"}) {
            node(socket -> {
                MisbehavingNode.head(socket);
                MisbehavingNode.send(socket, start);
                isOver.await();
            });
            Request request = request();
            long began = System.nanoTime();
            assertNull(request.answer(SHORT));
            assertTrue(millisSince(began) >= 200);
            request.cancel();
            assertThrows(IOException.class, () -> request.answer(SHORT));
            assertEquals(-1, node.accepted.take().getInputStream().read(), "the client closed the connection");
        }
    }

    @Test
    void slowBytesDoNotExtendTheTimeOfTheCallAndALaterWaitGoesOn() throws Exception {
        CountDownLatch mayFinish = new CountDownLatch(1);
        node(socket -> {
            MisbehavingNode.head(socket);
            MisbehavingNode.send(socket, "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n");
            while (!mayFinish.await(20, TimeUnit.MILLISECONDS)) {
                MisbehavingNode.send(socket, "1\r\nx\r\n");
            }
            MisbehavingNode.send(socket, "3\r\nend\r\n0\r\n\r\n");
            isOver.await();
        });
        Request request = request();
        long began = System.nanoTime();
        assertNull(request.answer(SHORT));
        long millis = millisSince(began);
        assertTrue(millis >= 200 && millis < 5_000, millis + " ms");
        mayFinish.countDown();
        String body = new String(request.answer(LONG).body());
        assertTrue(body.matches("x+end"), body);
        request.cancel();
        assertTrue(request().isOpen());
        assertEquals(1, node.accepted.size(), "a cancel after the answer closes nothing");
    }

    @Test
    void aCancelOrAnInterruptEndsAWaitAtOnceAndClosesTheConnection() throws Exception {
        CountDownLatch isReceived = new CountDownLatch(2);
        node(socket -> {
            MisbehavingNode.head(socket);
            isReceived.countDown();
            isOver.await();
        });
        Request cancelled = request();
        Request interrupted = request();
        CompletableFuture<Throwable> first = new CompletableFuture<>();
        CompletableFuture<Throwable> second = new CompletableFuture<>();
        waiter(cancelled, first).start();
        Thread thread = waiter(interrupted, second);
        thread.start();
        isReceived.await();
        cancelled.cancel();
        thread.interrupt();
        assertTrue(first.get() instanceof IOException);
        assertTrue(second.get() instanceof IOException);
        for (Socket socket : node.accepted) {
            assertEquals(-1, socket.getInputStream().read());
        }
    }

    private static Thread waiter(Request request, CompletableFuture<Throwable> result) {
        return new Thread(() -> {
            try {
                request.answer(Long.MAX_VALUE);
                result.complete(null);
            } catch (IOException e) {
                result.complete(e);
            }
        });
    }

    @Test
    void aRequestThatReachesNoNodeIsNotDone() throws Exception {
        String closed;
        try (ServerSocket server = new ServerSocket(0)) {
            closed = "http://127.0.0.1:" + server.getLocalPort();
        }
        for (String base : new String[] {closed, "http://nowhere.invalid:7400"}) {
            Request request = transport.request(base, GET);
            assertFalse(request.isOpen());
            IOException error = assertThrows(IOException.class, request::open);
            assertEquals(Outcome.Kind.NOT_DONE, Transport.failed(base, error).kind());
        }
    }

    @Test
    void eachAddressOfANameIsTried() throws Exception {
        InetAddress[] addresses = InetAddress.getAllByName("localhost");
        assumeTrue(addresses.length > 1, "localhost has one address");
        node = new MisbehavingNode(new ServerSocket(0, 50, addresses[addresses.length - 1]), TransportTest::count);
        Request request = transport.request(node.address().replace("127.0.0.1", "http://localhost"), GET);
        request.open();
        assertNotNull(request.answer(LONG));
    }

    @Test
    void anAddressThatDropsPacketsDoesNotHideTheNextOne() throws Exception {
        node(TransportTest::count);
        URI base = URI.create("http://" + node.address());
        List<Socket> queued = new ArrayList<>();
        InetAddress dropping = InetAddress.getByName("127.0.0.2");
        try (ServerSocket full = new ServerSocket(base.getPort(), 1, dropping)) {
            fill(full, queued);
            NodeConnection connection = new NodeConnection(base, null);
            long began = System.nanoTime();
            connection.open(dropping, InetAddress.getLoopbackAddress());
            assertTrue(System.nanoTime() - began < Rounds.CONNECT_TIMEOUT);
            connection.close();
        } finally {
            closeAll(queued);
        }
    }

    /** Fills the queue of a server, which then drops the packets of further connections. */
    private static void fill(ServerSocket server, List<Socket> queued) throws IOException {
        boolean isFull = false;
        while (!isFull && queued.size() < 20) {
            queued.add(new Socket());
            try {
                queued.get(queued.size() - 1).connect(server.getLocalSocketAddress(), 200);
            } catch (SocketTimeoutException e) {
                isFull = true;
            }
        }
        assumeTrue(isFull, "the system accepts connections without bound");
    }

    private static void closeAll(List<Socket> sockets) throws IOException {
        for (Socket socket : sockets) {
            socket.close();
        }
    }

    @Test
    void connectionsThatAreIdleForTooLongAreClosed() throws Exception {
        node(socket -> isOver.await());
        ConnectionPool pool = new ConnectionPool(URI.create("http://" + node.address()), null, 1);
        NodeConnection old = pool.create();
        old.open();
        pool.put(old);
        NodeConnection other = pool.create();
        other.open();
        pool.put(other);
        assertEquals(-1, node.accepted.take().getInputStream().read(), "the client closed the connection");
    }

    @Test
    void aCallThatNeverConnectsIsNotInDoubt() throws Exception {
        List<Socket> queued = new ArrayList<>();
        try (ServerSocket full = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            fill(full, queued);
            Calls calls = new Calls(transport, new Background(), new Nodes(List.of("http://127.0.0.1:" + full.getLocalPort()), 0),
                    Clock.system(), 500 * Clock.MILLI);
            assertEquals(UnavailableException.class, calls.send(Call.of("PUT", "/v1/tree/a")).error().getClass());
        } finally {
            closeAll(queued);
        }
    }

    @Test
    void aCancelledRequestOpensNoConnection() throws Exception {
        node(TransportTest::count);
        Request request = transport.request("http://" + node.address(), GET);
        request.cancel();
        assertThrows(Request.NotSentException.class, request::open);
        assertFalse(request.isOpen());
    }

    @Test
    void anAnswerBeforeTheEndOfTheRequestIsRead() throws Exception {
        node(socket -> {
            MisbehavingNode.head(socket);
            MisbehavingNode.send(socket, "HTTP/1.1 413 Content Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
        });
        byte[] body = new byte[16 * 1024 * 1024];
        assertEquals(413, request(Call.of("PUT", "/v1/tree/a").with(body)).answer(LONG).status());
    }

    @Test
    void aNodeThatDoesNotReadTheBodyDoesNotBlockTheCaller() throws Exception {
        node(socket -> {
            MisbehavingNode.head(socket);
            isOver.await();
        });
        Calls calls = new Calls(transport, new Background(), new Nodes(List.of("http://" + node.address()), 0),
                Clock.system(), 500 * Clock.MILLI);
        Call call = Call.of("PUT", "/v1/tree/a").with(new byte[16 * 1024 * 1024]);
        long began = System.nanoTime();
        assertEquals(OutcomeUnknownException.class, calls.send(call).error().getClass());
        assertTrue(millisSince(began) < 10_000);
    }

    @Test
    void aClosedClientLeavesNoConnection() throws Exception {
        CountDownLatch ended = new CountDownLatch(2);
        node(socket -> {
            count(socket);
            ended.countDown();
        });
        Request idle = request();
        Request inProgress = request();
        assertNotNull(idle.answer(LONG));
        transport.close();
        assertNotNull(inProgress.answer(LONG));
        ended.await();
        assertEquals(2, node.accepted.size());
    }
}
