package io.holdfast;

import java.time.Duration;

/** The options of an acquire; null is the default of the cluster. */
final class LockOptions implements Cloneable {
    /** Null waits without bound. */
    Duration wait;
    Duration ttl;
    Duration progressTimeout;
    Duration maxHold;
    Duration minHold;
    Mode mode;
    Integer permits;
    Integer limit;
    Integer priority;
    Integer queueMax;
    Boolean reentrant;
    /** Null generates an owner for each guard. */
    String owner;
    String value;
    Integer shards;
    Integer shard;

    LockOptions copy() {
        try {
            return (LockOptions) clone();
        } catch (CloneNotSupportedException e) {
            throw new AssertionError(e);
        }
    }

    /** Whether the request is for one shard of a sharded lock. */
    boolean isSharded() {
        return shards != null || shard != null;
    }

    /** The options of a hold that another session transfers. */
    LockOptions received() {
        LockOptions received = new LockOptions();
        received.owner = owner;
        received.ttl = ttl;
        received.progressTimeout = progressTimeout;
        return received;
    }

    /** Adds the parameters that do not change during an acquire. */
    void addTo(Call.Target target) {
        target.with(Parameter.MODE, mode == null ? null : mode.word())
                .with(Parameter.PERMITS, permits)
                .with(Parameter.LIMIT, limit)
                .with(Parameter.PRIORITY, priority)
                .with(Parameter.QUEUE_MAX, queueMax)
                .with(Parameter.REENTRANT, reentrant)
                .with(Parameter.MAX_HOLD, maxHold)
                .with(Parameter.MIN_HOLD, minHold)
                .with(Parameter.VALUE, value)
                .with(Parameter.SHARDS, shards)
                .with(Parameter.SHARD, shard);
    }
}
