package io.holdfast;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;
import java.util.function.LongConsumer;
import java.util.function.UnaryOperator;

/**
 * The client's entry in the queue of one lock: waiting, held, or about to be released. The guard and the threads of its
 * session share it. Each guard has an owner and an attempt, so it releases only its hold.
 */
final class QueueEntry {
    /** The attempt of a hold that no attempt of this client acquired. */
    static final long TRANSFERRED = 0;

    /** The stage of an entry. */
    enum Stage {
        WAITING,
        HELD,
        /** Held, with a pending conversion, which may change the token. */
        CONVERTING,
        /** Being released; the cluster may not have the release yet. */
        LEAVING
    }

    /**
     * Stage and token change together.
     *
     * @param stage the stage
     * @param token the token of the latest hold, or of the one to adopt; 0 before the first grant
     */
    record State(Stage stage, long token) {}

    /** The name of the lock; of a sharded lock, the shard {@code stock/3} once it is granted. */
    volatile String lock;
    /** Null stands for the session itself. */
    final String owner;
    /** {@link #TRANSFERRED} for a hold that another session transferred. */
    volatile long attempt;
    /** Whether a shard of the lock will be granted. */
    private volatile boolean isAnyShard;
    /** Set before the call that transfers the hold. */
    volatile boolean isTransferred;
    final AtomicReference<State> state = new AtomicReference<>(new State(Stage.WAITING, 0));
    private final AtomicReference<HoldLimits> limits = new AtomicReference<>(HoldLimits.none());
    /** Stops the call of this entry that is in progress. */
    private final AtomicReference<Stop> stop = new AtomicReference<>();
    /** The number of the hold, which an upgrade keeps; 0 before the grant. */
    volatile long ticket;
    /** Called with the new token when another guard or program of the owner has upgraded the hold. */
    volatile LongConsumer onUpgraded = token -> { };
    /** Completed in the background, so that a slow listener delays nothing. */
    final CompletableFuture<Loss> lost = new CompletableFuture<>();
    final AtomicReference<ReleaseRequest> releaseRequest = new AtomicReference<>();
    final CopyOnWriteArrayList<Consumer<ReleaseRequest>> releaseListeners = new CopyOnWriteArrayList<>();
    /** The turn to change the hold. The thread that takes it may leave the release to a background task. */
    final Semaphore changeTurn = new Semaphore(1);
    /** Whether the loss was reported to the listeners. */
    final AtomicBoolean isLossReported = new AtomicBoolean();

    QueueEntry(String lock, String owner, long attempt, boolean isSharded) {
        this.lock = lock;
        this.isAnyShard = isSharded;
        this.owner = owner;
        this.attempt = attempt;
    }

    void grantedAs(String granted) {
        if (isAnyShard) {
            lock = granted;
            isAnyShard = false;
        }
    }

    /** Whether the entry is for a lock, or may be granted as the lock. */
    boolean covers(String other) {
        if (lock.equals(other) || !isAnyShard) {
            return lock.equals(other);
        }
        int end = other.lastIndexOf('/');
        return end > 0 && lock.equals(other.substring(0, end));
    }

    Stage stage() {
        return state.get().stage;
    }

    long token() {
        return state.get().token;
    }

    void enter(Stage stage) {
        state.updateAndGet(before -> new State(stage, before.token));
    }

    void hold(long token) {
        state.set(new State(Stage.HELD, token));
    }

    /** Whether the entry is a hold with this token. */
    boolean holds(long token) {
        State now = state.get();
        return now.token == token && (now.stage == Stage.HELD || now.stage == Stage.CONVERTING);
    }

    /** Whether the entry is of a granted or listed hold, under any token. */
    boolean isOf(Json hold) {
        String granted = hold.text("lock");
        return ticket != 0 && hold.numberOr("ticket", 0) == ticket && granted != null && covers(granted);
    }

    /** Whether a conversion of the entry waits for the token of a listed hold. */
    boolean isUpgradedTo(Json hold) {
        State now = state.get();
        return now.stage == Stage.CONVERTING && now.token < hold.numberOr("token", 0) && isOf(hold);
    }

    /** Continues a granted or listed hold under its token. */
    void followUpgrade(Json hold) {
        if (!isOf(hold)) {
            return;
        }
        long token = hold.numberOr("token", 0);
        State now = state.updateAndGet(before -> before.stage == Stage.HELD && before.token < token
                ? new State(Stage.HELD, token) : before);
        if (now.stage == Stage.HELD) {
            onUpgraded.accept(now.token);
        }
    }

    boolean awaitsGrant() {
        Stage now = stage();
        return now == Stage.WAITING || now == Stage.CONVERTING;
    }

    HoldLimits limits() {
        return limits.get();
    }

    void limit(UnaryOperator<HoldLimits> change) {
        limits.updateAndGet(change);
    }

    /** Returns a new stop for the next call of this entry. */
    Stop begin() {
        Stop next = new Stop();
        begin(next);
        return next;
    }

    /** The locks of a multi-lock have one call, and one stop. */
    void begin(Stop next) {
        stop.set(next);
    }

    void stop(Stop.Reason reason) {
        Stop current = stop.get();
        if (current != null) {
            current.fire(reason);
        }
    }
}
