package io.holdfast;

import java.util.List;
import java.util.function.Predicate;
import java.util.stream.Stream;

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

    /** The same result, if earlier copies of the call may be in doubt: then one of them may have been executed. */
    Delivery after(boolean wasInDoubt) {
        if (isStopped() || !inDoubt && !wasInDoubt) {
            return this;
        }
        return new Delivery(response, sent, inDoubtError(), true);
    }

    private HoldfastException inDoubtError() {
        if (error instanceof UnavailableException unavailable) {
            var unknown = new OutcomeUnknownException(unavailable.reason);
            unknown.retryAt = unavailable.retryAt;
            return unknown;
        } else if (error != null && error.newest(Codes.REQUEST_OVER) >= 0) {
            return new OutcomeUnknownException("the session no longer remembers the first answer, so read the state");
        }
        return error;
    }

    /** The same result, or an error if the answer is not that of a node: another server may answer {@code {}}. */
    Delivery expecting(Predicate<Json> isComplete) {
        if (response == null) {
            return this;
        }
        UnexpectedResponseException wrong;
        try {
            if (isComplete.test(json())) {
                return this;
            }
            wrong = new UnexpectedResponseException("the answer lacks fields, or concerns another lock");
        } catch (UnexpectedResponseException e) {
            wrong = e;
        }
        return new Delivery(null, sent, wrong, true);
    }

    /** As {@link #expecting}: the answer has these numbers. */
    Delivery expectingNumbers(String... members) {
        return expecting(body -> Stream.of(members).allMatch(member -> body.number(member) != null));
    }

    /** As {@link #expecting}: the answer has this list. */
    Delivery expectingList(String member) {
        return expecting(body -> body.get(member).value() instanceof List);
    }

    /** As {@link #expecting}: a node confirms an end with 204, or with {@code left} for a double barrier. */
    Delivery expectingEnd() {
        boolean isEnd = response == null || response.status() == 204;
        return isEnd ? this : expecting(body -> body.get("left").value() instanceof Boolean);
    }

    /** Whether a node rejected the call, and no copy of it can have had an effect. */
    boolean isCertainlyRejected() {
        return error != null && !inDoubt && !error.isUnclear();
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
