package io.holdfast;

/**
 * A problem document (RFC 9457) that a node returned.
 *
 * @param code the stable code, e.g. {@code lock-busy}
 * @param title what happened
 * @param detail the facts in one sentence; may be empty
 * @param hint the server's advice, which names HTTP parameters; may be null
 * @param retryable whether the same call may succeed later
 * @param status the HTTP status
 * @param requestId the id of the call in the log of the node; may be null
 */
public record Problem(
        String code, String title, String detail, String hint, boolean retryable, int status, String requestId) {

    /** Reads a problem document; null if the body is none. */
    static Problem read(Response response, Json body) {
        String code = body.text("code");
        if (code == null) {
            return null;
        }
        return new Problem(
                code,
                body.textOr("title", code),
                body.textOr("detail", ""),
                body.text("hint"),
                body.flag("retryable"),
                response.status(),
                response.header("Holdfast-Request-Id"));
    }

    String sentence() {
        return detail.isEmpty() || detail.equalsIgnoreCase(title) ? title : title + ": " + detail;
    }

    boolean isUnauthenticated() {
        return code.equals(Codes.UNAUTHENTICATED) || code.equals(Codes.TOKEN_EXPIRED);
    }
}
