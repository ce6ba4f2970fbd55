package io.holdfast;

import java.util.List;
import java.util.Map;

/**
 * Holders and queue of a lock.
 *
 * @param lock the name
 * @param holders the holders
 * @param waiters the number of waiters
 * @param revision the revision of the answer
 */
public record LockState(String lock, List<Holder> holders, long waiters, long revision) {
    /**
     * A holder of a lock.
     *
     * @param session the session
     * @param owner the owner within the session; null if the caller named none
     * @param token the fencing token
     * @param mode the mode of the hold
     * @param permits the permits of a semaphore; 1 for other locks
     * @param labels the labels of the session
     * @param value the text that the caller set; may be null
     * @param heldForMillis the age of the hold
     */
    public record Holder(
            String session,
            String owner,
            long token,
            Mode mode,
            int permits,
            Map<String, String> labels,
            String value,
            long heldForMillis) {

        static Holder read(Json body) {
            return new Holder(
                    body.text("session"),
                    body.text("owner"),
                    body.numberOr("token", 0),
                    Mode.of(body.text("mode")),
                    (int) body.numberOr("permits", 1),
                    body.texts("labels"),
                    body.text("value"),
                    body.numberOr("held_for_ms", 0));
        }
    }

    static LockState read(Json body) {
        return new LockState(
                body.text("lock"),
                body.list("holders").stream().map(Holder::read).toList(),
                body.numberOr("waiters", 0),
                body.numberOr("revision", 0));
    }
}
