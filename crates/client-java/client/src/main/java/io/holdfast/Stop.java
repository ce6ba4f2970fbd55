package io.holdfast;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** Ends a call of another thread, which then returns {@link Delivery#stopped}. Used for one call. */
final class Stop {
    /** Why a call was stopped. */
    enum Reason {
        /** The session is over, or the hold is lost. */
        LOST,
        /** A renewal listed the lock as held: the node that has the call is behind or frozen. */
        GRANTED_ELSEWHERE,
        /** The caller no longer needs the call. */
        NOT_NEEDED
    }

    private final CompletableFuture<Reason> reason = new CompletableFuture<>();

    void fire(Reason why) {
        reason.complete(why);
    }

    /** The reason; null before {@link #fire}. */
    Reason reason() {
        return reason.getNow(null);
    }

    /** Returns after {@code nanos}, or when this has fired. */
    void await(long nanos) throws InterruptedException {
        try {
            reason.get(nanos, TimeUnit.NANOSECONDS);
        } catch (TimeoutException | ExecutionException e) {
            // No reason to stop came in the time.
        }
    }

    void whenFired(Runnable action) {
        reason.thenRun(action);
    }
}
