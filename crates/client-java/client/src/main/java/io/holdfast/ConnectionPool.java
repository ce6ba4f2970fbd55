package io.holdfast;

import java.net.URI;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.locks.ReentrantLock;
import javax.net.ssl.SSLContext;

/** The connections to one node. Bounds: {@link #IDLE_MAX} are idle. Each use closes those that are idle for too long. */
final class ConnectionPool {
    private static final int IDLE_MAX = 512;
    static final long IDLE_TIME = 60_000 * Clock.MILLI;

    private final URI node;
    private final SSLContext tls;
    private final long idleTime;
    private final ReentrantLock lock = new ReentrantLock();
    /** The one that was used last comes first. */
    private final Deque<NodeConnection> idle = new ArrayDeque<>();
    private boolean isClosed;

    ConnectionPool(URI node, SSLContext tls, long idleTime) {
        this.node = node;
        this.tls = tls;
        this.idleTime = idleTime;
    }

    /** The value of the header {@code Host}. */
    String host() {
        return node.getHost() + ":" + node.getPort();
    }

    /** A connection that is not open yet. */
    NodeConnection create() {
        return new NodeConnection(node, tls);
    }

    /** Returns the usable connection that was used last, or null. */
    NodeConnection take() {
        NodeConnection taken = poll(true);
        while (taken != null && !taken.isUsable(idleTime)) {
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

    /** Keeps the connection, and closes those that are too many or idle for too long. */
    void put(NodeConnection connection) {
        connection.becomeIdle();
        List<NodeConnection> surplus = new ArrayList<>();
        lock.lock();
        try {
            idle.addFirst(connection);
            while (!idle.isEmpty() && (isClosed || idle.size() > IDLE_MAX || idle.peekLast().isIdleFor(idleTime))) {
                surplus.add(idle.pollLast());
            }
        } finally {
            lock.unlock();
        }
        surplus.forEach(NodeConnection::close);
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
