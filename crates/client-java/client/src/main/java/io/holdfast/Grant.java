package io.holdfast;

import java.util.List;

/**
 * What the cluster granted.
 *
 * @param token the fencing token
 * @param minValidToken the smallest token of the lock that was still valid at the grant
 * @param mode the mode of this guard
 * @param permits the permits of a semaphore; 1 for other locks
 * @param slots the slot of each permit
 * @param shard the number of the shard; null unless the lock is sharded
 */
record Grant(long token, long minValidToken, Mode mode, int permits, List<Integer> slots, Integer shard) {
    /** Whether an answer grants the lock of an entry. A hold without a token would be no hold. */
    static boolean isOf(QueueEntry entry, Json body) {
        String lock = body.text("lock");
        return lock != null && entry.covers(lock) && body.numberOr("token", 0) > 0;
    }

    /** Another guard of the owner may have a stronger mode, so the mode is the requested one. */
    static Grant read(Json body, Mode mode) {
        Long shard = body.number("shard");
        List<Integer> slots = body.list("slots").stream().map(slot -> ((Long) slot.value()).intValue()).toList();
        return new Grant(
                body.numberOr("token", 0),
                body.numberOr("min_valid_token", 0),
                mode,
                (int) body.numberOr("permits", 1),
                slots,
                shard == null ? null : shard.intValue());
    }

    Grant withPermits(int left) {
        return new Grant(token, minValidToken, mode, left, slots.subList(0, Math.min(left, slots.size())), shard);
    }

    Grant withToken(long other) {
        return new Grant(other, minValidToken, mode, permits, slots, shard);
    }

    Grant withMode(Mode other) {
        return new Grant(token, minValidToken, other, permits, slots, shard);
    }

    Grant withShard(Integer of) {
        return new Grant(token, minValidToken, mode, permits, slots, of);
    }
}
