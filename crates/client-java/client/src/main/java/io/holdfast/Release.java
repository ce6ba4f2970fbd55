package io.holdfast;

import java.util.List;
import java.util.Objects;

/** Releases the holds of one guard. */
final class Release {
    private Release() {}

    /** Releases holds of one acquire. With {@code isStrict}, throws also if the release is not confirmed. */
    static void of(List<Hold> holds, boolean isStrict) {
        List<Hold> held = holds.stream().filter(hold -> !hold.isReleased()).toList();
        if (held.isEmpty()) {
            return;
        }
        Session session = held.get(0).session;
        Loss before = held.stream().map(hold -> session.lossOf(hold.entry)).filter(Objects::nonNull).findFirst().orElse(null);
        HoldfastException error;
        try {
            error = session.release(held.stream().map(hold -> hold.entry).toList());
            if (error != null && error.isUncertain()) {
                session.releaseInBackground(held.stream().map(hold -> hold.entry).toList());
            }
        } finally {
            held.forEach(Hold::endUse);
        }
        if (before != null) {
            throw new LostException(before);
        }
        held.forEach(hold -> session.metrics.released(hold.entry.lock));
        if (error instanceof RejectedException) {
            throw new LostException(Loss.RELEASED_ELSEWHERE);
        }
        if (error != null && (isStrict || !error.isUncertain())) {
            throw error;
        }
    }
}
