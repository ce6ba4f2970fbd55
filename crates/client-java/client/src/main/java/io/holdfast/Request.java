package io.holdfast;

import java.io.IOException;
import java.net.UnknownHostException;
import java.util.concurrent.atomic.AtomicReference;

/**
 * One request to one node. At most one thread at a time runs {@link #open} or {@link #answer}; any thread may cancel it.
 */
final class Request {
    /** The node certainly did not receive the request: no connection to it was opened. */
    static final class NotSentException extends IOException {
        private static final long serialVersionUID = 1;

        NotSentException(String reason) {
            super(reason);
        }
    }

    private final ConnectionPool pool;
    private final byte[] bytes;
    private final ResponseParser parser = new ResponseParser();
    /** Null before a connection is open, and when the request is over. */
    private final AtomicReference<NodeConnection> connection = new AtomicReference<>();
    private volatile boolean isCancelled;
    private boolean isSent;

    /** Takes an idle connection, if there is one. */
    Request(ConnectionPool pool, byte[] bytes) {
        this.pool = pool;
        this.bytes = bytes;
        connection.set(pool.take());
    }

    /** Whether the request has a connection. */
    boolean isOpen() {
        return connection.get() != null;
    }

    /** Opens a connection. {@link #cancel} is the only time limit. */
    void open() throws NotSentException {
        try {
            NodeConnection opened = pool.create();
            connection.set(opened);
            if (isCancelled) {
                opened.close();
            }
            opened.open();
        } catch (IOException | RuntimeException e) {
            // A RuntimeException: the name of the node cannot be in a certificate.
            cancel();
            String reason = e instanceof UnknownHostException ? "unknown host" : e.getMessage();
            throw new NotSentException(reason == null ? e.getClass().getSimpleName() : reason);
        }
    }

    /**
     * Sends the request at the first call, and waits for its answer. Returns null if {@code nanos} pass before; the next call
     * continues the wait.
     */
    Response answer(long nanos) throws IOException {
        NodeConnection used = connection.get();
        if (used == null) {
            throw new IOException("the request was cancelled");
        }
        try {
            Response response = sendAndRead(used, nanos);
            if (response != null && connection.compareAndSet(used, null)) {
                if (parser.isReusable()) {
                    pool.put(used);
                } else {
                    used.close();
                }
            }
            return response;
        } catch (IOException e) {
            cancel();
            throw e;
        }
    }

    private Response sendAndRead(NodeConnection used, long nanos) throws IOException {
        IOException broken = null;
        if (!isSent) {
            isSent = true;
            try {
                used.write(bytes);
            } catch (IOException e) {
                // A node that rejects a request may close before it has read the body.
                broken = e;
            }
        }
        try {
            return used.read(parser, nanos);
        } catch (IOException e) {
            throw broken == null ? e : broken;
        }
    }

    /** Closes the connection, unless the answer is complete. */
    void cancel() {
        isCancelled = true;
        NodeConnection used = connection.getAndSet(null);
        if (used != null) {
            used.close();
        }
    }
}
