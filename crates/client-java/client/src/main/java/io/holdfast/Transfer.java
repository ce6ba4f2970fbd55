package io.holdfast;

import java.time.Duration;
import java.util.List;
import java.util.Objects;

/**
 * Transfers of a hold from one session to another: the sender's side and the receiver's side.
 *
 * <p>The sender ends its hold first: from then on, each check of the guard reports the loss. The cluster may give the
 * lock to the receiver at any time after that. If the cluster certainly rejects the call, the hold continues.
 */
final class Transfer {
    /** The maximum time of one call that waits for a change of the lock: then the session is checked. */
    private static final long WAIT = 20_000 * Clock.MILLI;

    private Transfer() {}

    /** Returns the token of the receiver. */
    static long send(Hold hold, String to, String toOwner) {
        Names.path("the session name", to, 512);
        QueueEntry entry = hold.entry;
        entry.changeTurn.acquireUninterruptibly();
        try {
            hold.ensure();
            if (hold.session.entries.isShared(entry)) {
                throw new InvalidArgumentException("the lock was entered again: close the other guards first");
            }
            entry.isTransferred = true;
            entry.enter(QueueEntry.Stage.LEAVING);
            String target = Call.Target.of("/v1/transfers/", entry.lock)
                    .with(Parameter.SESSION, hold.session.name)
                    .with(Parameter.OWNER, entry.owner)
                    .with(Parameter.TOKEN, hold.grant().token())
                    .with(Parameter.TO, to)
                    .with(Parameter.TO_OWNER, toOwner)
                    .toString();
            Delivery delivery = hold.session.calls.send(Call.of("POST", target))
                    .expectingNumbers("token");
            return delivery.error() == null ? sent(hold, delivery) : failed(hold, to, delivery);
        } finally {
            entry.changeTurn.release();
        }
    }

    private static long sent(Hold hold, Delivery delivery) {
        hold.session.forget(List.of(hold.entry));
        hold.endUse();
        return delivery.json().numberOr("token", 0);
    }

    private static long failed(Hold hold, String to, Delivery delivery) {
        HoldfastException error = delivery.error();
        if (isKept(hold.session, delivery)) {
            hold.entry.isTransferred = false;
            hold.entry.hold(hold.grant().token());
            hold.session.changed.fire();
            throw error instanceof LostException
                    ? new InvalidArgumentException("the session " + to + " is not open: the receiver opens it first")
                    : error;
        }
        hold.session.releaseInBackground(List.of(hold.entry));
        hold.endUse();
        throw reason(delivery, error);
    }

    /** Whether the cluster certainly rejected the transfer, and the hold continues. */
    private static boolean isKept(Session session, Delivery delivery) {
        HoldfastException error = delivery.error();
        if (!delivery.isCertainlyRejected()) {
            return false;
        }
        if (!(error instanceof LostException)) {
            return !error.hasCode(Codes.NOT_HOLDER);
        }
        // One of the two sessions has ended; a renewal shows whether it is this one.
        String renewal = Call.Target.of("/v1/sessions/", session.name) + "/keepalive";
        long left = Clock.left(session.lease().deadline(), session.clock.nanos());
        Delivery renewed = session.calls.withTimeout(left, null).send(Call.of("POST", renewal).harmless());
        return renewed.expectingList("holds").error() == null;
    }

    private static HoldfastException reason(Delivery delivery, HoldfastException error) {
        // An earlier copy of the call may have succeeded, and the receiver's session may have ended since.
        boolean isRejected = error instanceof RejectedException || error instanceof LostException;
        if (delivery.inDoubt() && isRejected) {
            return new OutcomeUnknownException(error.getMessage());
        }
        return error.hasCode(Codes.NOT_HOLDER) ? new LostException(Loss.RELEASED_ELSEWHERE) : error;
    }

