package io.holdfast;

import java.time.Duration;
import java.util.List;
import java.util.function.Consumer;

/** A request for several locks, all or none. Such requests never deadlock with each other. */
public final class MultiLockRequest {
    private static final int LOCKS_MAX = 16;

    private final Holdfast client;
    private final List<String> names;
    private final LockOptions options;

    MultiLockRequest(Holdfast client, List<String> names, LockOptions options) {
        Names.between("the number of locks", names.size(), 1, LOCKS_MAX);
        names.forEach(Names::lock);
        this.client = client;
        this.names = List.copyOf(names);
        this.options = options;
    }

    private MultiLockRequest with(Consumer<LockOptions> change) {
        LockOptions copy = options.copy();
        change.accept(copy);
        return new MultiLockRequest(client, names, copy);
    }

    /**
     * Bounds the wait, as for one lock.
     *
     * @param wait the maximum wait
     * @return the request
     */
    public MultiLockRequest waitAtMost(Duration wait) {
        return with(options -> options.wait = wait.isNegative() ? Duration.ZERO : wait);
    }

    /**
     * As {@link LockRequest#ttl}.
     *
     * @param ttl from 1 s to 24 h
     * @return the request
     */
    public MultiLockRequest ttl(Duration ttl) {
        Names.ttl(ttl);
        return with(options -> options.ttl = ttl);
    }

    /**
     * Acquires all locks in shared mode.
     *
     * @return the request
     */
    public MultiLockRequest shared() {
        return with(options -> options.mode = Mode.SHARED);
    }

    /**
     * As {@link LockRequest#maxHold}.
     *
     * @param max the maximum time
     * @return the request
     */
    public MultiLockRequest maxHold(Duration max) {
        return with(options -> options.maxHold = max);
    }

    /**
     * Acquires all locks.
     *
     * @return the guard of all of them
     * @throws InterruptedException if the thread is interrupted while it waits
     * @throws BusyException if the wait ended before all locks were free together
     */
    public MultiGuard acquire() throws InterruptedException {
        return new MultiGuard(Acquire.run(client, names, options));
    }
}
