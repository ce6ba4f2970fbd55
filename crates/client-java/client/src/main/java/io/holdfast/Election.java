package io.holdfast;

import java.time.Duration;
import java.util.Optional;
import java.util.function.Consumer;

/** An election: candidates with a value, of which one leads. It is the lock {@code elections/NAME}. */
public final class Election {
    private final Holdfast client;
    private final String name;
    private final LockRequest lock;

    Election(Holdfast client, String name) {
        this(client, name, client.lock("elections/" + name));
    }

    private Election(Holdfast client, String name, LockRequest lock) {
        this.client = client;
        this.name = name;
        this.lock = lock;
    }

    /**
     * The leader of an election.
     *
     * @param session the session
     * @param token the fencing token
     * @param value the published text; may be null
     */
    public record Leader(String session, long token, String value) {
        static Leader read(Json body) {
            return body.isNull() ? null : new Leader(body.text("session"), body.numberOr("token", 0), body.text("value"));
        }
    }

    /**
     * Bounds {@link #campaign}; without this call it waits without bound.
     *
     * @param wait the maximum wait
     * @return the election
     */
    public Election waitAtMost(Duration wait) {
        return new Election(client, name, lock.waitAtMost(wait));
    }

    /**
     * How long a dead leader stays leader; by default the client's ttl.
     *
     * @param ttl from 1 s to 24 h
     * @return the election
     */
    public Election ttl(Duration ttl) {
        return new Election(client, name, lock.ttl(ttl));
    }

    /**
     * Campaigns with a value that every client can read, and returns when this candidate leads. The guard is the
     * leadership: closing it resigns. An interrupt withdraws the candidate.
     *
     * @param value e.g. an address
     * @return the leadership
     * @throws InterruptedException if the thread is interrupted while it waits
     * @throws BusyException if this candidate was not elected in time
     */
    public Guard campaign(String value) throws InterruptedException {
        LockRequest candidate = value == null || value.isEmpty() ? lock : lock.value(value);
        return candidate.acquire();
    }

    /**
     * Reads the leader.
     *
     * @return the leader, if there is one
     */
    public Optional<Leader> leader() {
        return Optional.ofNullable(Leader.read(read().get("leader")));
    }

    private Json read() {
        Delivery read = client.calls().send(Call.get(Call.Target.of("/v1/elections/", name).toString()));
        return read.expecting(body -> body.text("election") != null).json();
    }

    /**
     * Observes the leader: the listener gets the present leader first, then each later one, in a thread of the client.
     * Leaders that follow each other within one round trip may be left out; the latest is always delivered.
     * A value that the leader replaces is delivered within 30 s.
     *
     * @param listener gets the leader, or nothing while there is none
     * @return closing it ends the observation
     */
    public Watch observe(Consumer<Optional<Leader>> listener) {
        Observation observation = new Observation(listener);
        return Watch.withStateReadAgain(
                client, Parameter.PATH, "/locks/elections/" + name, change -> observation.read());
    }

    /** Delivers each different leader once. */
    private final class Observation {
        private final Consumer<Optional<Leader>> listener;
        private Optional<Leader> last;

        Observation(Consumer<Optional<Leader>> listener) {
            this.listener = listener;
        }

        /** Returns the call of the listener. Used by the thread of the watch alone. */
        Runnable read() {
            Optional<Leader> now = leader();
            if (now.equals(last)) {
                return () -> { };
            }
            last = now;
            return () -> listener.accept(now);
        }
    }
}
