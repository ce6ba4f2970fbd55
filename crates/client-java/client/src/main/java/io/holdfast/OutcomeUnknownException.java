package io.holdfast;

/**
 * The call may have taken effect. Repeat it; an acquire gives its possible hold up by itself. Before a repeated
 * {@link Holdfast#forceRelease(String, String)} or release request without a token, read the lock.
 */
public final class OutcomeUnknownException extends HoldfastException {
    OutcomeUnknownException(String reason) {
        super("the outcome of the call is unknown: " + reason, null);
    }

    @Override
    public boolean retryable() {
        return true;
    }

    @Override
    boolean isUncertain() {
        return true;
    }
}
