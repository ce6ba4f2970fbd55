package io.holdfast;

import java.util.Set;

/**
 * The outcome of one request at one node.
 *
 * @param kind what the outcome means for the call
 * @param response the answer of a success
 * @param error the error of a rejection
 * @param reason why the request failed
 */
record Outcome(Kind kind, Response response, HoldfastException error, String reason) {
    /** What a request without success means for the call. */
    enum Kind {
        SUCCESS,
        /** Another node would return the same. */
        REJECTED,
        /** The node certainly did not execute the request. */
        NOT_DONE,
        MAY_BE_DONE
    }

    private static final Set<String> BUSY = Set.of(Codes.LOCK_BUSY, Codes.LOCK_IN_COOLDOWN, Codes.WAIT_TIMEOUT, Codes.NOT_YET);
    private static final Set<String> UNKNOWN = Set.of(Codes.OUTCOME_UNKNOWN, Codes.INTERNAL);

    static Outcome notDone(String reason) {
        return new Outcome(Kind.NOT_DONE, null, null, reason);
    }

    static Outcome mayBeDone(String reason) {
        return new Outcome(Kind.MAY_BE_DONE, null, null, reason);
    }

    static Outcome rejected(HoldfastException error) {
        return new Outcome(Kind.REJECTED, null, error, error.getMessage());
    }

    /** Classifies an answer by its meaning for the call. */
    static Outcome of(String base, Response response) {
        if (response.isSuccess()) {
            return new Outcome(Kind.SUCCESS, response, null, null);
        }
        Json body = bodyOf(response);
        Problem problem = Problem.read(response, body);
        if (problem == null) {
            String reason = base + " answered " + response.status() + " without a problem document";
            return response.status() >= 500 ? mayBeDone(reason) : rejected(new UnexpectedResponseException(reason));
        }
        String reason = base + ": " + problem.code() + ": " + problem.title();
        if (BUSY.contains(problem.code())) {
            return rejected(new BusyException(problem, body));
        } else if (problem.code().equals(Codes.SESSION_EXPIRED)) {
            return rejected(new LostException(Loss.SESSION_ENDED));
        } else if (UNKNOWN.contains(problem.code())) {
            return mayBeDone(reason);
        } else if (problem.retryable()) {
            return notDone(reason);
        }
        return rejected(new RejectedException(problem, body));
    }

    private static Json bodyOf(Response response) {
        try {
            return Json.parse(response.body());
        } catch (IllegalArgumentException e) {
            return Json.parse("null");
        }
    }
}