    /** Waits for a hold that another session transfers to the session of this client. Never acquires the lock. */
    static List<Hold> receive(Holdfast client, String lock, LockOptions options) throws InterruptedException {
        Clock clock = client.clock();
        long until = options.wait == null ? Long.MAX_VALUE : Clock.plus(clock.nanos(), Acquire.nanos(options.wait));
        LockOptions received = options.received();
        Session session = client.sessions().use(received.ttl, true);
        try {
            while (true) {
                if (Thread.interrupted()) {
                    throw new InterruptedException();
                }
                LockState state = client.lockState(lock);
                long token = heldToken(state, session, received.owner);
                List<Hold> adopted = token == 0 ? null : adopt(session, lock, token, received);
                if (adopted != null) {
                    return adopted;
                }
                long wait = Math.min(WAIT, Clock.left(until, clock.nanos()));
                if (wait < Clock.MILLI) {
                    throw notTransferred(lock);
                }
                awaitChange(session, lock, state.revision(), wait);
            }
        } finally {
            session.removeUser();
        }
    }

    /**
     * Returns the transferred hold that had this token, or null if the session no longer has it. The call is a change that
     * keeps mode and value, so no copy of it acquires the lock. Without a certain answer, the hold is released.
     */
    private static List<Hold> adopt(Session session, String lock, long token, LockOptions options) {
        if (session.entries.hasOwner(lock, options.owner)) {
            throw new InvalidArgumentException("this program has a guard of " + lock + " already");
        }
        QueueEntry entry = new QueueEntry(lock, options.owner, QueueEntry.TRANSFERRED, false);
        entry.state.set(new QueueEntry.State(QueueEntry.Stage.WAITING, token));
        session.add(List.of(entry));
        Delivery delivery = HoldChange.once(session, entry, target -> target);
        try {
            Json grant = delivery.json();
            long countedFrom = session.acknowledgeGrant(grant, delivery.sent());
            Mode mode = Mode.of(grant.text("mode"));
            session.metrics.acquired(lock, Duration.ZERO);
            return List.of(Hold.of(session, entry, grant, mode, options, countedFrom));
        } catch (HoldfastException e) {
            boolean isGone = HoldChange.isGone(e);
            if (isGone || delivery.isCertainlyRejected()) {
                session.forget(List.of(entry));
            } else {
                session.releaseInBackground(List.of(entry));
            }
            if (isGone) {
                return null;
            }
            session.metrics.acquireFailed(lock, e);
            throw e;
        }
    }

    /** Returns the token of the owner's hold, or 0 if there is none. */
    private static long heldToken(LockState state, Session session, String owner) {
        return state.holders().stream()
                .filter(holder -> session.name.equals(holder.session()) && Objects.equals(owner, holder.owner()))
                .mapToLong(LockState.Holder::token)
                .findFirst()
                .orElse(0);
    }

    /** Waits for a change of the lock after a revision. */
    private static void awaitChange(Session session, String lock, long since, long wait) throws InterruptedException {
        String target = new Call.Target("/v1/watch")
                .with(Parameter.PATH, "/locks/" + lock)
                .with(Parameter.SINCE, since)
                .waiting(wait)
                .toString();
        Stop stop = new Stop();
        HoldfastException error;
        try (Pending.Work receive = session.pending.stoppable(stop)) {
            error = session.calls.deliver(Call.get(target).waiting(wait), stop).expectingNumbers("revision").error();
            if (error != null) {
                stop.await(Math.min(wait, Clock.left(error.retryAt, session.clock.nanos())));
            }
        }
        session.throwIfEnding();
        // Without the changes since this revision, the caller reads the lock again.
        if (error != null && !error.isUncertain() && !error.hasCode(Codes.REVISION_COMPACTED)) {
            throw error;
        }
    }

    private static BusyException notTransferred(String lock) {
        String title = "no transfer of the lock has arrived";
        Problem problem = new Problem(Codes.NOT_YET, title, "", null, true, 423, null);
        return new BusyException(problem, Json.parse("{\"lock\":" + Json.quoted(lock) + "}"));
    }
}
