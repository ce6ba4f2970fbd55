import java.util.concurrent.Callable;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.ExponentialBackoffRetry;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * Measures the client beside another lock client: {@code Peers TURNS SECONDS curator|redisson}.
 *
 * <p>All tasks share one Curator client on the ZooKeeper servers in PEER_ADDR, or one Redisson client on the first Redis server there.
 */
final class Peers {
    private static final String ADDRESSES = System.getenv("PEER_ADDR");

    private Peers() {}

    public static void main(String[] arguments) throws InterruptedException {
        switch (arguments[2]) {
            case "curator" -> curator(arguments);
            case "redisson" -> redisson(arguments);
            default -> throw new IllegalArgumentException("no peer has the name " + arguments[2]);
        }
    }

    private static void curator(String[] arguments) throws InterruptedException {
        try (CuratorFramework client = CuratorFrameworkFactory.newClient(ADDRESSES, new ExponentialBackoffRetry(1_000, 3))) {
            client.start();
            Speed.measure(arguments, task -> cycle(new InterProcessMutex(client, "/locks/peer-" + task)));
        }
    }

    private static Callable<?> cycle(InterProcessMutex mutex) {
        return () -> {
            mutex.acquire();
            mutex.release();
            return null;
        };
    }

    private static void redisson(String[] arguments) throws InterruptedException {
        Config config = new Config();
        config.useSingleServer().setAddress("redis://" + ADDRESSES.split(",")[0]);
        RedissonClient client = Redisson.create(config);
        try {
            Speed.measure(arguments, task -> cycle(client, "peer-" + task));
        } finally {
            client.shutdown();
        }
    }

    private static Callable<?> cycle(RedissonClient client, String name) {
        return () -> {
            RLock lock = client.getLock(name);
            lock.lock();
            lock.unlock();
            return null;
        };
    }
}
