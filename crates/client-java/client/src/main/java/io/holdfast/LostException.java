package io.holdfast;

/** The lock is lost: another session may hold it. Stop the work. */
public final class LostException extends HoldfastException {
    private final transient Loss loss;

    LostException(Loss loss) {
        super(loss.toString(), null);
        this.loss = loss;
    }

    /**
     * Why the lock was lost.
     *
     * @return the loss
     */
    public Loss loss() {
        return loss;
    }
}
