// Written from /openapi.json: run the tests of tests/clients with HOLDFAST_REWRITE=1.
package io.holdfast;

/** The query parameters of the calls. */
enum Parameter {
    ACL("acl"),
    ADD("add"),
    ATTEMPT("attempt"),
    BYTES("bytes"),
    CHANGE("change"),
    CHILDREN("children"),
    CONTAINER("container"),
    COUNT("count"),
    DEADLINE("deadline"),
    ENQUEUE("enqueue"),
    EPHEMERAL("ephemeral"),
    FORCE("force"),
    GENERATION("generation"),
    HELD("held"),
    HOLD("hold"),
    INCARNATION("incarnation"),
    KEY("key"),
    LIMIT("limit"),
    MAX_HOLD("max_hold"),
    MIN_HOLD("min_hold"),
    MODE("mode"),
    NAME("name"),
    ON_DEATH("on_death"),
    OWNER("owner"),
    PAGE_TOKEN("page_token"),
    PARENTS("parents"),
    PARTIES("parties"),
    PATH("path"),
    PERMITS("permits"),
    PREFIX("prefix"),
    PRIORITY("priority"),
    QUEUE_MAX("queue_max"),
    REASON("reason"),
    RECURSIVE("recursive"),
    REDIRECT("redirect"),
    REENTRANT("reentrant"),
    REQUEST("request"),
    REVOKE("revoke"),
    SEQUENTIAL("sequential"),
    SESSION("session"),
    SHARD("shard"),
    SHARDS("shards"),
    SINCE("since"),
    SOFT_BYTES("soft_bytes"),
    SOFT_ZNODES("soft_znodes"),
    SORT("sort"),
    STALE("stale"),
    STAT("stat"),
    TICKET("ticket"),
    TOKEN("token"),
    TTL("ttl"),
    VALUE("value"),
    VERSION("version"),
    WAIT("wait"),
    WAITING("waiting"),
    ZNODES("znodes");

    final String word;

    Parameter(String word) {
        this.word = word;
    }
}
