package io.holdfast;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Consumer;

/**
 * Delivers the events of a session's locks to the guards, and compares the guards with the holds that each renewal
 * lists. A guard without a listed hold is lost. A listed hold for which an acquire waits makes the acquire repeat its
 * call at another node. A listed hold without an entry, e.g. of a late copy of a call, is released.
 *
 * <p>Reads of locks run beside the renewal, which neither many locks nor a slow cluster may delay. Bounds: for each
 * purpose and hold, one read is queued.
 */
final class SessionEvents {
    /** A read of one lock may take this fraction of the lease. */
    private static final int READ_PART = 8;
    /** A hold without a guard is examined after this time: its answer may still be in flight. */
    private static final long EXAMINE_DELAY = 500 * Clock.MILLI;

    /**
     * A hold of a guard, according to this client.
     *
     * @param entry the entry
     * @param token the token that it had
     */
    record KnownHold(QueueEntry entry, long token) {}

    /** A hold of a guard that a renewal did not list. */
    private record Unlisted(KnownHold hold) {}

    /** A hold of the session without a guard. */
    private static final class Unguarded {
        final String lock;
        final long token;
        long examineAt;

        Unguarded(String lock, long token, long examineAt) {
            this.lock = lock;
            this.token = token;
            this.examineAt = examineAt;
        }

        boolean is(String otherLock, long otherToken) {
            return lock.equals(otherLock) && token == otherToken;
        }
    }

    private final Session session;
    private final List<Unguarded> unguarded = new ArrayList<>();
    /** What the reads that have not begun are for. */
    private final Set<Object> queued = ConcurrentHashMap.newKeySet();

    SessionEvents(Session session) {
        this.session = session;
    }

    List<KnownHold> knownHolds() {
        return session.entries.held().stream().map(entry -> new KnownHold(entry, entry.token())).toList();
    }

    /** The time until the next examination. */
    long nextExamination(long now) {
        return unguarded.stream().mapToLong(hold -> Clock.left(hold.examineAt, now)).min().orElse(Long.MAX_VALUE);
    }

    /** Delivers the answer to a parked keepalive, whose times count from {@code countedFrom}. */
    void deliver(List<KnownHold> known, Json body, long held, long countedFrom) {
        // An event names the token that the hold had before or after an upgrade in the same answer.
        body.list("holds").forEach(session.entries::followUpgrade);
        body.list("events").forEach(event -> deliver(known, event, countedFrom));
        if (!body.get("gap").isNull()) {
            known.forEach(hold -> readBeside(hold, held, calls -> readReleaseRequest(calls, hold.entry)));
        }
        reconcile(known, body.list("holds"), held);
    }

    /** Begins a read in another thread, at the latest when those before it have ended. It ends with the session. */
    private void readBeside(Object purpose, long held, Consumer<Calls> read) {
        if (!queued.add(purpose)) {
            return;
        }
        Stop stop = new Stop();
        Pending.Work work = session.pending.stoppable(stop);
        Calls calls = session.calls.withTimeout(Math.min(session.calls.timeout, held / READ_PART), stop);
        session.background.read(() -> {
            queued.remove(purpose);
            try (work) {
                if (session.ending() == null) {
                    read.accept(calls);
                }
            }
        });
    }

    private void deliver(List<KnownHold> known, Json event, long countedFrom) {
        String kind = event.textOr("kind", "");
        boolean isRequest = kind.equals("release-requested");
        if (!isRequest && !kind.equals("lost")) {
            return;
        }
        long token = event.numberOr("token", 0);
        for (QueueEntry entry : session.entries.all()) {
            // The ticket names the hold under each token.
            boolean isHold = event.numberOr("ticket", 0) != 0 ? entry.isOf(event)
                    : entry.covers(event.text("lock")) && (entry.holds(token) || known.contains(new KnownHold(entry, token)));
            isHold &= entry.stage() != QueueEntry.Stage.LEAVING;
            if (isHold && isRequest) {
                session.requestRelease(entry, ReleaseRequest.read(event), countedFrom);
            } else if (isHold && entry.stage() == QueueEntry.Stage.HELD) {
                // A guard with a release or a conversion in progress gets the result from the call that changes it.
                session.lose(entry, lossOf(entry, event));
            }
        }
    }

    static Loss lossOf(QueueEntry entry, Json event) {
        return switch (event.textOr("cause", "")) {
            case "force-released" -> new Loss(Loss.Cause.FORCE_RELEASED, event.text("reason"));
            case "revoked" -> {
                ReleaseRequest request = entry.releaseRequest.get();
                yield new Loss(Loss.Cause.REVOKED, request == null ? null : request.reason());
            }
            case "handed-over" -> Loss.TRANSFERRED;
            case "session-closed", "session-expired" -> Loss.SESSION_ENDED;
            case "max-hold" -> new Loss(Loss.Cause.MAX_HOLD_EXCEEDED, null);
            default -> Loss.RELEASED_ELSEWHERE;
        };
    }

