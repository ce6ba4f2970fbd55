import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.retry.RetryNTimes;
import org.apache.zookeeper.ZooKeeper;

/**
 * Curator's recipes against an ensemble that somebody else started: one check each, with clients of its own and a
 * directory of its own. Prints a line for each check, `ok NAME MS` or `FAILED NAME REASON`, and ends with 1 if one failed.
 * Arguments: the connect string, then names of checks (all of them without).
 */
public final class Recipes {
    /** One recipe put to use. */
    interface Check {
        void run(Place place) throws Exception;
    }

    /** What one check works with: clients, each a session of its own, and a directory that nobody else uses. */
    static final class Place implements AutoCloseable {
        final String path;
        private final String connect;
        private final List<CuratorFramework> clients = new ArrayList<>();
        private final ExecutorService threads = Executors.newCachedThreadPool();

        Place(String connect, String name) {
            this.connect = connect;
            this.path = "/curator-" + name + "-" + UUID.randomUUID();
        }

        CuratorFramework client() throws Exception {
            CuratorFramework client =
                CuratorFrameworkFactory.newClient(connect, 10_000, 10_000, new RetryNTimes(20, 100));
            client.start();
            clients.add(client);
            expect(client.blockUntilConnected(20, TimeUnit.SECONDS), "connected within 20 s");
            return client;
        }

        String connect() {
            return connect;
        }

        <T> Future<T> meanwhile(Callable<T> work) {
            return threads.submit(work);
        }

        /** Ends a client's session behind its back, as the server would: a second connection of it says close. */
        void expire(CuratorFramework client) throws Exception {
            ZooKeeper first = client.getZookeeperClient().getZooKeeper();
            ZooKeeper second = new ZooKeeper(
                connect, 10_000, event -> { }, first.getSessionId(), first.getSessionPasswd());
            until("the second connection has the session", () -> second.getState().isConnected());
            second.close();
        }

        @Override
        public void close() {
            threads.shutdownNow();
            clients.forEach(CuratorFramework::close);
        }
    }

    static void expect(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError("expected: " + what);
        }
    }

    static void expectEqual(Object wanted, Object found, String what) {
        expect(wanted.equals(found), what + " to be " + wanted + ", not " + found);
    }

    /** Waits for a condition, 30 s at most. */
    static void until(String what, Callable<Boolean> condition) throws Exception {
        for (long deadline = System.nanoTime() + 30_000_000_000L; !condition.call();) {
            expect(System.nanoTime() < deadline, what + " within 30 s");
            Thread.sleep(10);
        }
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static String text(byte[] bytes) {
        return new String(bytes, StandardCharsets.UTF_8);
    }

    static <T> T within20s(Future<T> future) throws Exception {
        return future.get(20, TimeUnit.SECONDS);
    }

    private static boolean run(String connect, String name, Check check) {
        long began = System.nanoTime();
        try (Place place = new Place(connect, name)) {
            check.run(place);
            System.out.printf("ok %s %d%n", name, (System.nanoTime() - began) / 1_000_000);
            return true;
        } catch (Throwable failure) {
            StackTraceElement[] trace = failure.getStackTrace();
            String where = "";
            for (StackTraceElement frame : trace) {
                if (frame.getClassName().endsWith("Checks")) {
                    where = " at " + frame.getFileName() + ":" + frame.getLineNumber();
                    break;
                }
            }
            System.out.printf("FAILED %s %s%s%n", name, failure.toString().replace('\n', ' '), where);
            return false;
        }
    }

    public static void main(String[] arguments) {
        Map<String, Check> checks = new LinkedHashMap<>();
        LockChecks.addTo(checks);
        LeaderChecks.addTo(checks);
        CountChecks.addTo(checks);
        NodeChecks.addTo(checks);
        CacheChecks.addTo(checks);
        FrameworkChecks.addTo(checks);
        List<String> wanted = List.of(arguments).subList(1, arguments.length);
        boolean held = true;
        for (Map.Entry<String, Check> check : checks.entrySet()) {
            if (wanted.isEmpty() || wanted.contains(check.getKey())) {
                held &= run(arguments[0], check.getKey(), check.getValue());
            }
        }
        System.exit(held ? 0 : 1);
    }
}
