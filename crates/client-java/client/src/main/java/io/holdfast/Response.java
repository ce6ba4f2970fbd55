package io.holdfast;

import java.net.http.HttpHeaders;
import java.net.http.HttpResponse;

/**
 * A complete answer of a node.
 *
 * @param status the HTTP status
 * @param headers the headers
 * @param body the body
 */
record Response(int status, HttpHeaders headers, byte[] body) {
    static Response of(HttpResponse<byte[]> answer) {
        return new Response(answer.statusCode(), answer.headers(), answer.body());
    }

    boolean isSuccess() {
        return status >= 200 && status < 300;
    }

    /** The value of a header, or null. */
    String header(String name) {
        return headers.firstValue(name).orElse(null);
    }

    Json json() {
        try {
            return Json.parse(body);
        } catch (IllegalArgumentException e) {
            throw new UnexpectedResponseException(e.getMessage());
        }
    }
}