    /** Compares the holds of the guards with those that the cluster lists. {@code held} is the length of the lease. */
    void reconcile(List<KnownHold> known, List<Json> listed, long held) {
        Set<String> keys = new HashSet<>();
        listed.forEach(session.entries::followUpgrade);
        listed.forEach(hold -> keys.add(key(hold.text("lock"), hold.numberOr("token", 0))));
        for (KnownHold hold : known) {
            boolean isListed = keys.contains(key(hold.entry.lock, hold.token));
            if (!isListed && isHeldHere(hold)) {
                readBeside(new Unlisted(hold), held, calls -> verify(calls, hold));
            }
        }
        unguarded.removeIf(hold -> !keys.contains(key(hold.lock, hold.token)));
        listed.forEach(hold -> examine(hold, held));
    }

    private static String key(String lock, long token) {
        return token + " " + lock;
    }

    private boolean isHeldHere(KnownHold hold) {
        QueueEntry.State now = hold.entry.state.get();
        return now.stage() == QueueEntry.Stage.HELD && now.token() == hold.token && session.lossOf(hold.entry) == null;
    }

    private void examine(Json hold, long held) {
        String lock = hold.text("lock");
        long token = hold.numberOr("token", 0);
        // An upgrade without an answer waits for the new token, even if other guards have it.
        List<QueueEntry> upgrading = session.entries.upgrading(hold);
        boolean isGuarded = upgrading.isEmpty() && !session.entries.ofHold(lock, token).isEmpty();
        List<QueueEntry> waiting = upgrading.isEmpty() ? session.entries.awaiting(lock) : upgrading;
        // Other clients may use a session that the caller named.
        boolean isOurs = !isGuarded && (!waiting.isEmpty() || session.isOwn);
        if (!isExaminationDue(lock, token, isOurs, held / 3)) {
            return;
        }
        if (waiting.isEmpty()) {
            readBeside(key(lock, token), held, calls -> releaseStray(calls, lock, token));
        } else {
            waiting.forEach(entry -> entry.stop(Stop.Reason.GRANTED_ELSEWHERE));
        }
    }

    /** Whether a hold without a guard has been listed for long enough. */
    private boolean isExaminationDue(String lock, long token, boolean isOurs, long againAfter) {
        if (!isOurs) {
            unguarded.removeIf(hold -> hold.is(lock, token));
            return false;
        }
        long now = session.clock.nanos();
        for (Unguarded hold : unguarded) {
            if (hold.is(lock, token)) {
                boolean isDue = now >= hold.examineAt;
                hold.examineAt = isDue ? now + againAfter : hold.examineAt;
                return isDue;
            }
        }
        unguarded.add(new Unguarded(lock, token, now + EXAMINE_DELAY));
        return false;
    }

    /** Reads an open release request after a gap in the events. */
    private void readReleaseRequest(Calls calls, QueueEntry entry) {
        ReleaseRequest earlier = entry.releaseRequest.get();
        Delivery read = calls.read(entry.lock);
        Json holder = holderIn(read, entry.token());
        if (holder == null || holder.get("release_request").isNull()) {
            return;
        }
        ReleaseRequest request = ReleaseRequest.read(holder.get("release_request"));
        // An event may have brought a later request.
        boolean isLatest = entry.releaseRequest.get() == earlier && entry.stage() != QueueEntry.Stage.LEAVING;
        if (isLatest && (earlier == null || !earlier.isSame(request))) {
            session.requestRelease(entry, request, read.sent());
        }
    }

    /** Reads the lock of a hold that a renewal did not list: the node that renewed may be behind the grant. */
    private void verify(Calls calls, KnownHold hold) {
        if (isHeldHere(hold) && !isHolder(calls, hold.entry.lock, hold.token) && isHeldHere(hold)) {
            session.lose(hold.entry, Loss.RELEASED_ELSEWHERE);
        }
    }

    /** Whether the session holds the lock under this token. If no node answers, the lease decides. */
    private boolean isHolder(Calls calls, String lock, long token) {
        Delivery read = calls.read(lock);
        if (read.response() == null || holderIn(read, token) != null) {
            return true;
        }
        Json body = read.json();
        if (body.numberOr("holders_total", 0) <= body.list("holders").size()) {
            return false;
        }
        // A node lists only the first of many holders, so the token identifies the hold.
        String fence = Call.Target.of("/v1/fence/", lock).with(Parameter.TOKEN, token).toString();
        HoldfastException error = calls.send(Call.get(fence)).error();
        return error == null || !error.hasCode(Codes.STALE_TOKEN);
    }

    /** The holder with this token, or null. */
    private Json holderIn(Delivery read, long token) {
        return read.response() == null ? null : read.json().list("holders").stream()
                .filter(holder -> Objects.equals(holder.text("session"), session.name))
                .filter(holder -> holder.numberOr("token", 0) == token)
                .findFirst()
                .orElse(null);
    }

    /** Releases a hold without a guard of a generated session, if its owner was generated for a guard. */
    private void releaseStray(Calls calls, String lock, long token) {
        Json holder = holderIn(calls.read(lock), token);
        String owner = holder == null ? null : holder.text("owner");
        boolean isStray = owner != null
                && owner.startsWith("g-")
                && session.entries.ofHold(lock, token).isEmpty()
                && !session.entries.hasOwner(lock, owner);
        if (isStray) {
            // If no node answers, the next examination finds the hold again.
            calls.send(Call.of("DELETE", Call.Target.of("/v1/locks/", lock)
                    .with(Parameter.SESSION, session.name)
                    .with(Parameter.OWNER, owner)
                    .with(Parameter.TOKEN, token)
                    .toString()).harmless());
        }
    }
}
