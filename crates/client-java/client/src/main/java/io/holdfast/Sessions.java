package io.holdfast;

import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.locks.ReentrantLock;

/**
 * The sessions of one client: one for each time-to-live that its locks name, opened on first use. A generated session
 * that has ended is replaced; one that the caller named never is, because the caller must see its end.
 */
final class Sessions {
    private static final int SESSIONS_MAX = 64;

    private final Session.Client client;
    private final String named;
    private final String prefix;
    private final Duration ttl;
    private final Map<String, String> labels;
    private final ReentrantLock lock = new ReentrantLock();
    private final Map<Duration, Session> open = new HashMap<>();
    private boolean isClosed;

    Sessions(Session.Client client, String named, String prefix, Duration ttl, Map<String, String> labels) {
        this.client = client;
        this.named = named;
        this.prefix = prefix;
        this.ttl = ttl;
        this.labels = labels;
    }

    /** Returns the live session for this time-to-live, with one user more; null is the client's. */
    Session use(Duration requested) {
        try {
            return use(requested, false);
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    /** As {@link #use(Duration)}. With {@code isInterruptible}, an interrupt ends the call that opens the session. */
    Session use(Duration requested, boolean isInterruptible) throws InterruptedException {
        Duration wanted = requested == null ? ttl : Names.ttl(requested);
        if (named != null && requested != null && !requested.equals(ttl)) {
            throw new InvalidArgumentException("set the ttl of the session " + named + " on the client, not on a lock");
        }
        // Locked during the call, so that concurrent threads share the session.
        if (isInterruptible) {
            lock.lockInterruptibly();
        } else {
            lock.lock();
        }
        try {
            if (isClosed) {
                throw new InvalidArgumentException("the client is closed");
            }
            Session session = open.get(wanted);
            if (session == null || !session.isAlive()) {
                session = replace(wanted, session, isInterruptible);
            }
            session.addUser();
            return session;
        } finally {
            lock.unlock();
        }
    }

    private Session replace(Duration wanted, Session ended, boolean isInterruptible) throws InterruptedException {
        if (ended == null && open.size() >= SESSIONS_MAX) {
            throw new InvalidArgumentException("one client has at most " + SESSIONS_MAX + " different ttls of locks");
        }
        if (ended != null && named != null) {
            throw new LostException(ended.loss());
        }
        Session session = openAnother(wanted, isInterruptible);
        open.put(wanted, session);
        if (ended != null) {
            ended.abandon();
        }
        return session;
    }

    private Session openAnother(Duration wanted, boolean isInterruptible) throws InterruptedException {
        String name = named == null ? Numbers.unique(prefix) : named;
        try {
            return Session.open(client, name, named == null, wanted, labels, isInterruptible);
        } catch (OutcomeUnknownException e) {
            // At worst a session without locks is open; the call that needs it was not sent.
            throw new UnavailableException("no session was opened: " + e.getMessage());
        }
    }

    /**
     * Closes generated sessions. Stops the use of named sessions, whose holds stay in the cluster. Throws the first error,
     * after all sessions.
     */
    void close() {
        Map<Duration, Session> all;
        lock.lock();
        try {
            isClosed = true;
            all = new HashMap<>(open);
            open.clear();
        } finally {
            lock.unlock();
        }
        List<HoldfastException> errors = all.values().stream().map(Sessions::close).filter(Objects::nonNull).toList();
        if (!errors.isEmpty()) {
            throw errors.get(0);
        }
    }

    /** Returns the error if the end of the session is not confirmed, or null. */
    private static HoldfastException close(Session session) {
        session.abandon();
        boolean isToClose = session.isOwn && session.isAlive();
        if (!session.isOwn) {
            // Its waits leave nothing in the cluster. If no node answers, the entries end with the session.
            session.settle();
        }
        // The caller closes the holds, so the log and the metrics have no loss. Only the guards report it.
        List<QueueEntry> held = session.entries.held().stream()
                .filter(entry -> session.lossOf(entry) == null && !entry.isLossReported.getAndSet(true))
                .toList();
        session.end(Loss.SESSION_ENDED);
        held.forEach(entry -> session.background.run(() -> entry.lost.complete(Loss.SESSION_ENDED)));
        session.pending.stop();
        session.finish();
        HoldfastException error = isToClose ? session.close() : null;
        return error instanceof LostException ? null : error;
    }
}
