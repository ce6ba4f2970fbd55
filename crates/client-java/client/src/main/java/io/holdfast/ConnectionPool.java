package io.holdfast;

import java.io.IOException;
import java.net.URI;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.concurrent.locks.ReentrantLock;
import javax.net.ssl.SSLContext;

/** The connections to one node. Bounds: {@link #IDLE_MAX} are idle, each for at most {@link #IDLE_TIME}. */
final class ConnectionPool {
    private static final int IDLE_MAX = 512;
    private static final long IDLE_TIME = 60_000 * Clock.MILLI;

    private final URI node;
    private final SSLContext tls;
    private final ReentrantLock lock = new ReentrantLock();
    /** The one that was used last comes first. */
    private final Deque<NodeConnection> idle = new ArrayDeque<>();
    private boolean isClosed;

    ConnectionPool(URI node, SSLContext tls) {
        this.node = node;
        this.tls = tls;
    }

    /** The value of the header {@code Host}. */
    String host() {
        return node.getHost() + ":" + node.getPort();
    }

    /** A connection that is not open yet. */
    NodeConnection create() throws IOException {
        return new NodeConnection(node, tls);
    }

    /** Returns the usable connection that was used last, or null. */
    NodeConnection take() {
        NodeConnection taken = poll(true);
        while (taken != null && !taken.isUsable(IDLE_TIME)) {
            taken.close();
            taken = poll(true);
        }
        return taken;
    }

    private NodeConnection poll(boolean isNewest) {
        lock.lock();
        try {
            return isNewest ? idle.pollFirst() : idle.pollLast();
        } finally {
            lock.unlock();
        }
    }

    void put(NodeConnection connection) {
        connection.becomeIdle();
        NodeConnection surplus = connection;
        lock.lock();
        try {
            if (!isClosed) {
                idle.addFirst(connection);
                surplus = idle.size() > IDLE_MAX ? idle.pollLast() : null;
            }
        } finally {
            lock.unlock();
        }
        if (surplus != null) {
            surplus.close();
        }
    }

    /** Closes the idle connections, and from now on each one after its call. */
    void close() {
        lock.lock();
        try {
            isClosed = true;
        } finally {
            lock.unlock();
        }
        for (NodeConnection each = poll(false); each != null; each = poll(false)) {
            each.close();
        }
    }
}
