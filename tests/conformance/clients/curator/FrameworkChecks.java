import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.api.transaction.CuratorTransactionResult;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.ACL;
import org.apache.zookeeper.data.Id;
import org.apache.zookeeper.data.Stat;

/** What recipes stand on: protection, transactions, kinds of znodes, watches that are taken back, ACLs, namespaces. */
final class FrameworkChecks {
    static void addTo(Map<String, Recipes.Check> checks) {
        checks.put("create-with-protection", FrameworkChecks::protection);
        checks.put("transactions", FrameworkChecks::transactions);
        checks.put("kinds-of-znodes", FrameworkChecks::kinds);
        checks.put("containers-and-ttl-znodes-are-reaped", FrameworkChecks::reaping);
        checks.put("watches-are-taken-back", FrameworkChecks::removedWatches);
        checks.put("acls", FrameworkChecks::acls);
        checks.put("namespaces", FrameworkChecks::namespaces);
        checks.put("in-the-background", FrameworkChecks::background);
        checks.put("busy-sessions-live", FrameworkChecks::busy);
    }

    private static void protection(Recipes.Place place) throws Exception {
        CuratorFramework client = place.client();
        String made = client.create().creatingParentContainersIfNeeded().withProtection()
            .withMode(CreateMode.EPHEMERAL_SEQUENTIAL).forPath(place.path + "/lock-", Recipes.bytes("x"));
        String name = made.substring(place.path.length() + 1);
        Recipes.expect(name.matches("_c_[0-9a-f-]{36}-lock-\\d{10}"), "a protected name, not " + name);
        Stat parent = client.checkExists().forPath(place.path);
        Recipes.expectEqual(0L, parent.getEphemeralOwner(), "the owner of a container, as ZooKeeper 3.8 shows it");
        client.delete().guaranteed().forPath(made);
    }

    private static void transactions(Recipes.Place place) throws Exception {
        CuratorFramework client = place.client();
        List<CuratorTransactionResult> results = client.transaction().forOperations(
            client.transactionOp().create().forPath(place.path, Recipes.bytes("0")),
            client.transactionOp().create().withMode(CreateMode.PERSISTENT_SEQUENTIAL).forPath(place.path + "/s"),
            client.transactionOp().setData().withVersion(0).forPath(place.path, Recipes.bytes("1")),
            client.transactionOp().check().withVersion(1).forPath(place.path));
        Recipes.expectEqual(place.path + "/s0000000000", results.get(1).getResultPath(), "the path made");
        Recipes.expectEqual(1, results.get(2).getResultStat().getVersion(), "the version");
        Stat top = client.checkExists().forPath(place.path);
        Stat child = client.checkExists().forPath(results.get(1).getResultPath());
        Recipes.expectEqual(top.getMzxid(), child.getCzxid(), "one zxid for all");
        try {
            client.transaction().forOperations(
                client.transactionOp().setData().forPath(place.path, Recipes.bytes("2")),
                client.transactionOp().delete().forPath(place.path + "/missing"));
            throw new AssertionError("expected: a failed transaction");
        } catch (KeeperException.NoNodeException refused) {
            List<org.apache.zookeeper.OpResult> each = refused.getResults();
            Recipes.expectEqual(2, each.size(), "results of the failed transaction");
            int second = ((org.apache.zookeeper.OpResult.ErrorResult) each.get(1)).getErr();
            Recipes.expectEqual(KeeperException.Code.NONODE.intValue(), second, "the error of the second");
        }
        Recipes.expectEqual("1", Recipes.text(client.getData().forPath(place.path)), "what was there before");
    }

    private static void kinds(Recipes.Place place) throws Exception {
        CuratorFramework client = place.client();
        client.create().forPath(place.path);
        for (CreateMode mode : CreateMode.values()) {
            var create = client.create();
            String path = place.path + "/" + mode.name();
            String made = mode.isTTL()
                ? create.withTtl(10_000).withMode(mode).forPath(path) : create.withMode(mode).forPath(path);
            Recipes.expectEqual(mode.isSequential(), !made.equals(path), mode + " being sequential");
            Stat stat = client.checkExists().forPath(made);
            Recipes.expectEqual(!mode.isEphemeral(), stat.getEphemeralOwner() == 0, mode + " having no owner");
        }
        Recipes.expectEqual(CreateMode.values().length, client.getChildren().forPath(place.path).size(), "children");
        try {
            client.create().forPath(place.path + "/EPHEMERAL/child");
            throw new AssertionError("expected: an ephemeral to refuse children");
        } catch (KeeperException.NoChildrenForEphemeralsException refused) {
            Recipes.expect(true, "refused");
        }
    }

    /** ZooKeeper looks once a minute, so this takes up to two. */
    private static void reaping(Recipes.Place place) throws Exception {
        CuratorFramework client = place.client();
        String container = place.path + "/container";
        client.create().creatingParentsIfNeeded().withMode(CreateMode.CONTAINER).forPath(container);
        client.create().forPath(container + "/child");
        client.create().withTtl(1000).withMode(CreateMode.PERSISTENT_WITH_TTL).forPath(place.path + "/ttl");
        client.create().forPath(place.path + "/kept");
        client.delete().forPath(container + "/child");
        for (long deadline = System.nanoTime() + 150_000_000_000L;;) {
            List<String> left = client.getChildren().forPath(place.path);
            if (left.equals(List.of("kept"))) {
                return;
            }
            Recipes.expect(System.nanoTime() < deadline, "only 'kept' to be left after 150 s, not " + left);
            Thread.sleep(200);
        }
    }

