package io.holdfast;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.concurrent.CompletionStage;
import java.util.function.Consumer;

/**
 * A held lock, renewed in the background until it is closed or lost. Only a grant creates a guard, and a lost guard stays
 * lost: the client never acquires the lock again by itself.
 */
public final class Guard implements AutoCloseable {
    final Hold hold;

    Guard(List<Hold> holds) {
        this.hold = holds.get(0);
    }

    Guard(Hold hold) {
        this.hold = hold;
    }

    /**
     * The fencing token to send with every write under the lock. An upgrade replaces it in every guard of the hold.
     *
     * @return a positive number below 2^53, larger than every earlier token of the cluster
     */
    public long token() {
        return hold.grant().token();
    }

    /**
     * The floor for a store with shared holders: the smallest token that was still valid at the grant.
     *
     * @return the token
     */
    public long minValidToken() {
        return hold.grant().minValidToken();
    }

    /**
     * The name of the lock; of a sharded lock, the name of the shard: {@code stock/3}.
     *
     * @return the name
     */
    public String lock() {
        return hold.entry.lock;
    }

    /**
     * The session that holds the lock.
     *
     * @return the name of the session
     */
    public String session() {
        return hold.session.name;
    }

    /**
     * The mode of the hold.
     *
     * @return the mode
     */
    public Mode mode() {
        return hold.grant().mode();
    }

    /**
     * The permits of a semaphore.
     *
     * @return the number; 1 for other locks
     */
    public int permits() {
        return hold.grant().permits();
    }

    /**
     * A slot for each permit of a semaphore. No other holder has the same slot at the same time.
     *
     * @return numbers from 0 up to the limit
     */
    public List<Integer> slots() {
        return hold.grant().slots();
    }

    /**
     * The number of the shard.
     *
     * @return the number from 0; empty unless the lock is sharded
     */
    public OptionalInt shard() {
        Integer shard = hold.grant().shard();
        return shard == null ? OptionalInt.empty() : OptionalInt.of(shard);
    }

    /**
     * Checks that the lock is certainly still held, by the clock: call it right before each write.
     *
     * @throws LostException if the lock is lost or released
     */
    public void ensure() {
        hold.ensure();
    }

    /**
     * Whether the lock is certainly still held.
     *
     * @return false after the loss or the release
     */
    public boolean isHeld() {
        return hold.session.lossOf(hold.entry) == null && !hold.isReleased();
    }

    /**
     * The time until the deadline, which moves with every renewal.
     *
     * @return zero if the lock is lost or released
     */
    public Duration remaining() {
        long deadline = hold.session.deadlineOf(hold.entry);
        return isHeld() ? Duration.ofNanos(Clock.left(deadline, hold.session.clock.nanos())) : Duration.ZERO;
    }

    /**
     * Completes with the loss of the lock; never, if the lock is released first.
     *
     * @return a stage that is completed by a thread of the client
     */
    public CompletionStage<Loss> lost() {
        return hold.entry.lost.minimalCompletionStage();
    }

    /**
     * Calls a listener at the loss of the lock, in a thread of the client.
     *
     * @param listener gets the loss
     */
    public void onLost(Consumer<Loss> listener) {
        hold.entry.lost.thenAcceptAsync(listener, hold.session.background::run);
    }

    /** Interrupts the calling thread when the lock is lost before the release. */
    public void interruptOnLoss() {
        Thread worker = Thread.currentThread();
        onLost(loss -> {
            if (!hold.isReleased()) {
                worker.interrupt();
            }
        });
    }

    /**
     * The latest release request, if there is one. The hold continues: finish the work and close the guard.
     *
     * @return the request
     */
    public Optional<ReleaseRequest> releaseRequested() {
        return Optional.ofNullable(hold.entry.releaseRequest.get());
    }

    /**
     * Calls a listener for each release request, in a thread of the client; at once for one that has arrived.
     *
     * @param listener gets the request
     */
    public void onReleaseRequested(Consumer<ReleaseRequest> listener) {
        hold.entry.releaseListeners.add(listener);
        ReleaseRequest known = hold.entry.releaseRequest.get();
        if (known != null) {
            hold.session.background.run(() -> listener.accept(known));
        }
    }

    /**
     * Reports progress of the work, for a lock with {@link LockRequest#progressTimeout}.
     *
     * @throws LostException if the lock is lost: a late report does not restore it
     */
    public void reportProgress() {
        ensure();
        hold.entry.limit(limits -> limits.reportProgress(hold.session.clock.nanos()));
        ensure();
        hold.session.changed.fire();
    }

    /**
     * Ends the hold this long from now, unless a later call moves the end: the client then releases the lock with the
     * loss {@code max-hold-exceeded}. A process that dies frees the lock after its ttl.
     *
     * @param time the time from now; {@link LockRequest#maxHold} stays a bound
     * @throws LostException if the lock is lost
     */
    public void endAfter(Duration time) {
        hold.endAfter(Acquire.nanos(time));
    }

    /**
     * Blocks other holders for this long from now, even if the lock is released earlier. Replaces
     * {@link LockRequest#minHold}.
     *
     * @param time the time from now
     * @throws LostException if the lock is lost
     */
    public void blockOthersFor(Duration time) {
        new HoldChange(hold).minHold(time);
    }

