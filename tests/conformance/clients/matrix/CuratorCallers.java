import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreMutex;
import org.apache.curator.retry.RetryNTimes;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.recipes.lock.LockListener;
import org.apache.zookeeper.recipes.lock.WriteLock;

/** Curator's locks, and ZooKeeper's own Java recipe. See runner.py for the lines on stdin and stdout. */
public final class CuratorCallers {
    /** Takes a lock; what it returns releases it. */
    interface Recipe {
        AutoCloseable acquire(CuratorFramework client, String path) throws Exception;
    }

    private static final Map<String, Recipe> RECIPES = Map.of(
        "curator", (client, path) -> {
            InterProcessMutex lock = new InterProcessMutex(client, path);
            lock.acquire();
            return lock::release;
        },
        "curator-read", (client, path) -> {
            InterProcessMutex lock = new InterProcessReadWriteLock(client, path).readLock();
            lock.acquire();
            return lock::release;
        },
        "curator-write", (client, path) -> {
            InterProcessMutex lock = new InterProcessReadWriteLock(client, path).writeLock();
            lock.acquire();
            return lock::release;
        },
        "curator-semaphore", (client, path) -> {
            InterProcessSemaphoreMutex lock = new InterProcessSemaphoreMutex(client, path);
            lock.acquire();
            return lock::release;
        },
        "curator-latch", (client, path) -> {
            LeaderLatch latch = new LeaderLatch(client, path);
            latch.start();
            latch.await();
            return latch;
        },
        "zookeeper-java", CuratorCallers::zooKeeperRecipe);

    private static final Map<String, CountDownLatch> RELEASED = new HashMap<>();

    private static AutoCloseable zooKeeperRecipe(CuratorFramework client, String path) throws Exception {
        try {
            client.create().creatingParentsIfNeeded().withMode(CreateMode.PERSISTENT).forPath(path);
        } catch (KeeperException.NodeExistsException there) {
            // As wanted.
        }
        CountDownLatch holds = new CountDownLatch(1);
        LockListener listener = new LockListener() {
            @Override
            public void lockAcquired() {
                holds.countDown();
            }

            @Override
            public void lockReleased() {
            }
        };
        WriteLock lock = new WriteLock(
            client.getZookeeperClient().getZooKeeper(), path, ZooDefs.Ids.OPEN_ACL_UNSAFE, listener);
        lock.lock();
        holds.await();
        return lock::unlock;
    }

    private static synchronized void say(String... words) {
        System.out.println(String.join(" ", words));
        System.out.flush();
    }

    private static CuratorFramework client(String connect) throws Exception {
        CuratorFramework client =
            CuratorFrameworkFactory.newClient(connect, 30_000, 30_000, new RetryNTimes(20, 100));
        client.start();
        client.blockUntilConnected();
        return client;
    }

    private static void run(CuratorFramework client, String name, String kind, String path) {
        try {
            AutoCloseable held = RECIPES.get(kind).acquire(client, path);
            say(name, "holds");
            RELEASED.get(name).await();
            held.close();
            say(name, "released");
        } catch (Exception failed) {
            say(name, "refused", failed.getClass().getSimpleName());
        }
    }

    public static void main(String[] arguments) throws Exception {
        Map<Character, CuratorFramework> clients =
            Map.of('a', client(arguments[0]), 'b', client(arguments[0]));
        say("ready", "ready");
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split(" ");
            String name = words[1];
            if (words[0].equals("acquire")) {
                RELEASED.put(name, new CountDownLatch(1));
                CuratorFramework client = clients.get(name.charAt(name.length() - 1));
                new Thread(() -> run(client, name, words[2], words[3])).start();
            } else {
                RELEASED.get(name).countDown();
            }
        }
        System.exit(0);
    }
}
