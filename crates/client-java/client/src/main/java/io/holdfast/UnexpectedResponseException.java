package io.holdfast;

/** The answer is not from a holdfast node. Check the addresses. */
public final class UnexpectedResponseException extends HoldfastException {
    UnexpectedResponseException(String reason) {
        super("the answer is not from a holdfast node, check the address: " + reason, null);
    }
}
