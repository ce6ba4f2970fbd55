package io.holdfast;

/** A name or a duration is invalid; nothing was sent. Change it. */
public final class InvalidArgumentException extends HoldfastException {
    InvalidArgumentException(String reason) {
        super(reason, null);
    }
}
