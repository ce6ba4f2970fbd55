package io.holdfast;

/** The store has accepted a larger fencing token: the writes of this holder are too late. Roll back, and stop the work. */
public final class StaleTokenException extends HoldfastException {
    StaleTokenException(String resource, long token) {
        super("the fencing token " + token + " for \"" + resource + "\" is stale: roll back, and acquire the lock again", null);
    }

    @Override
    public String code() {
        return Codes.STALE_TOKEN;
    }
}
