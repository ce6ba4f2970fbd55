package io.holdfast;

/**
 * The result of a call: an answer, an error, or neither if the caller stopped it.
 *
 * @param response the answer, or null
 * @param sent the moment at which the answered request was sent: every deadline in the answer counts from it or later
 * @param error the error, or null
 * @param inDoubt whether a request without an answer may still take effect later
 */
record Delivery(Response response, long sent, HoldfastException error, boolean inDoubt) {
    static Delivery stopped() {
        return new Delivery(null, 0, null, true);
    }

    boolean isStopped() {
        return response == null && error == null;
    }

    /** Returns the answer, or throws the error. */
    Response orThrow() {
        if (error != null) {
            throw error;
        }
        return response;
    }

    Json json() {
        return orThrow().json();
    }
}
