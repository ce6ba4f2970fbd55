// Written from /openapi.json: run the tests of tests/clients with HOLDFAST_REWRITE=1.
package io.holdfast;

/** The error codes of a cluster. {@code holdfast explain CODE} explains a code. */
public final class Codes {
    public static final String INVALID_ARGUMENT = "invalid-argument";
    public static final String BAD_DURATION = "bad-duration";
    public static final String BAD_NAME = "bad-name";
    public static final String UNAUTHENTICATED = "unauthenticated";
    public static final String TOKEN_EXPIRED = "token-expired";
    public static final String FORBIDDEN = "forbidden";
    public static final String FOREIGN_SITE = "foreign-site";
    public static final String HAS_ADMINISTRATOR = "has-administrator";
    public static final String LAST_ADMINISTRATOR = "last-administrator";
    public static final String NAMESPACE_IN_USE = "namespace-in-use";
    public static final String MEMBERSHIP_IN_PROGRESS = "membership-in-progress";
    public static final String MEMBERSHIP_UNSAFE = "membership-unsafe";
    public static final String LEVEL_TOO_LOW = "level-too-low";
    public static final String LEVEL_NOT_READY = "level-not-ready";
    public static final String QUOTA_EXCEEDED = "quota-exceeded";
    public static final String NOT_FOUND = "not-found";
    public static final String METHOD_NOT_ALLOWED = "method-not-allowed";
    public static final String NOT_HOLDER = "not-holder";
    public static final String ATTEMPT_OVER = "attempt-over";
    public static final String REQUEST_OVER = "request-over";
    public static final String REQUEST_MISMATCH = "request-mismatch";
    public static final String MODE_CONFLICT = "mode-conflict";
    public static final String VALUE_CONFLICT = "value-conflict";
    public static final String LIMIT_MISMATCH = "limit-mismatch";
    public static final String SHARDS_MISMATCH = "shards-mismatch";
    public static final String NOT_REENTRANT = "not-reentrant";
    public static final String IN_USE = "in-use";
    public static final String DEADLOCK = "deadlock";
    public static final String EPHEMERAL_PARENT = "ephemeral-parent";
    public static final String ZNODE_EXISTS = "znode-exists";
    public static final String NOT_EMPTY = "not-empty";
    public static final String SESSION_EXPIRED = "session-expired";
    public static final String REVISION_COMPACTED = "revision-compacted";
    public static final String STALE_TOKEN = "stale-token";
    public static final String COUNT_MISMATCH = "count-mismatch";
    public static final String BARRIER_BROKEN = "barrier-broken";
    public static final String COUNTER_OVERFLOW = "counter-overflow";
    public static final String VERSION_MISMATCH = "version-mismatch";
    public static final String PAYLOAD_TOO_LARGE = "payload-too-large";
    public static final String LOCK_BUSY = "lock-busy";
    public static final String LOCK_IN_COOLDOWN = "lock-in-cooldown";
    public static final String WAIT_TIMEOUT = "wait-timeout";
    public static final String NOT_YET = "not-yet";
    public static final String RATE_LIMITED = "rate-limited";
    public static final String TOO_MANY_WAITERS = "too-many-waiters";
    public static final String INTERNAL = "internal";
    public static final String NO_LEADER = "no-leader";
    public static final String OUTCOME_UNKNOWN = "outcome-unknown";
    public static final String SHUTTING_DOWN = "shutting-down";
    public static final String STARTING = "starting";
    public static final String DISK_FULL = "disk-full";
    public static final String SEALED = "sealed";

    private Codes() {}
}
