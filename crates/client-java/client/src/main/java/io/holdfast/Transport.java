package io.holdfast;

import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import javax.net.ssl.SSLContext;

/**
 * HTTP/1.1 to the nodes, and the facts that decide whether a retry is safe. It follows no redirect and uses no proxy,
 * because both would hide which node answered. It has no threads: its callers' threads do the I/O.
 */
final class Transport {
    private final SSLContext tls;
    private final AccessToken accessToken;
    private final Map<String, ConnectionPool> pools = new ConcurrentHashMap<>();
    private volatile boolean isClosed;

    /** The access token may be null. */
    Transport(SSLContext tls, AccessToken accessToken) {
        this.tls = tls;
        this.accessToken = accessToken;
    }

    /** Prepares a request, with an idle connection to the node if there is one. Sends nothing. */
    Request request(String base, Call call) {
        ConnectionPool pool = pools.computeIfAbsent(base, key ->
                new ConnectionPool(URI.create(key), tls, ConnectionPool.IDLE_TIME));
        if (isClosed) {
            pool.close();
        }
        return new Request(pool, bytesOf(pool.host(), call));
    }

    private byte[] bytesOf(String host, Call call) {
        StringBuilder head = new StringBuilder(512);
        head.append(call.method()).append(' ').append(call.target()).append(" HTTP/1.1\r\n");
        addHeader(head, "Host", host);
        addHeader(head, "User-Agent", "holdfast-java/0.1");
        String credential = accessToken == null ? null : accessToken.header();
        if (credential != null) {
            addHeader(head, "Authorization", credential);
        }
        call.headers().forEach((name, value) -> addHeader(head, name, value));
        int length = call.body().length;
        if (length > 0 || call.method().equals("PUT") || call.method().equals("POST")) {
            addHeader(head, "Content-Length", String.valueOf(length));
        }
        byte[] start = head.append("\r\n").toString().getBytes(StandardCharsets.ISO_8859_1);
        byte[] bytes = Arrays.copyOf(start, start.length + length);
        System.arraycopy(call.body(), 0, bytes, start.length, length);
        return bytes;
    }

    private static void addHeader(StringBuilder head, String name, String value) {
        if (value.chars().anyMatch(Character::isISOControl)) {
            throw new InvalidArgumentException("the header " + name + " would contain a control character");
        }
        head.append(name).append(": ").append(value).append("\r\n");
    }

    /** Reads the file of the access token at the next request. Returns false if the token is not from a file. */
    boolean readTokenAgain() {
        boolean mayChange = accessToken != null && accessToken.mayChange();
        if (mayChange) {
            accessToken.readAgain();
        }
        return mayChange;
    }

    static Outcome failed(String base, Throwable cause) {
        String reason = base + ": " + (cause.getMessage() == null ? cause.getClass().getSimpleName() : cause.getMessage());
        return cause instanceof Request.NotSentException ? Outcome.notDone(reason) : Outcome.mayBeDone(reason);
    }

    /** Closes the idle connections. Those of calls in progress are closed after their answers. */
    void close() {
        isClosed = true;
        pools.values().forEach(ConnectionPool::close);
    }
}
