package io.holdfast;

import java.util.concurrent.atomic.AtomicBoolean;

/** The session of a client, which is renewed until {@link #close}. A sender needs its name to transfer a lock to it. */
public final class OpenSession implements AutoCloseable {
    private final Session session;
    private final AtomicBoolean isInUse = new AtomicBoolean(true);

    OpenSession(Session session) {
        this.session = session;
    }

    /**
     * The name of the session.
     *
     * @return the name
     */
    public String name() {
        return session.name;
    }

    /**
     * Checks that the session certainly lives.
     *
     * @throws LostException if it has ended
     */
    public void ensure() {
        Loss loss = session.loss();
        if (loss != null) {
            throw new LostException(loss);
        }
    }

    /** Ends this use of the session, which guards of the client may still use. */
    @Override
    public void close() {
        if (isInUse.compareAndSet(true, false)) {
            session.removeUser();
        }
    }
}
