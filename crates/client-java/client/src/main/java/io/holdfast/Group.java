package io.holdfast;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.Consumer;

/**
 * A group of members, each with a value. A membership is the ephemeral znode {@code /groups/GROUP/SESSION}, so it ends
 * with the session.
 */
public final class Group {
    private static final int PAGE = 1_000;

    private final Holdfast client;
    private final String directory;

    Group(Holdfast client, String name) {
        this.client = client;
        this.directory = "/groups/" + Names.recipe(name);
    }

    /**
     * Joins the group. The session of a client is a member at most once: joining again replaces the value.
     *
     * @param value a text such as an address
     * @return the membership; closing it leaves the group
     * @throws LostException if a session that the caller named has ended
     */
    public Membership join(String value) {
        return Membership.join(client.sessions().use(null), directory, value);
    }

    /**
     * Reads the members. Sends one call for each member.
     *
     * @return the value of each member by its session
     */
    public Map<String, String> members() {
        Map<String, String> members = new TreeMap<>();
        // A listed member may have left.
        sessions().forEach(session -> put(members, session));
        return members;
    }

    /**
     * Watches the members in a separate thread. Two quick changes may appear as one.
     *
     * @param listener gets the members, then the members after each change
     * @return closing it ends the watch
     */
    public Watch watch(Consumer<Map<String, String>> listener) {
        Members members = new Members(listener);
        return Watch.withState(client, Parameter.PREFIX, directory + "/", members::report);
    }

    /** The members after the last change of a watch; used by its thread alone. */
    private final class Members {
        private final Consumer<Map<String, String>> listener;
        private Map<String, String> present;

        Members(Consumer<Map<String, String>> listener) {
            this.listener = listener;
        }

        /** Returns the call of the listener after a change, or after a gap if the change is null. */
        Runnable report(Watch.Change change) {
            Map<String, String> members = change == null ? members() : after(change);
            if (members.equals(present)) {
                return () -> { };
            }
            present = members;
            return () -> listener.accept(Map.copyOf(members));
        }

        private Map<String, String> after(Watch.Change change) {
            Map<String, String> members = new TreeMap<>(present);
            String session = change.path().substring(directory.length() + 1);
            if (!session.contains("/")) {
                members.remove(session);
                if (!change.kind().equals("deleted")) {
                    put(members, session);
                }
            }
            return members;
        }
    }

    /** Puts the value of a session, if it is a member. */
    private void put(Map<String, String> members, String session) {
        String path = directory.substring(1) + "/" + session;
        Delivery read = client.calls().send(Call.get(Call.Target.of("/v1/tree/", path).toString()));
        if (read.error() != null && read.error().hasCode(Codes.NOT_FOUND)) {
            return;
        }
        Response response = read.orThrow();
        String kind = response.header("Holdfast-Kind");
        if (kind == null) {
            throw new UnexpectedResponseException("a znode without a kind");
        } else if (kind.equals("ephemeral")) {
            members.put(session, new String(response.body(), StandardCharsets.UTF_8));
        }
    }

    /** The ephemeral children. Other children are directories of groups with longer names. */
    private List<String> sessions() {
        List<String> sessions = new ArrayList<>();
        String token = null;
        do {
            Call.Target page = Call.Target.of("/v1/tree/", directory.substring(1))
                    .with(Parameter.CHILDREN, true)
                    .with(Parameter.LIMIT, PAGE)
                    .with(Parameter.PAGE_TOKEN, token);
            Delivery read = client.calls().send(Call.get(page.toString()));
            if (read.error() != null && read.error().hasCode(Codes.NOT_FOUND)) {
                return sessions;
            }
            Json body = read.expectingList("children").json();
            body.list("children").stream()
                    .filter(child -> child.textOr("kind", "").equals("ephemeral"))
                    .forEach(child -> sessions.add(child.text("name")));
            token = body.text("next_page_token");
        } while (token != null);
        return sessions;
    }
}
