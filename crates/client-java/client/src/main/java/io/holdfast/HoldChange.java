package io.holdfast;

import java.time.Duration;
import java.util.concurrent.TimeUnit;
import java.util.function.UnaryOperator;

/**
 * A change of a held lock without releasing it, usually of its mode. Each call names the attempt that it changes and has a larger
 * number, so a late copy of any call converts nothing. While the mode is unknown the entry is CONVERTING, so that its
 * new token does not look like a loss. An upgrade that ends early restores the old mode, in the background if necessary.
 */
final class HoldChange {
    /** The pause after an answer that is not from a node. */
    private static final long PAUSE = 500 * Clock.MILLI;

    private final Hold hold;
    private final QueueEntry entry;
    private final Session session;
    /** Each call of the change has a larger number. */
    private long newest;
    /** Whether the fallback in the background has the turn, and releases it. */
    private boolean isFallingBack;

    HoldChange(Hold hold) {
        this.hold = hold;
        this.entry = hold.entry;
        this.session = hold.session;
        this.newest = hold.entry.attempt;
    }

    long upgrade(Duration wait) throws InterruptedException {
        hold.ensure();
        long until = Clock.plus(session.clock.nanos(), Acquire.nanos(wait));
        long turnWithin = Math.max(Acquire.nanos(wait), session.calls.timeout);
        if (!entry.changeTurn.tryAcquire(turnWithin, TimeUnit.NANOSECONDS)) {
            throw new UnavailableException("an earlier change of the mode is not over");
        }
        try {
            hold.ensure();
            return hold.grant().mode() == Mode.EXCLUSIVE ? hold.grant().token() : upgradeUntil(until);
        } finally {
            if (!isFallingBack) {
                entry.changeTurn.release();
            }
        }
    }

    private long upgradeUntil(long until) throws InterruptedException {
        Mode before = hold.grant().mode();
        entry.enter(QueueEntry.Stage.CONVERTING);
        boolean isSettled = false;
        Pending.Work upgrade = session.pending.begin();
        try {
            for (int renumbered = 0; ; ) {
                long wait = Math.min(Calls.WAIT_MAX, Clock.left(until, session.clock.nanos()));
                wait -= wait % Clock.MILLI;
                Delivery delivery = deliver(Mode.EXCLUSIVE, wait);
                HoldfastException error = delivery.error();
                if (error == null && Mode.of(delivery.json().text("mode")) == Mode.EXCLUSIVE) {
                    isSettled = true;
                    return completed(Mode.EXCLUSIVE, delivery);
                }
                boolean isTransient = error != null && (error.isUncertain() || error instanceof BusyException);
                if (isTransient && wait >= Clock.MILLI && hasTime(until, error.retryAt)) {
                    awaitRetry(error.retryAt);
                    continue;
                }
                // Another call of the session had a larger number, so this one changed nothing.
                boolean isOld = error == null || error.newest(Codes.ATTEMPT_OVER) >= 0;
                if (isOld && renumbered++ == 0) {
                    continue;
                }
                isSettled = !delivery.inDoubt() && (error instanceof BusyException || error instanceof RejectedException);
                throw ended(error);
            }
        } finally {
            if (isSettled) {
                restoreStage();
            } else {
                fallBackInBackground(before);
            }
            upgrade.close();
        }
    }

    private boolean hasTime(long until, long at) {
        return Clock.left(until, Math.max(at, session.clock.nanos())) >= Clock.MILLI;
    }

    /** Waits until the nodes accept the call again, or the hold is lost. */
    void awaitRetry(long at) throws InterruptedException {
        Stop stop = entry.begin();
        // A loss that came before stops nothing.
        hold.ensure();
        session.throwIfEnding();
        try (Pending.Work pause = session.pending.stoppable(stop)) {
            stop.await(Clock.left(at, session.clock.nanos()));
        }
    }

    private HoldfastException ended(HoldfastException error) {
        if (error == null) {
            return new UnavailableException("the lock kept its mode");
        }
        return isGone(error) ? gone() : error;
    }

    static boolean isGone(HoldfastException error) {
        return error.hasCode(Codes.NOT_HOLDER) || error.hasCode(Codes.ATTEMPT_OVER);
    }

    private LostException gone() {
        session.lose(entry, Loss.RELEASED_ELSEWHERE);
        return new LostException(Loss.RELEASED_ELSEWHERE);
    }

    /** The cluster changed nothing, or the change is complete. */
    private void restoreStage() {
        entry.state.updateAndGet(now -> now.stage() == QueueEntry.Stage.CONVERTING
                ? new QueueEntry.State(QueueEntry.Stage.HELD, now.token()) : now);
    }

    void downgrade(Mode to) {
        hold.ensure();
        entry.changeTurn.acquireUninterruptibly();
        try {
            hold.ensure();
            Mode from = hold.grant().mode();
            if (to.isStrongerThan(from)) {
                throw new InvalidArgumentException(to.word() + " is not weaker than " + from.word() + ": use upgrade()");
            }
            entry.enter(QueueEntry.Stage.CONVERTING);
            completeFallback(to);
        } finally {
            entry.changeTurn.release();
        }
    }

