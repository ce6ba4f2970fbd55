package io.holdfast;

/** No node executed the call in time. Repeat the call. */
public final class UnavailableException extends HoldfastException {
    final String reason;

    UnavailableException(String reason) {
        super("no node executed the call in time: " + reason, null);
        this.reason = reason;
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