    private static void removedWatches(Recipes.Place place) throws Exception {
        CuratorFramework client = place.client();
        client.create().forPath(place.path);
        CountDownLatch removed = new CountDownLatch(1);
        AtomicReference<String> told = new AtomicReference<>();
        Watcher watcher = event -> {
            told.set(event.getType().name());
            if (event.getType() == Watcher.Event.EventType.DataWatchRemoved) {
                removed.countDown();
            }
        };
        client.getData().usingWatcher(watcher).forPath(place.path);
        client.watches().remove(watcher).ofType(Watcher.WatcherType.Data).forPath(place.path);
        Recipes.expect(removed.await(10, TimeUnit.SECONDS), "to be told that the watch is gone, not " + told.get());
        client.setData().forPath(place.path, Recipes.bytes("x"));
        client.sync().forPath(place.path);
        Recipes.expectEqual("DataWatchRemoved", told.get(), "the last event");
        try {
            client.watches().removeAll().ofType(Watcher.WatcherType.Children).forPath(place.path);
            throw new AssertionError("expected: no watch to be there");
        } catch (KeeperException.NoWatcherException none) {
            Recipes.expect(true, "refused");
        }
    }

    private static void acls(Recipes.Place place) throws Exception {
        CuratorFramework owner = place.client();
        CuratorFramework stranger = place.client();
        owner.getZookeeperClient().getZooKeeper().addAuthInfo("digest", Recipes.bytes("user:secret"));
        owner.create().withACL(ZooDefs.Ids.CREATOR_ALL_ACL).forPath(place.path, Recipes.bytes("private"));
        Recipes.expectEqual("private", Recipes.text(owner.getData().forPath(place.path)), "the owner's data");
        stranger.sync().forPath(place.path);
        try {
            stranger.getData().forPath(place.path);
            throw new AssertionError("expected: a stranger to be refused");
        } catch (KeeperException.NoAuthException refused) {
            Recipes.expect(true, "refused");
        }
        ACL found = owner.getACL().forPath(place.path).get(0);
        Recipes.expectEqual("digest", found.getId().getScheme(), "the scheme");
        owner.setACL().withACL(Collections.singletonList(
            new ACL(ZooDefs.Perms.READ, new Id("world", "anyone")))).forPath(place.path);
        stranger.sync().forPath(place.path);
        Recipes.expectEqual("private", Recipes.text(stranger.getData().forPath(place.path)), "what all may read");
        try {
            owner.setData().forPath(place.path, Recipes.bytes("no"));
            throw new AssertionError("expected: nobody to be allowed to write");
        } catch (KeeperException.NoAuthException refused) {
            Recipes.expect(true, "refused");
        }
    }

    private static void namespaces(Recipes.Place place) throws Exception {
        CuratorFramework client = place.client();
        CuratorFramework inside = client.usingNamespace(place.path.substring(1));
        inside.create().creatingParentsIfNeeded().forPath("/a/b", Recipes.bytes("x"));
        Recipes.expectEqual("x", Recipes.text(client.getData().forPath(place.path + "/a/b")), "the data");
        inside.delete().deletingChildrenIfNeeded().forPath("/a");
        Recipes.expect(client.checkExists().forPath(place.path + "/a") == null, "a to be gone");
    }

    /** A client that is never idle never pings: what it asks for has to count as life, reads and writes alike. */
    private static void busy(Recipes.Place place) throws Exception {
        CuratorFramework other = place.client();
        other.create().forPath(place.path);
        Future<?> reads = place.meanwhile(() -> keepBusy(place, client -> client.getData(place.path, false, null)));
        Future<?> writes = place.meanwhile(() -> keepBusy(place, client -> client.setData(place.path, new byte[1], -1)));
        reads.get(60, TimeUnit.SECONDS);
        writes.get(60, TimeUnit.SECONDS);
    }

    private interface Call {
        void on(ZooKeeper client) throws Exception;
    }

    /** Calls without a pause for three times the session's timeout. */
    private static Void keepBusy(Recipes.Place place, Call call) throws Exception {
        ZooKeeper client = new ZooKeeper(place.connect(), 4000, event -> { });
        try {
            Recipes.until("a session", () -> client.getState().isConnected());
            client.sync(place.path, (code, path, context) -> { }, null);
            long session = client.getSessionId();
            for (long end = System.nanoTime() + 3L * client.getSessionTimeout() * 1_000_000; System.nanoTime() < end;) {
                call.on(client);
            }
            Recipes.expectEqual(session, client.getSessionId(), "the session after much work");
        } finally {
            client.close();
        }
        return null;
    }

    private static void background(Recipes.Place place) throws Exception {
        CuratorFramework client = place.client();
        client.create().forPath(place.path);
        int count = 500;
        CountDownLatch done = new CountDownLatch(count);
        for (int i = 0; i < count; i++) {
            client.create().inBackground((ignored, event) -> {
                if (event.getResultCode() == 0) {
                    done.countDown();
                }
            }).forPath(place.path + "/n" + i);
        }
        Recipes.expect(done.await(30, TimeUnit.SECONDS), "all of " + count + " creates to be answered");
        Recipes.expectEqual(count, client.getChildren().forPath(place.path).size(), "children");
    }
}
