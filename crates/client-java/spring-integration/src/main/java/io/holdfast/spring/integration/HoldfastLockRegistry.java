package io.holdfast.spring.integration;

import io.holdfast.Holdfast;
import io.holdfast.LockRequest;
import java.time.Duration;
import java.util.function.Function;
import org.springframework.integration.support.locks.RenewableLockRegistry;

/**
 * The locks of a cluster as a lock registry, e.g. for {@code LockRegistryLeaderInitiator} and aggregators. The client
 * renews held locks, so no task scheduler is necessary. The registry keeps nothing for a key: the client knows which
 * thread holds which lock.
 */
public final class HoldfastLockRegistry implements RenewableLockRegistry<HoldfastDistributedLock> {
    private final Function<String, LockRequest> requests;

    /**
     * Creates a registry whose key {@code KEY} is the lock {@code spring-integration/KEY} in the cluster.
     *
     * @param client the client; the caller closes it
     */
    public HoldfastLockRegistry(Holdfast client) {
        this(key -> client.lock("spring-integration/" + key));
    }

    /**
     * Creates a registry with other names or options of the locks.
     *
     * @param requests returns the lock of a key, e.g. {@code key -> client.lock("billing/" + key).priority(10)}
     */
    public HoldfastLockRegistry(Function<String, LockRequest> requests) {
        this.requests = requests;
    }

    /**
     * Returns the lock of a key.
     *
     * @param lockKey the key; its text is the name
     * @return the lock
     */
    @Override
    public HoldfastDistributedLock obtain(Object lockKey) {
        return new HoldfastDistributedLock(requests.apply(lockKey.toString()));
    }

    /**
     * Checks that this thread certainly holds the lock, which the client renews by itself.
     *
     * @param lockKey the key
     * @throws IllegalMonitorStateException if this thread did not acquire the lock
     * @throws io.holdfast.LostException if the lock is lost
     */
    @Override
    public void renewLock(Object lockKey) {
        obtain(lockKey).ensure();
    }

    /**
     * Moves the end of this thread's hold.
     *
     * @param lockKey the key
     * @param ttl the time from now
     * @throws IllegalMonitorStateException if this thread did not acquire the lock
     * @throws io.holdfast.LostException if the lock is lost
     */
    @Override
    public void renewLock(Object lockKey, Duration ttl) {
        obtain(lockKey).guard().endAfter(ttl);
    }
}
