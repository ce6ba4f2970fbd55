package io.holdfast;

/** The base of all errors of the client. The subclasses, which are all, differ by what the caller may do next. */
public abstract sealed class HoldfastException extends RuntimeException
        permits BusyException,
                LostException,
                UnavailableException,
                OutcomeUnknownException,
                RejectedException,
                UnexpectedResponseException,
                InvalidArgumentException,
                StaleTokenException {
    private final transient Problem problem;
    /** When the call may be sent again, on the clock of the client: nodes may have sent the header Retry-After. */
    transient long retryAt = Long.MIN_VALUE / 2;

    HoldfastException(String message, Problem problem) {
        super(message);
        this.problem = problem;
    }

    /**
     * The problem document that a node sent.
     *
     * @return the document, or null if no node sent one
     */
    public Problem problem() {
        return problem;
    }

    /**
     * The stable code of the problem.
     *
     * @return e.g. {@code lock-busy}, or null without a problem document
     */
    public String code() {
        return problem == null ? null : problem.code();
    }

    /**
     * The server's advice, which names HTTP parameters.
     *
     * @return the advice, or null
     */
    public String hint() {
        return problem == null ? null : problem.hint();
    }

    /**
     * The id of the call in the log of the node.
     *
     * @return the id, or null
     */
    public String requestId() {
        return problem == null ? null : problem.requestId();
    }

    /**
     * Whether the same call may succeed later and is safe to repeat.
     *
     * @return true for {@link BusyException}, {@link UnavailableException} and {@link OutcomeUnknownException}
     */
    public boolean retryable() {
        return false;
    }

    /** Whether the call may succeed later, or may have taken effect. */
    boolean isUncertain() {
        return false;
    }

    /**
     * Whether no node certainly rejected the call that failed: it is uncertain, or another server answered it. The client
     * then repeats the call, or gives up what the call may have left.
     */
    boolean isUnclear() {
        return isUncertain() || this instanceof UnexpectedResponseException;
    }

    boolean hasCode(String code) {
        return code.equals(code());
    }

    /** A number that the cluster names because the number of the call is over; -1 for other errors. */
    long newest(String code) {
        return -1;
    }
}
