package io.holdfast;

import java.nio.file.Path;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** The options of a client. */
public final class HoldfastBuilder {
    List<String> addresses;
    Duration ttl;
    String sessionPrefix = "sdk";
    String session;
    final Map<String, String> labels = new LinkedHashMap<>();
    Duration requestTimeout = Duration.ofSeconds(10);
    Path ca;
    Path certificate;
    Path key;
    AccessToken accessToken;
    Metrics metrics = Metrics.NONE;

    HoldfastBuilder(List<String> addresses) {
        this.addresses = List.copyOf(addresses);
    }

    /**
     * How long the locks of a dead client stay held; by default 30 s. A named session keeps its ttl without this call.
     *
     * @param ttl from 1 s to 24 h
     * @return the builder
     */
    public HoldfastBuilder ttl(Duration ttl) {
        this.ttl = Names.ttl(ttl);
        return this;
    }

    /**
     * The prefix of the generated session name; by default {@code sdk}.
     *
     * @param prefix for readers of a queue
     * @return the builder
     */
    public HoldfastBuilder sessionPrefix(String prefix) {
        this.sessionPrefix = Names.flat("the session prefix", prefix, 200);
        return this;
    }

    /**
     * Uses the session of this name, which other clients may share and which outlives this client. The client never
     * replaces it: after its end, calls throw {@link LostException}. Closing a lost guard releases its lock in the
     * background until the client is closed, because another client may renew the session.
     *
     * @param name the name
     * @return the builder
     */
    public HoldfastBuilder session(String name) {
        this.session = Names.path("the session", name, 256);
        return this;
    }

    /**
     * A label of the session, visible to other callers.
     *
     * @param name the key
     * @param value the value
     * @return the builder
     */
    public HoldfastBuilder label(String name, String value) {
        labels.put(Names.flat("a label's key", name, 64), value);
        return this;
    }

    /**
     * The time of a call without its wait for a lock; by default 10 s.
     *
     * @param timeout at least 100 ms
     * @return the builder
     */
    public HoldfastBuilder requestTimeout(Duration timeout) {
        this.requestTimeout =
                Names.between("the request timeout", timeout, Duration.ofMillis(100), Duration.ofHours(24));
        return this;
    }

    /**
     * The only CAs that may have signed the certificates of the nodes. Addresses without a scheme then mean https.
     *
     * @param pem a file in PEM form
     * @return the builder
     */
    public HoldfastBuilder ca(Path pem) {
        this.ca = pem;
        return this;
    }

    /**
     * The certificate of this client and its key.
     *
     * @param certificate the chain in PEM form
     * @param key the key in the PEM form of PKCS #8 ({@code BEGIN PRIVATE KEY})
     * @return the builder
     */
    public HoldfastBuilder certificate(Path certificate, Path key) {
        this.certificate = certificate;
        this.key = key;
        return this;
    }

    /**
     * An access token to send with every call.
     *
     * @param token the token
     * @return the builder
     */
    public HoldfastBuilder accessToken(String token) {
        this.accessToken = AccessToken.text(token);
        return this;
    }

    /**
     * The file with the access token. It is read again after a change, and after a node rejected the token.
     *
     * @param file a file with one line
     * @return the builder
     */
    public HoldfastBuilder accessTokenFile(Path file) {
        this.accessToken = AccessToken.file(file);
        return this;
    }

    /**
     * Receives what the client does.
     *
     * @param metrics an implementation for the metrics library of the program
     * @return the builder
     */
    public HoldfastBuilder metrics(Metrics metrics) {
        this.metrics = metrics;
        return this;
    }

    /**
     * Creates the client. Sends nothing yet.
     *
     * @return the client
     * @throws InvalidArgumentException if there is no address or an invalid one, or for a wrong certificate
     */
    public Holdfast build() {
        return new Holdfast(this);
    }
}
