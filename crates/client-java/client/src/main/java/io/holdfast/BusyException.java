package io.holdfast;

import java.util.Map;
import java.util.stream.Collectors;

/** Another caller holds the lock, or an event has not happened. Wait, or try again later. */
public final class BusyException extends HoldfastException {
    private final transient LockState.Holder holder;
    private final long waiters;

    BusyException(Problem problem, Json body) {
        super(text(problem, body), problem);
        Json found = body.get("holder");
        this.holder = found.isNull() ? null : LockState.Holder.read(found);
        this.waiters = body.numberOr("waiters", 0);
    }

    /**
     * The holder of the lock.
     *
     * @return the holder, or null if the lock has none
     */
    public LockState.Holder holder() {
        return holder;
    }

    /**
     * The length of the queue.
     *
     * @return the number of waiters
     */
    public long waiters() {
        return waiters;
    }

    @Override
    public boolean retryable() {
        return true;
    }

    private static String text(Problem problem, Json body) {
        String lock = body.text("lock");
        Json holder = body.get("holder");
        String text = lock == null || holder.isNull() ? problem.sentence() : heldText(lock, holder);
        long waiters = body.numberOr("waiters", 0);
        String queue = waiters == 0 ? "" : waiters == 1 ? ", 1 waiter" : ", " + waiters + " waiters";
        Long waited = body.number("waited_ms");
        String start = hasTimedOut(problem, waited) ? "timed out after " + seconds(waited) + ": " : "";
        return start + text + queue;
    }

    private static boolean hasTimedOut(Problem problem, Long waited) {
        return waited != null && problem.code().equals(Codes.WAIT_TIMEOUT);
    }

    /** E.g. {@code lock "orders" is held by session "web3-77" (host=web3) for 2.1s}. */
    private static String heldText(String lock, Json holder) {
        Map<String, String> labels = holder.texts("labels");
        String shown = labels.entrySet().stream()
                .map(label -> label.getKey() + "=" + label.getValue())
                .collect(Collectors.joining(" ", " (", ")"));
        return "lock \"" + lock + "\" is held by session \"" + holder.text("session") + "\""
                + (labels.isEmpty() ? "" : shown) + " for " + seconds(holder.numberOr("held_for_ms", 0));
    }

    private static String seconds(long millis) {
        return millis % 1_000 == 0 ? millis / 1_000 + "s" : millis / 1e3 + "s";
    }
}