    /** Replaces the min_hold, which counts from the grant, so that it ends {@code time} from now. */
    void minHold(Duration time) {
        hold.ensure();
        entry.changeTurn.acquireUninterruptibly();
        try {
            long held = session.clock.nanos() - hold.grantedFrom;
            Duration min = Duration.ofNanos(held + Acquire.nanos(time) + Clock.MILLI);
            HoldfastException error = once(session, entry, target -> target.with(Parameter.MIN_HOLD, min)).error();
            if (error != null) {
                throw isGone(error) ? gone() : error;
            }
        } finally {
            entry.changeTurn.release();
        }
    }

    /** Keeps the turn until the fallback is complete: a later upgrade must not be undone. */
    private void fallBackInBackground(Mode mode) {
        if (session.lossOf(entry) != null) {
            return;
        }
        session.inBackground(() -> {
            try {
                completeFallback(mode);
            } catch (HoldfastException e) {
                // The hold reports the result.
            } finally {
                entry.changeTurn.release();
            }
        });
        isFallingBack = true;
    }

    /** Requests a mode until the cluster confirms it. Throws the rejection of the cluster, which ends no hold. */
    private void completeFallback(Mode mode) {
        int renumbered = 0;
        boolean inDoubt = false;
        while (true) {
            hold.ensure();
            boolean wasClosing = session.pending.isClosing();
            Delivery delivery = checked(entry, session.checked(session.calls.send(call(mode, 0))));
            if (entry.stage() == QueueEntry.Stage.LEAVING) {
                throw new LostException(Loss.RELEASED_ELSEWHERE);
            }
            HoldfastException error = delivery.error();
            if (error == null) {
                completed(mode, delivery);
                return;
            }
            hold.ensure();
            long named = error.newest(Codes.ATTEMPT_OVER);
            newest = Math.max(newest, named);
            boolean isFromNode = !(error instanceof UnexpectedResponseException);
            boolean mayRepeat = error.isUncertain() || !isFromNode || named >= 0 && renumbered++ == 0;
            inDoubt |= delivery.inDoubt() || error.isUnclear();
            if (!mayRepeat && isGone(error)) {
                throw gone();
            } else if (!mayRepeat) {
                // An earlier call may have made the hold weaker.
                if (inDoubt) {
                    hold.changeGrant(grant -> grant.withMode(mode));
                }
                restoreStage();
                throw error;
            }
            session.pause(isFromNode ? Clock.left(error.retryAt, session.clock.nanos()) : PAUSE, wasClosing);
        }
    }

    private Delivery deliver(Mode mode, long wait) throws InterruptedException {
        boolean isGrantedElsewhere = false;
        Call call = call(mode, wait);
        while (true) {
            Stop stop = entry.begin();
            // A loss that came before stops nothing.
            hold.ensure();
            session.throwIfEnding();
            Delivery delivery;
            try (Pending.Work upgrade = session.pending.stoppable(stop)) {
                delivery = session.checked(session.calls.deliverAcquire(call, isGrantedElsewhere, stop));
            }
            if (!delivery.isStopped()) {
                newest = delivery.error() == null ? newest : Math.max(newest, delivery.error().newest(Codes.ATTEMPT_OVER));
                return checked(entry, delivery);
            }
            isGrantedElsewhere = true;
        }
    }

    private Call call(Mode mode, long wait) {
        String target = changeTarget(wait).with(Parameter.MODE, mode.word()).toString();
        return Call.of("PUT", target).harmless().waiting(wait);
    }

    private Call.Target changeTarget(long wait) {
        newest = Numbers.next(newest);
        return target(session, entry, newest).waiting(wait);
    }

    /** A change of the entry's hold, which never acquires the lock. Each change has a larger number. */
    private static Call.Target target(Session session, QueueEntry entry, long number) {
        return Call.Target.of("/v1/locks/", entry.lock)
                .with(Parameter.SESSION, session.name)
                .with(Parameter.INCARNATION, session.incarnation)
                .with(Parameter.OWNER, entry.owner)
                .with(Parameter.ATTEMPT, number)
                .with(Parameter.CHANGE, entry.attempt);
    }

    /** Changes a hold. Takes a larger number once if another program of the session has one. */
    static Delivery once(Session session, QueueEntry entry, UnaryOperator<Call.Target> change) {
        long newest = 0;
        for (int renumbered = 0; ; renumbered++) {
            String target = change.apply(target(session, entry, Numbers.next(newest))).toString();
            Delivery delivery = session.checked(session.calls.send(Call.of("PUT", target).harmless()));
            newest = delivery.error() == null ? -1 : delivery.error().newest(Codes.ATTEMPT_OVER);
            if (newest < 0 || renumbered > 0) {
                return checked(entry, delivery);
            }
        }
    }

    private static Delivery checked(QueueEntry entry, Delivery delivery) {
        return delivery.expecting(body -> Grant.isOf(entry, body));
    }

    private long completed(Mode mode, Delivery delivery) {
        Json body = delivery.json();
        hold.endBy(body, session.acknowledgeGrant(body, delivery.sent()));
        session.entries.followUpgrade(body);
        long token = hold.changeGrant(before -> Grant.read(body, mode).withShard(before.shard())).token();
        entry.state.updateAndGet(now -> now.stage() == QueueEntry.Stage.LEAVING
                ? now : new QueueEntry.State(QueueEntry.Stage.HELD, token));
        return token;
    }
}
