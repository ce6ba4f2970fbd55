package io.holdfast;

import java.util.ArrayList;
import java.util.List;

/** Releases the holds of one guard. */
final class Release {
    private Release() {}

    /** Releases holds of one acquire. With {@code isStrict}, throws also if the release is not confirmed. */
    static void of(List<Hold> holds, boolean isStrict) {
        List<Hold> held = holds.stream().filter(Hold::beginEnd).toList();
        if (held.isEmpty()) {
            return;
        }
        Session session = held.get(0).session;
        List<QueueEntry> entries = new ArrayList<>(held.size());
        Loss before = null;
        for (Hold hold : held) {
            entries.add(hold.entry);
            before = before == null ? session.lossOf(hold.entry) : before;
        }
        if (before != null) {
            // The thread of the deadlines may be late, and reports no loss of a hold that is being released.
            session.reportLosses();
        }
        Runnable count = () -> held.stream()
                .filter(hold -> !hold.entry.isLossReported.get())
                .forEach(hold -> session.metrics.released(hold.entry.lock, hold.age()));
        HoldfastException error = null;
        try {
            // A caller that lost the lock must not wait for a cluster that it may not reach.
            error = before == null ? session.release(entries) : null;
            if (before != null || error != null && error.isUnclear()) {
                session.releaseInBackground(entries, count);
            }
        } finally {
            held.forEach(hold -> session.removeUser());
        }
        if (before != null) {
            throw new LostException(before);
        } else if (error == null) {
            count.run();
        } else if (HoldChange.isGone(error)) {
            throw new LostException(Loss.RELEASED_ELSEWHERE);
        } else if (isStrict || !error.isUnclear()) {
            throw error;
        }
    }
}