    /**
     * The header that a fenced HTTP service expects with every call. A holder beside others also sends its floor. The
     * header has no resource if the name of the lock has other characters than printable ASCII, because HTTP libraries
     * reject them.
     *
     * @return e.g. {@code Fencing-Token: 34; resource="orders"}
     */
    public Map<String, String> headers() {
        Grant grant = hold.grant();
        return Map.of("Fencing-Token", fencingHeader(grant.token(), lock(), grant.minValidToken()));
    }

    static String fencingHeader(long token, String resource, long floor) {
        boolean isPlain = resource.chars().allMatch(c -> c >= ' ' && c <= '~');
        String quoted = '"' + resource.replace("\\", "\\\\").replace("\"", "\\\"") + '"';
        return token + (isPlain ? "; resource=" + quoted : "") + (floor == token ? "" : "; floor=" + floor);
    }

    /**
     * Becomes exclusive when the shared holders have left, ahead of the queue and with a <b>new token</b>.
     *
     * @param wait the maximum wait
     * @return the new token
     * @throws InterruptedException if the thread is interrupted while it waits; the guard is then still upgradable
     * @throws BusyException if the other holders did not leave in time; the guard is then still upgradable
     * @throws LostException if the lock is lost
     */
    public long upgrade(Duration wait) throws InterruptedException {
        return new HoldChange(hold).upgrade(wait);
    }

    /**
     * Changes to a weaker mode immediately, with the same token. Requests also the mode that the guard has: a rejected
     * downgrade may have left the cluster with a stronger one.
     *
     * @param to the mode
     * @throws InvalidArgumentException if the mode is stronger
     * @throws LostException if the lock is lost
     */
    public void downgrade(Mode to) {
        new HoldChange(hold).downgrade(to);
    }

    /**
     * Transfers the lock to another open session, as its owner {@code null}: the session itself.
     *
     * @param session the name of the session
     * @return the token of the receiver
     * @see #transfer(String, String)
     */
    public long transfer(String session) {
        return transfer(session, null);
    }

    /**
     * Transfers the lock to another open session, which holds it at once with a new token: no waiter is granted in
     * between. The receiver gets its guard from a waiting acquire of the owner, or from
     * {@link LockRequest#receiveTransfer}. Stop the work under the lock first: once the call starts, {@link #ensure}
     * throws. If the cluster certainly rejects the call, this guard still holds the lock.
     *
     * @param session the name of the session
     * @param owner the owner within that session; null is the session itself
     * @return the token of the receiver
     * @throws LostException if the lock is lost
     * @throws InvalidArgumentException if the session is not open, or another guard has the same hold
     * @throws OutcomeUnknownException if the receiver may have the lock: this guard is then lost
     */
    public long transfer(String session, String owner) {
        return Transfer.send(hold, session, owner);
    }

    /**
     * Gives back some permits of a semaphore, from the highest slot down, and keeps the others with the same token.
     *
     * @param permits less than all of them
     * @throws InvalidArgumentException if no permit would be left: close the guard instead
     */
    public void releasePermits(int permits) {
        ensure();
        int left = permits() - permits;
        if (left < 1 || permits < 1) {
            throw new InvalidArgumentException("a guard keeps at least one permit: close the guard to give back all");
        }
        Grant granted = hold.grant();
        Delivery released = hold.session.numbered.send(request -> {
            // The cluster may grant the other slots before its answer arrives.
            hold.changeGrant(grant -> grant.withPermits(left));
            Call call = Call.of("DELETE", Call.Target.of("/v1/locks/", lock())
                    .with(Parameter.SESSION, session())
                    .with(Parameter.OWNER, hold.entry.owner)
                    .with(Parameter.TOKEN, token())
                    .with(Parameter.PERMITS, permits)
                    .with(Parameter.REQUEST, request)
                    .toString()).harmless();
            return hold.session.checked(hold.session.calls.send(call));
        });
        if (released.error() != null && !released.inDoubt()) {
            hold.changeGrant(grant -> granted);
        }
        released.expectingEnd().orThrow();
    }

    /**
     * Releases the lock and waits for the confirmation; a second call does nothing. If the cluster cannot be reached, or
     * another server answers, the release continues in the background.
     *
     * @throws LostException if the lock was lost before
     * @throws HoldfastException if the release is not confirmed
     */
    public void release() {
        Release.of(List.of(hold), true);
    }

    /**
     * As {@link #release}, but throws nothing if the release is only not confirmed yet: the work was done under the lock.
     *
     * @throws LostException if the lock was lost before
     * @throws RejectedException if the cluster rejects the release: the lock may stay held
     */
    @Override
    public void close() {
        Release.of(List.of(hold), false);
    }

    @Override
    public String toString() {
        Loss loss = hold.session.lossOf(hold.entry);
        String state = loss != null ? "lost: " + loss : hold.isReleased() ? "released" : "held for " + remaining();
        return "Guard[lock " + lock() + ", session " + session() + ", " + state + "]";
    }
}
