package io.holdfast;

import java.time.Duration;
import java.util.function.LongFunction;

/** The calls of durable holds, which have no session, no renewal and no end of their time. */
final class DurableHold {
    private static final Duration WAIT_MAX = Duration.ofMinutes(5);

    private DurableHold() {}

    /**
     * Returns the token. A call without an answer is repeated with its attempt, which keeps the queue entry. A late copy
     * acquires nothing after the release, because the attempt is then over.
     */
    static long acquire(Holdfast client, String lock, String owner, String reason, Duration wait)
            throws InterruptedException {
        long nanos = Acquire.nanos(Names.between("the wait", wait, Duration.ZERO, WAIT_MAX));
        long until = Clock.plus(client.clock().nanos(), nanos);
        LongFunction<Call.Target> numbered =
                attempt -> target(lock, owner).with(Parameter.ATTEMPT, attempt).with(Parameter.REASON, reason);
        Delivery granted = send(client, numbered, Numbers.next(0), until);
        long newest = granted.error() == null ? -1 : granted.error().newest(Codes.ATTEMPT_OVER);
        if (newest >= 0) {
            // Another program of the owner has a clock that is ahead.
            granted = send(client, numbered, Numbers.next(newest), until);
        }
        if (granted.isStopped()) {
            throw new LostException(Loss.SESSION_ENDED);
        }
        return granted.expectingNumbers("token").json().numberOr("token", 0);
    }

    private static Delivery send(Holdfast client, LongFunction<Call.Target> numbered, long attempt, long until)
            throws InterruptedException {
        Stop stop = new Stop();
        try (Pending.Work acquire = client.waits().stoppable(stop)) {
            return client.calls().repeatUntil(until, () -> true, wait ->
                    Call.of("PUT", numbered.apply(attempt).waiting(wait).toString()).harmless(), stop);
        }
    }

    static void release(Calls calls, String lock, String owner, long token) {
        String target = target(lock, owner).with(Parameter.TOKEN, token).toString();
        calls.send(Call.of("DELETE", target).harmless()).expectingEnd().orThrow();
    }

    private static Call.Target target(String lock, String owner) {
        return Call.Target.of("/v1/locks/", Names.lock(lock)).with(Parameter.HOLD, "durable").with(Parameter.OWNER, owner);
    }
}
