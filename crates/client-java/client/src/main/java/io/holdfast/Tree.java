package io.holdfast;

import java.util.Optional;

/** The tree of znodes. A version counts the changes of one znode. */
public final class Tree {
    private final Holdfast client;

    Tree(Holdfast client) {
        this.client = client;
    }

    /**
     * The data of a znode.
     *
     * @param data the data
     * @param version the number of changes
     */
    public record Znode(byte[] data, long version) {}

    private static Call.Target target(String path) {
        String relative = path.startsWith("/") ? path.substring(1) : path;
        return Call.Target.of("/v1/tree/", Names.path("the path", relative, 1_023));
    }

    /**
     * Reads a znode.
     *
     * @param path the path, e.g. {@code /shop/config}
     * @return the data, if the znode exists
     */
    public Optional<Znode> get(String path) {
        Delivery read = client.calls().send(Call.get(target(path).toString()));
        if (read.error() != null && read.error().hasCode(Codes.NOT_FOUND)) {
            return Optional.empty();
        }
        Response response = read.orThrow();
        String tag = response.header("ETag");
        if (tag == null || !tag.matches("\"[0-9]{1,18}\"")) {
            throw new UnexpectedResponseException("a znode without a version");
        }
        return Optional.of(new Znode(response.body(), Long.parseLong(tag.replace("\"", ""))));
    }

    /**
     * Creates a znode with its missing parents, or replaces its data.
     *
     * @param path the path
     * @param data the data
     * @return the new version
     */
    public long put(String path, byte[] data) {
        return put(path, data, null);
    }

    /**
     * Replaces the data of one version.
     *
     * @param path the path
     * @param data the data
     * @param version the version that the caller read
     * @return the new version
     * @throws RejectedException with {@code version-mismatch} if the znode has another version
     */
    public long putIf(String path, byte[] data, long version) {
        return put(path, data, version);
    }

    private long put(String path, byte[] data, Long version) {
        Delivery stored = client.once(
                "PUT",
                () -> target(path).with(Parameter.PARENTS, version == null ? "true" : null),
                call -> ifMatch(call.with(data), version));
        return stored.expectingNumbers("version").json().numberOr("version", 0);
    }

    /**
     * Deletes a znode without children.
     *
     * @param path the path
     */
    public void delete(String path) {
        client.once("DELETE", () -> target(path)).expectingEnd().orThrow();
    }

    /**
     * Deletes one version of a znode without children.
     *
     * @param path the path
     * @param version the version that the caller read
     * @throws RejectedException with {@code version-mismatch} if the znode has another version
     */
    public void deleteIf(String path, long version) {
        client.once("DELETE", () -> target(path), call -> ifMatch(call, version)).expectingEnd().orThrow();
    }

    private static Call ifMatch(Call call, Long version) {
        return version == null ? call : call.with("If-Match", "\"" + version + "\"");
    }

    /**
     * Watches the paths that begin with a text. The listener misses no change after this call.
     *
     * @param prefix e.g. {@code /shop/}
     * @param listener gets the changes
     * @return closing it ends the watch
     */
    public Watch watch(String prefix, Watch.Listener listener) {
        return Watch.after(client, Parameter.PREFIX, prefix, change ->
                change == null ? listener::missed : () -> listener.changed(change));
    }
}
