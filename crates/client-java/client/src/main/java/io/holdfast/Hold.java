package io.holdfast;

import java.util.concurrent.atomic.AtomicBoolean;

/** A hold of one lock by this client: its session, its queue entry, and the latest grant. */
final class Hold {
    final Session session;
    final QueueEntry entry;
    /** A conversion may change the token. */
    volatile Grant grant;
    private final AtomicBoolean isInUse = new AtomicBoolean(true);

    /** The hold is a user of the session until {@link #endUse}. */
    Hold(Session session, QueueEntry entry, Grant grant) {
        this.session = session;
        this.entry = entry;
        this.grant = grant;
        session.addUser();
    }

    void endUse() {
        if (isInUse.compareAndSet(true, false)) {
            session.removeUser();
        }
    }

    boolean isReleased() {
        return !isInUse.get();
    }

    /** Throws the loss, also after the release. */
    void ensure() {
        Loss loss = session.lossOf(entry);
        if (loss == null && isReleased()) {
            loss = Loss.RELEASED_ELSEWHERE;
        }
        if (loss != null) {
            throw new LostException(loss);
        }
    }
}
