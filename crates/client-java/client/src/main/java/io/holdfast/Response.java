package io.holdfast;

/**
 * A complete answer of a node.
 *
 * @param status the HTTP status
 * @param headers the headers
 * @param body the body
 */
record Response(int status, Headers headers, byte[] body) {
    boolean isSuccess() {
        return status >= 200 && status < 300;
    }

    /** The value of a header, or null. */
    String header(String name) {
        return headers.first(name);
    }

    Json json() {
        try {
            return Json.parse(body);
        } catch (IllegalArgumentException e) {
            throw new UnexpectedResponseException(e.getMessage());
        }
    }
}
