package io.holdfast;

import java.util.Collection;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.CopyOnWriteArrayList;

/** The queue entries of one session. */
final class Entries {
    private final CopyOnWriteArrayList<QueueEntry> all = new CopyOnWriteArrayList<>();

    void add(Collection<QueueEntry> entries) {
        all.addAll(entries);
    }

    void remove(Collection<QueueEntry> entries) {
        entries.forEach(all::remove);
    }

    boolean isEmpty() {
        return all.isEmpty();
    }

    List<QueueEntry> all() {
        return List.copyOf(all);
    }

    List<QueueEntry> held() {
        return all.stream().filter(entry -> entry.stage() == QueueEntry.Stage.HELD).toList();
    }

    /** The entries of one hold. */
    List<QueueEntry> ofHold(String lock, long token) {
        return all.stream().filter(entry -> entry.holds(token) && entry.covers(lock)).toList();
    }

    /** Continues the guards of a granted or listed hold under its token. */
    void followUpgrade(Json hold) {
        all.forEach(entry -> entry.followUpgrade(hold));
    }

    /** The entries whose upgrade has no answer yet, although the hold is listed under its new token. */
    List<QueueEntry> upgrading(Json hold) {
        return all.stream().filter(entry -> entry.isUpgradedTo(hold)).toList();
    }

    /** The entries that wait for a grant of the lock, also by a conversion. */
    List<QueueEntry> awaiting(String lock) {
        return all.stream().filter(entry -> entry.covers(lock) && entry.awaitsGrant()).toList();
    }

    /** Whether the owner has an entry of the lock, in any stage. */
    boolean hasOwner(String lock, String owner) {
        return all.stream().anyMatch(entry -> entry.covers(lock) && Objects.equals(entry.owner, owner));
    }

    /** Whether another guard of this program has the same hold. */
    boolean isShared(QueueEntry entry) {
        return all.stream().anyMatch(other ->
                other != entry && other.covers(entry.lock) && Objects.equals(other.owner, entry.owner));
    }
}
