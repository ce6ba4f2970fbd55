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

    LockOptions copy() {
        try {
            return (LockOptions) clone();
        } catch (CloneNotSupportedException e) {
            throw new AssertionError(e);
        }
    }

    /** Adds the parameters that do not change during an acquire. */
    void addTo(Call.Target target) {
        target.with("mode", mode == null ? null : mode.word())
                .with("permits", permits)
                .with("limit", limit)
                .with("priority", priority)
                .with("queue_max", queueMax)
                .with("reentrant", reentrant)
                .with("max_hold", maxHold)
                .with("min_hold", minHold)
                .with("value", value);
    }
}
