package io.holdfast;

import java.time.Duration;

/** The calls of durable holds, which have no session, no renewal and no end of their time. */
final class DurableHold {
    private static final Duration WAIT_MAX = Duration.ofMinutes(5);

    private DurableHold() {}

    /** Returns the token. A late copy of the call acquires nothing after the release, because the attempt is then over. */
    static long acquire(Calls calls, String lock, String owner, String reason, Duration wait)
            throws InterruptedException {
        long nanos = Acquire.nanos(Names.between("the wait", wait, Duration.ZERO, WAIT_MAX));
        Delivery first = calls.deliver(call(lock, owner, reason, nanos, Numbers.next(0)), null);
        long newest = first.error() == null ? -1 : first.error().newest(Codes.ATTEMPT_OVER);
        // Another program of the owner has a clock that is ahead.
        Delivery granted = newest < 0
                ? first
                : calls.deliver(call(lock, owner, reason, nanos, Numbers.next(newest)), null);
        return granted.expectingNumbers("token").json().numberOr("token", 0);
    }

    private static Call call(String lock, String owner, String reason, long wait, long attempt) {
        Call.Target target = target(lock, owner)
                .with(Parameter.ATTEMPT, attempt)
                .with(Parameter.REASON, reason)
                .waiting(wait);
        return Call.of("PUT", target.toString()).harmless().waiting(wait);
    }

    static void release(Calls calls, String lock, String owner, long token) {
        String target = target(lock, owner).with(Parameter.TOKEN, token).toString();
        calls.send(Call.of("DELETE", target).harmless()).expectingEnd().orThrow();
    }

    private static Call.Target target(String lock, String owner) {
        return Call.Target.of("/v1/locks/", Names.lock(lock)).with(Parameter.HOLD, "durable").with(Parameter.OWNER, owner);
    }
}
