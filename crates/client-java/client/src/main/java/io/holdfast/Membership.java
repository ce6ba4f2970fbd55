package io.holdfast;

import java.nio.charset.StandardCharsets;
import java.util.concurrent.atomic.AtomicBoolean;

/** A membership of a group, which ends with its session. Closing it leaves the group. */
public final class Membership implements AutoCloseable {
    private final Session session;
    private final String path;
    private final AtomicBoolean isOver = new AtomicBoolean();

    /** The membership is a user of the session until it ends. */
    private Membership(Session session, String path) {
        this.session = session;
        this.path = path;
    }

    static Membership join(Session session, String directory, String value) {
        Membership membership = new Membership(session, directory + "/" + session.name);
        try {
            membership.write(value);
            return membership;
        } catch (HoldfastException e) {
            if (e.isUnclear()) {
                membership.deleteInBackground();
            }
            session.removeUser();
            throw e;
        }
    }

    /**
     * The session of the member.
     *
     * @return the name of the session
     */
    public String session() {
        return session.name;
    }

    /**
     * Checks that the session certainly lives. After a loss, join again.
     *
     * @throws LostException if the session has ended, or the member has left
     */
    public void ensure() {
        Loss loss = isOver.get() ? Loss.SESSION_ENDED : session.loss();
        if (loss != null) {
            throw new LostException(loss);
        }
    }

    /**
     * Replaces the value.
     *
     * @param value the text
     * @throws LostException if the session has ended, or the member has left
     */
    public void setValue(String value) {
        ensure();
        write(value);
    }

    /**
     * Leaves the group and waits for the confirmation; a second call does nothing. If no node answers, or another
     * server answers, the client continues in the background, or the membership ends with the session.
     *
     * @throws HoldfastException if the end is not confirmed
     */
    public void leave() {
        if (!isOver.compareAndSet(false, true)) {
            return;
        }
        HoldfastException error = session.isAlive() ? delete() : null;
        if (error != null && error.isUnclear()) {
            deleteInBackground();
        }
        session.removeUser();
        if (error != null) {
            throw error;
        }
    }

    private HoldfastException delete() {
        return change("\"then\":[{\"delete\":" + Json.quoted(path) + "}]").error();
    }

    private void deleteInBackground() {
        session.inBackground(() -> session.untilCertain(this::delete));
    }

    /** As {@link #leave}, but throws nothing if the end is only not confirmed yet. */
    @Override
    public void close() {
        try {
            leave();
        } catch (HoldfastException e) {
            if (!e.isUnclear()) {
                throw e;
            }
        }
    }

    /** Creates the znode or replaces its data. */
    private void write(String value) {
        String znode = Json.quoted(path) + ",\"data\":" + Json.quoted(value);
        String create = "{\"create\":" + znode + ",\"ephemeral\":true,\"parents\":true}";
        Json body = change("\"then\":[{\"set\":" + znode + "}],\"else\":[" + create + "]").json();
        boolean isMembership = body.list("results").stream()
                .allMatch(result -> result.get("stat").textOr("kind", "").equals("ephemeral"));
        if (!isMembership) {
            throw new InvalidArgumentException(path + " is not ephemeral, so it is not a membership");
        }
    }

    /** Sends a transaction of the session, which has no effect after the end of the session. */
    private Delivery change(String operations) {
        String exists = "{\"path\":" + Json.quoted(path) + ",\"exists\":true}";
        String named = "{\"session\":" + Json.quoted(session.name) + ",\"if\":[" + exists + "]," + operations;
        return session.numbered.send(request -> {
            byte[] body = (named + ",\"request\":" + request + "}").getBytes(StandardCharsets.UTF_8);
            return session.checked(session.calls.send(Call.of("POST", "/v1/txn").with(body).harmless()));
        }).expectingList("results");
    }
}
