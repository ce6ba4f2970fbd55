package io.holdfast;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Several held locks. Each has a separate token and a separate loss; the other locks stay held after the loss of one. */
public final class MultiGuard implements AutoCloseable {
    private final List<Hold> holds;

    MultiGuard(List<Hold> holds) {
        this.holds = holds;
    }

    /**
     * The tokens by the names of the locks.
     *
     * @return the tokens
     */
    public Map<String, Long> tokens() {
        Map<String, Long> tokens = new LinkedHashMap<>();
        holds.forEach(hold -> tokens.put(hold.entry.lock, hold.grant().token()));
        return tokens;
    }

    /**
     * A view of each lock. Close this guard, not the views, to release all locks with one call.
     *
     * @return the guards
     */
    public List<Guard> guards() {
        return holds.stream().map(Guard::new).toList();
    }

    /**
     * The session that holds the locks.
     *
     * @return the name of the session
     */
    public String session() {
        return holds.get(0).session.name;
    }

    /**
     * Checks that all locks are certainly still held.
     *
     * @throws LostException if one of them is lost
     */
    public void ensure() {
        holds.forEach(Hold::ensure);
    }

    /**
     * Releases all locks and waits for the confirmation.
     *
     * @throws LostException if one of them was lost before
     */
    public void release() {
        Release.of(holds, true);
    }

    /** As {@link Guard#close}, for all locks. */
    @Override
    public void close() {
        Release.of(holds, false);
    }
}
