package io.holdfast;

import java.util.Map;
import java.util.Set;

/**
 * The outcome of one request at one node.
 *
 * @param kind what the outcome means for the call
 * @param response the answer of a success
 * @param error the error of a rejection
 * @param reason why the request failed
 * @param retryAfter the time in which the call must not be repeated
 */
record Outcome(Kind kind, Response response, HoldfastException error, String reason, RetryAfter retryAfter) {
    /** What a request without success means for the call. */
    enum Kind {
        SUCCESS,
        /** Another node would return the same. */
        REJECTED,
        /** The node certainly did not execute the request. */
        NOT_DONE,
        /** Another server answered in the place of a node. It may have passed the request on to one. */
        FOREIGN,
        MAY_BE_DONE
    }

    /**
     * The time in which a call must not be repeated, from the header {@code Retry-After}.
     *
     * @param nanos the time
     * @param isOfCaller whether the limit is one of the caller, so no node must get the call; otherwise it is one node
     */
    record RetryAfter(long nanos, boolean isOfCaller) {
        private static final RetryAfter NONE = new RetryAfter(0, false);
        /** Limits the header: a proxy must not delay a release for hours. Nodes send at most 5 s. */
        private static final long SECONDS_MAX = 60;

        /** The beginning of the fact {@code bound} for a quota of the caller, which each node counts for the call. */
        private static final String CALLS_PER_SECOND = "calls_per_second";

        private static RetryAfter of(Response response, Json problem) {
            String text = response.header("Retry-After");
            boolean isRefusal = response.status() == 429 || response.status() == 503;
            if (!isRefusal || text == null || !text.matches("[0-9]+")) {
                return NONE;
            }
            long seconds = text.length() > 2 ? SECONDS_MAX : Math.min(SECONDS_MAX, Long.parseLong(text));
            boolean isOfCaller = problem.textOr("bound", "").startsWith(CALLS_PER_SECOND);
            return new RetryAfter(seconds * 1_000 * Clock.MILLI, isOfCaller);
        }
    }

    private static final Set<String> BUSY = Set.of(Codes.LOCK_BUSY, Codes.LOCK_IN_COOLDOWN, Codes.WAIT_TIMEOUT, Codes.NOT_YET);
    private static final Set<String> UNKNOWN = Set.of(Codes.OUTCOME_UNKNOWN, Codes.INTERNAL);

    static Outcome notDone(String reason) {
        return notDone(reason, RetryAfter.NONE);
    }

    private static Outcome notDone(String reason, RetryAfter retryAfter) {
        return new Outcome(Kind.NOT_DONE, null, null, reason, retryAfter);
    }

    static Outcome mayBeDone(String reason) {
        return mayBeDone(reason, RetryAfter.NONE);
    }

    private static Outcome mayBeDone(String reason, RetryAfter retryAfter) {
        return new Outcome(Kind.MAY_BE_DONE, null, null, reason, retryAfter);
    }

    static Outcome rejected(HoldfastException error) {
        return new Outcome(Kind.REJECTED, null, error, error.getMessage(), RetryAfter.NONE);
    }

    /** Classifies an answer by its meaning for the call. */
    static Outcome of(String base, Response response) {
        if (response.isSuccess()) {
            return isOfNode(response)
                    ? new Outcome(Kind.SUCCESS, response, null, null, RetryAfter.NONE)
                    : foreign(base + " answered " + response.status() + " without the fields of a node");
        }
        Json body = bodyOf(response);
        RetryAfter retryAfter = RetryAfter.of(response, body);
        Problem problem = Problem.read(response, body);
        if (problem == null) {
            String reason = base + " answered " + response.status() + " without a problem document";
            if (response.status() >= 500) {
                return mayBeDone(reason, retryAfter);
            }
            return namesNode(response) ? rejected(new UnexpectedResponseException(reason)) : foreign(reason);
        }
        String reason = base + ": " + problem.code() + ": " + problem.title();
        if (BUSY.contains(problem.code())) {
            return rejected(new BusyException(problem, body));
        } else if (problem.code().equals(Codes.SESSION_EXPIRED)) {
            return rejected(new LostException(Loss.SESSION_ENDED));
        } else if (UNKNOWN.contains(problem.code())) {
            return mayBeDone(reason, retryAfter);
        } else if (problem.retryable()) {
            return notDone(reason, retryAfter);
        }
        return rejected(new RejectedException(problem, body));
    }

    private static Outcome foreign(String reason) {
        return new Outcome(Kind.FOREIGN, null, null, reason, RetryAfter.NONE);
    }

    /**
     * Whether a successful answer is from a node, which answers with its id, with fields or with 204. Another server, e.g. a
     * proxy, may answer with a page or with {@code {}}.
     */
    private static boolean isOfNode(Response response) {
        return namesNode(response) || response.status() == 204
                || bodyOf(response).value() instanceof Map<?, ?> fields && !fields.isEmpty();
    }

    private static boolean namesNode(Response response) {
        return response.header("Holdfast-Node") != null;
    }

    private static Json bodyOf(Response response) {
        try {
            return Json.parse(response.body());
        } catch (IllegalArgumentException e) {
            return Json.parse("null");
        }
    }
}
