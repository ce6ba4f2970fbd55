package io.holdfast;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.SocketTimeoutException;
import java.net.StandardSocketOptions;
import java.net.URI;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import java.util.List;
import javax.net.ssl.SNIHostName;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLParameters;
import javax.net.ssl.SSLSocket;

/**
 * A connection to one node, for one request at a time. Its I/O runs in the calling thread. {@link #close} by another thread
 * ends the I/O at once; an interrupt does so as well, and closes the connection.
 */
final class NodeConnection {
    private static final long READ_MAX = 86_400_000 * Clock.MILLI;
    /** A connection that was idle for less is not examined. */
    private static final long FRESH = 100 * Clock.MILLI;

    private final URI node;
    private final SSLContext tls;
    /** The present one of {@link #connect}; null before. */
    private volatile SocketChannel channel;
    private volatile boolean isClosed;
    private InputStream in;
    private OutputStream out;
    /** The end of the reads, of {@link System#nanoTime}. */
    private long readUntil;
    private long idleSince;

    NodeConnection(URI node, SSLContext tls) {
        this.node = node;
        this.tls = tls;
    }

    /** Connects, with TLS for https. Has no time limit: {@link #close} ends it. */
    void open() throws IOException {
        open(InetAddress.getAllByName(node.getHost()));
    }

    /** As {@link #open()}, with the addresses of the node's name. */
    void open(InetAddress... addresses) throws IOException {
        readUntil = System.nanoTime() + READ_MAX;
        connect(addresses);
        channel.setOption(StandardSocketOptions.TCP_NODELAY, true);
        in = new Input();
        out = new Output();
        if (node.getScheme().equals("https")) {
            SSLSocket socket = handshaken();
            in = socket.getInputStream();
            out = socket.getOutputStream();
        }
    }

    /** Connects to the first address that accepts. One that drops packets leaves the others their part of the time. */
    private void connect(InetAddress... addresses) throws IOException {
        IOException failure = null;
        int part = (int) (Rounds.CONNECT_TIMEOUT / Clock.MILLI / addresses.length);
        for (InetAddress address : addresses) {
            boolean isLast = address == addresses[addresses.length - 1];
            channel = SocketChannel.open();
            if (isClosed) {
                channel.close();
            }
            try {
                channel.socket().connect(new InetSocketAddress(address, node.getPort()), isLast ? 0 : part);
                return;
            } catch (IOException e) {
                channel.close();
                failure = e;
            }
        }
        throw failure;
    }

    private SSLSocket handshaken() throws IOException {
        String host = node.getHost().replaceAll("[\\[\\]]", "");
        SSLSocket socket = (SSLSocket) tls.getSocketFactory().createSocket(new BelowTls(), host, node.getPort(), true);
        SSLParameters parameters = socket.getSSLParameters();
        parameters.setEndpointIdentificationAlgorithm("HTTPS");
        boolean isAddress = host.contains(":") || host.matches("[0-9.]+");
        if (!isAddress) {
            parameters.setServerNames(List.of(new SNIHostName(host)));
        }
        socket.setSSLParameters(parameters);
        socket.startHandshake();
        return socket;
    }

    void write(byte[] request) throws IOException {
        out.write(request);
    }

    /** Reads until the answer is complete. Returns null if {@code nanos} pass before: the read may go on later. */
    Response read(ResponseParser answer, long nanos) throws IOException {
        readUntil = System.nanoTime() + Math.min(nanos, READ_MAX);
        Response complete = answer.next();
        while (complete == null) {
            byte[] room = answer.room();
            try {
                answer.received(in.read(room, answer.received(), room.length - answer.received()));
            } catch (SocketTimeoutException e) {
                return null;
            }
            complete = answer.next();
        }
        return complete;
    }

    void becomeIdle() {
        idleSince = System.nanoTime();
    }

    boolean isIdleFor(long nanos) {
        return System.nanoTime() - idleSince > nanos;
    }

    /** Whether the idle connection can have another request: the node has not closed it, and has sent nothing. */
    boolean isUsable(long idleMax) {
        if (!isIdleFor(FRESH)) {
            return true;
        }
        try {
            channel.configureBlocking(false);
            boolean isSilent = channel.read(ByteBuffer.allocate(1)) == 0;
            channel.configureBlocking(true);
            return isSilent && !isIdleFor(idleMax);
        } catch (IOException e) {
            return false;
        }
    }

    void close() {
        isClosed = true;
        SocketChannel present = channel;
        try {
            if (present != null) {
                present.close();
            }
        } catch (IOException e) {
            // It is closed.
        }
    }

    /** Each read ends at {@link #readUntil}. */
    private final class Input extends InputStream {
        private final InputStream received = channel.socket().getInputStream();

        Input() throws IOException {}

        @Override
        public int read() throws IOException {
            byte[] one = new byte[1];
            return read(one, 0, 1) < 0 ? -1 : one[0] & 0xff;
        }

        @Override
        public int read(byte[] bytes, int from, int length) throws IOException {
            long millis = (readUntil - System.nanoTime() + Clock.MILLI - 1) / Clock.MILLI;
            if (millis <= 0) {
                throw new SocketTimeoutException();
            }
            channel.socket().setSoTimeout((int) millis);
            return received.read(bytes, from, length);
        }
    }

    /** The stream of {@link java.nio.channels.Channels} is synchronized, and this one is not. */
    private final class Output extends OutputStream {
        @Override
        public void write(int octet) throws IOException {
            write(new byte[] {(byte) octet}, 0, 1);
        }

        @Override
        public void write(byte[] bytes, int from, int length) throws IOException {
            ByteBuffer left = ByteBuffer.wrap(bytes, from, length);
            while (left.hasRemaining()) {
                channel.write(left);
            }
        }
    }

    /** The socket below TLS: it passes the streams, so that {@link #readUntil} holds for TLS as well. */
    private final class BelowTls extends Socket {
        private final InputStream input = in;
        private final OutputStream output = out;

        @Override
        public boolean isConnected() {
            return true;
        }

        @Override
        public InputStream getInputStream() {
            return input;
        }

        @Override
        public OutputStream getOutputStream() {
            return output;
        }

        @Override
        public void shutdownInput() {}

        @Override
        public void shutdownOutput() {}

        @Override
        public void close() {
            NodeConnection.this.close();
        }
    }
}
