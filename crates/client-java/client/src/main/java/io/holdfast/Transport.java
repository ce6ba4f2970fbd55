package io.holdfast;

import java.net.ConnectException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpConnectTimeoutException;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.channels.UnresolvedAddressException;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import javax.net.ssl.SSLContext;

/**
 * HTTP to one node: one request, and the facts that decide whether a retry is safe. It follows no redirect and uses no
 * proxy, because both would hide which node answered.
 */
final class Transport {
    private static final Duration CONNECT_TIMEOUT = Duration.ofSeconds(1);

    private final HttpClient http;
    private final AccessToken accessToken;

    /** The access token may be null. */
    Transport(SSLContext tls, AccessToken accessToken) {
        this.http = HttpClient.newBuilder()
                .version(HttpClient.Version.HTTP_1_1)
                .followRedirects(HttpClient.Redirect.NEVER)
                .proxy(HttpClient.Builder.NO_PROXY)
                .connectTimeout(CONNECT_TIMEOUT)
                .sslContext(tls)
                .build();
        this.accessToken = accessToken;
    }

    /** Sends a request. Cancelling the result closes its connection. */
    CompletableFuture<Response> send(String base, Call call) {
        var body = call.body().length == 0
                ? HttpRequest.BodyPublishers.noBody()
                : HttpRequest.BodyPublishers.ofByteArray(call.body());
        HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(base + call.target()))
                .method(call.method(), body)
                .setHeader("User-Agent", "holdfast-java/0.1");
        String credential = accessToken == null ? null : accessToken.header();
        if (credential != null) {
            request.setHeader("Authorization", credential);
        }
        call.headers().forEach(request::setHeader);
        var answer = http.sendAsync(request.build(), HttpResponse.BodyHandlers.ofByteArray());
        CompletableFuture<Response> result = answer.thenApply(Response::of);
        result.whenComplete((response, thrown) -> {
            if (result.isCancelled()) {
                answer.cancel(true);
            }
        });
        return result;
    }

    /** Reads the file of the access token at the next request. Returns false if the token is not from a file. */
    boolean readTokenAgain() {
        boolean mayChange = accessToken != null && accessToken.mayChange();
        if (mayChange) {
            accessToken.readAgain();
        }
        return mayChange;
    }

    static Outcome failed(String base, Throwable thrown) {
        Throwable cause = thrown instanceof CompletionException && thrown.getCause() != null
                ? thrown.getCause() : thrown;
        String reason = base + ": " + (cause.getMessage() == null ? cause.getClass().getSimpleName() : cause.getMessage());
        return isBeforeRequest(cause) ? Outcome.notDone(reason) : Outcome.mayBeDone(reason);
    }

    /** Whether the node certainly did not receive the request. */
    private static boolean isBeforeRequest(Throwable cause) {
        return cause instanceof ConnectException
                || cause instanceof HttpConnectTimeoutException
                || cause instanceof UnresolvedAddressException
                || cause instanceof javax.net.ssl.SSLHandshakeException
                || cause.getCause() != null && cause.getCause() != cause && isBeforeRequest(cause.getCause());
    }
}
