package io.holdfast.shedlock;

import io.holdfast.BusyException;
import io.holdfast.Guard;
import io.holdfast.Holdfast;
import io.holdfast.HoldfastException;
import io.holdfast.LockRequest;
import io.holdfast.LostException;
import java.time.Duration;
import java.util.Optional;
import net.javacrumbs.shedlock.core.AbstractSimpleLock;
import net.javacrumbs.shedlock.core.ExtensibleLockProvider;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.SimpleLock;
import net.javacrumbs.shedlock.support.LockException;

/**
 * A lock provider for ShedLock. The client renews a lock while its task runs, so {@code lockAtMostFor} may be generous.
 * The lock of a process that dies is free after the ttl of the client.
 *
 * <ul>
 *   <li>{@code lockAtMostFor} ends the hold of a task that hangs in a live process.
 *   <li>{@code lockAtLeastFor} blocks other processes for that time after the grant.
 *   <li>{@code LockExtender} moves both times; the token stays.
 * </ul>
 */
public final class HoldfastLockProvider implements ExtensibleLockProvider {
    private static final System.Logger LOG = System.getLogger("io.holdfast");

    private final Holdfast client;
    private final String prefix;

    /**
     * Creates a provider whose lock {@code NAME} is {@code shedlock/NAME} in the cluster.
     *
     * @param client the client; the caller closes it
     */
    public HoldfastLockProvider(Holdfast client) {
        this(client, "shedlock/");
    }

    /**
     * Creates a provider.
     *
     * @param client the client; the caller closes it
     * @param prefix the beginning of the names of locks in the cluster; may be empty
     */
    public HoldfastLockProvider(Holdfast client, String prefix) {
        this.client = client;
        this.prefix = prefix;
    }

    /**
     * Acquires the lock if it is free.
     *
     * @param configuration name and times
     * @return the lock, if it was free
     * @throws LockException if the cluster did not answer, or rejected the call
     */
    @Override
    public Optional<SimpleLock> lock(LockConfiguration configuration) {
        LockRequest request = client.lock(prefix + configuration.getName());
        Duration atLeast = configuration.getLockAtLeastFor();
        try {
            Guard guard = (isPositive(atLeast) ? request.minHold(atLeast) : request).tryAcquire();
            return new GuardLock(configuration, guard).endAfter(configuration.getLockAtMostFor());
        } catch (BusyException | LostException e) {
            return Optional.empty();
        } catch (HoldfastException e) {
            throw new LockException("cannot acquire the lock " + configuration.getName(), e);
        }
    }

    private static boolean isPositive(Duration time) {
        return !time.isZero() && !time.isNegative();
    }

    /** A lock of ShedLock with its guard. */
    private static final class GuardLock extends AbstractSimpleLock {
        private final Guard guard;

        GuardLock(LockConfiguration configuration, Guard guard) {
            super(configuration);
            this.guard = guard;
        }

        /** Moves the end of the hold. A lock that is lost is unlocked, because ShedLock does not unlock it. */
        Optional<SimpleLock> endAfter(Duration time) {
            try {
                guard.endAfter(time);
                return Optional.of(this);
            } catch (LostException e) {
                doUnlock();
                return Optional.empty();
            }
        }

        @Override
        protected void doUnlock() {
            try {
                guard.close();
            } catch (LostException e) {
                LOG.log(System.Logger.Level.WARNING, () ->
                        "the lock " + guard.lock() + " was lost before its task ended: " + e.getMessage());
            }
        }

        @Override
        protected Optional<SimpleLock> doExtend(LockConfiguration extended) {
            try {
                if (isPositive(extended.getLockAtLeastFor())) {
                    guard.blockOthersFor(extended.getLockAtLeastFor());
                }
                return new GuardLock(extended, guard).endAfter(extended.getLockAtMostFor());
            } catch (LostException e) {
                doUnlock();
                return Optional.empty();
            } catch (HoldfastException e) {
                throw new LockException("cannot extend the lock " + extended.getName(), e);
            }
        }
    }
}
