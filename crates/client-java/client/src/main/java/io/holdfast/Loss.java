package io.holdfast;

/**
 * Why a held lock was lost. In every case, stop the work under the lock.
 *
 * @param cause the cause
 * @param reason the reason of an operator or the error of the last renewal; null if there is none
 */
public record Loss(Cause cause, String reason) {
    /** The causes of a loss. */
    public enum Cause {
        /** No renewal was acknowledged in time. A process that was paused for too long gets this loss, too. */
        NOT_RENEWED("not-renewed", "no renewal was acknowledged before the deadline"),
        /** The cluster ended the session, or the client closed it. */
        SESSION_ENDED("session-ended", "the session has ended"),
        /** The session is open but no longer holds the lock: another call of the session released it. */
        RELEASED_ELSEWHERE("released-elsewhere", "the session no longer holds the lock"),
        /** An operator force-released the lock. */
        FORCE_RELEASED("force-released", "an operator force-released the lock"),
        /** The holder did not release the lock by the deadline of a release request. */
        REVOKED("revoked", "the lock was not released by the deadline of a release request"),
        /** The lock was transferred to another session. */
        TRANSFERRED("transferred", "the lock was transferred to another session"),
        /** No progress was reported within the progress timeout: the client released the lock. */
        STALLED("stalled", "no progress was reported in time, so the lock was released"),
        /** The maximum hold time has passed: the client released the lock. */
        MAX_HOLD_EXCEEDED("max-hold-exceeded", "the lock was held for its max_hold, and was released");

        private final String code;
        private final String sentence;

        Cause(String code, String sentence) {
            this.code = code;
            this.sentence = sentence;
        }

        /**
         * The cause as in every language of the client, e.g. {@code not-renewed}.
         *
         * @return the word
         */
        public String code() {
            return code;
        }

        /** Whether the client ended the hold while the cluster would keep it. */
        boolean isEndedByClient() {
            return this == STALLED || this == MAX_HOLD_EXCEEDED || this == REVOKED;
        }
    }

    static final Loss SESSION_ENDED = new Loss(Cause.SESSION_ENDED, null);
    static final Loss TRANSFERRED = new Loss(Cause.TRANSFERRED, null);
    static final Loss RELEASED_ELSEWHERE = new Loss(Cause.RELEASED_ELSEWHERE, null);

    @Override
    public String toString() {
        return reason == null ? cause.sentence : cause.sentence + ": " + reason;
    }
}
