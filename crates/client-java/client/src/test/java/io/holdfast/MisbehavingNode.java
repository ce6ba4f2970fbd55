package io.holdfast;

import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** A server whose script reads and writes bytes. */
final class MisbehavingNode implements AutoCloseable {
    /** What the server does with each connection, in a thread of its own. The connection is closed at the end. */
    interface Script {
        void serve(Socket socket) throws Exception;
    }

    /** The connections, in their order. */
    final BlockingQueue<Socket> accepted = new LinkedBlockingQueue<>();
    final List<Throwable> failures = new CopyOnWriteArrayList<>();
    private final ServerSocket server;

    MisbehavingNode(ServerSocket server, Script script) {
        this.server = server;
        Background.thread("misbehaving-node", () -> accept(script)).start();
    }

    static MisbehavingNode of(Script script) throws IOException {
        return new MisbehavingNode(new ServerSocket(0, 50, InetAddress.getLoopbackAddress()), script);
    }

    String address() {
        return "127.0.0.1:" + server.getLocalPort();
    }

    private void accept(Script script) {
        try {
            while (true) {
                Socket socket = server.accept();
                accepted.add(socket);
                Background.thread("misbehaving-connection", () -> serve(socket, script)).start();
            }
        } catch (IOException e) {
            // The server is closed.
        }
    }

    private void serve(Socket socket, Script script) {
        try (socket) {
            script.serve(socket);
        } catch (IOException e) {
            // The client closed the connection.
        } catch (Exception e) {
            failures.add(e);
        }
    }

    /** Reads a request without a body. Returns its head; empty at the end of the connection. */
    static String head(Socket socket) throws IOException {
        InputStream in = socket.getInputStream();
        StringBuilder head = new StringBuilder();
        while (head.indexOf("\r\n\r\n") < 0) {
            int octet = in.read();
            if (octet < 0) {
                return "";
            }
            head.append((char) octet);
        }
        return head.toString();
    }

    static void send(Socket socket, String text) throws IOException {
        socket.getOutputStream().write(text.getBytes(StandardCharsets.ISO_8859_1));
    }

    static String answer(String body) {
        return "HTTP/1.1 200 OK\r\ncontent-length: " + body.length() + "\r\n\r\n" + body;
    }

    /** Relays bytes to a port of this machine, and those of its answer one by one with pauses until {@code mayHurry}. */
    static void relaySlowly(Socket socket, int port, CountDownLatch mayHurry) throws Exception {
        try (Socket other = new Socket(InetAddress.getLoopbackAddress(), port)) {
            Background.thread("misbehaving-relay", () -> relay(socket, other)).start();
            InputStream in = other.getInputStream();
            int relayed = 0;
            for (int octet = in.read(); octet >= 0; octet = in.read()) {
                socket.getOutputStream().write(octet);
                // The handshake is fast.
                if (++relayed > 1_200) {
                    mayHurry.await(20, TimeUnit.MILLISECONDS);
                }
            }
        }
    }

    private static void relay(Socket from, Socket to) {
        try {
            from.getInputStream().transferTo(to.getOutputStream());
            to.shutdownOutput();
        } catch (IOException e) {
            // One side is closed.
        }
    }

    @Override
    public void close() throws IOException {
        server.close();
        for (Socket socket : accepted) {
            socket.close();
        }
    }
}
