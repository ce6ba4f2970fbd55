import java.util.Map;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.cache.ChildData;
import org.apache.curator.framework.recipes.cache.CuratorCache;
import org.apache.curator.framework.recipes.cache.CuratorCacheListener;
import org.apache.curator.framework.recipes.cache.NodeCache;
import org.apache.curator.framework.recipes.cache.PathChildrenCache;
import org.apache.curator.framework.recipes.cache.TreeCache;
import org.apache.curator.framework.recipes.watch.PersistentWatcher;

/** Caches: one-shot watches set again and again, and persistent recursive ones. */
@SuppressWarnings("deprecation")
final class CacheChecks {
    static void addTo(Map<String, Recipes.Check> checks) {
        checks.put("curator-cache", CacheChecks::curatorCache);
        checks.put("curator-cache-and-expiry", CacheChecks::curatorCacheAndExpiry);
        checks.put("tree-cache", CacheChecks::treeCache);
        checks.put("path-children-cache", CacheChecks::pathChildrenCache);
        checks.put("node-cache", CacheChecks::nodeCache);
        checks.put("persistent-watcher", CacheChecks::persistentWatcher);
    }

    private static String dataOf(CuratorCache cache, String path) {
        return cache.get(path).map(data -> Recipes.text(data.getData())).orElse(null);
    }

    private static void curatorCache(Recipes.Place place) throws Exception {
        CuratorFramework writer = place.client();
        writer.create().forPath(place.path, Recipes.bytes("root"));
        writer.create().forPath(place.path + "/old", Recipes.bytes("old"));
        ConcurrentLinkedQueue<String> told = new ConcurrentLinkedQueue<>();
        CountDownLatch filled = new CountDownLatch(1);
        CuratorCache cache = CuratorCache.build(place.client(), place.path);
        cache.listenable().addListener(CuratorCacheListener.builder()
            .forInitialized(filled::countDown)
            .forCreates(node -> told.add("+" + node.getPath()))
            .forChanges((before, after) -> told.add("=" + after.getPath()))
            .forDeletes(node -> told.add("-" + node.getPath()))
            .build());
        cache.start();
        Recipes.expect(filled.await(20, TimeUnit.SECONDS), "the cache to be filled");
        Recipes.expectEqual(2, cache.size(), "znodes at first");
        writer.create().forPath(place.path + "/new", Recipes.bytes("1"));
        writer.create().forPath(place.path + "/new/deep", Recipes.bytes("2"));
        writer.setData().forPath(place.path + "/old", Recipes.bytes("changed"));
        Recipes.until("deep", () -> "2".equals(dataOf(cache, place.path + "/new/deep")));
        Recipes.until("old", () -> "changed".equals(dataOf(cache, place.path + "/old")));
        writer.delete().deletingChildrenIfNeeded().forPath(place.path + "/new");
        Recipes.until("what is deleted to go", () -> cache.size() == 2);
        for (String event : new String[] {"+/new", "+/new/deep", "=/old", "-/new", "-/new/deep"}) {
            String wanted = event.charAt(0) + place.path + event.substring(1);
            Recipes.until("event " + event, () -> told.contains(wanted));
        }
        cache.close();
    }

    private static void curatorCacheAndExpiry(Recipes.Place place) throws Exception {
        CuratorFramework writer = place.client();
        CuratorFramework doomed = place.client();
        writer.create().forPath(place.path);
        CuratorCache cache = CuratorCache.build(doomed, place.path);
        cache.start();
        Recipes.until("the root", () -> cache.size() == 1);
        place.expire(doomed);
        writer.create().forPath(place.path + "/a", Recipes.bytes("1"));
        Recipes.until("what came while the session ended", () -> "1".equals(dataOf(cache, place.path + "/a")));
        writer.create().forPath(place.path + "/b", Recipes.bytes("2"));
        Recipes.until("what came after", () -> "2".equals(dataOf(cache, place.path + "/b")));
        cache.close();
    }

    private static void treeCache(Recipes.Place place) throws Exception {
        CuratorFramework writer = place.client();
        TreeCache cache = new TreeCache(place.client(), place.path);
        cache.start();
        writer.create().creatingParentsIfNeeded().forPath(place.path + "/a/b/c", Recipes.bytes("deep"));
        Recipes.until("a deep znode", () -> cache.getCurrentData(place.path + "/a/b/c") != null);
        writer.setData().forPath(place.path + "/a/b/c", Recipes.bytes("deeper"));
        Recipes.until("its change", () -> {
            ChildData data = cache.getCurrentData(place.path + "/a/b/c");
            return Recipes.text(data.getData()).equals("deeper");
        });
        for (int i = 0; i < 50; i++) {
            writer.create().forPath(place.path + "/a/n" + i);
        }
        Recipes.until("fifty siblings", () -> cache.getCurrentChildren(place.path + "/a").size() == 51);
        writer.delete().deletingChildrenIfNeeded().forPath(place.path + "/a");
        Recipes.until("all to go", () -> cache.getCurrentData(place.path + "/a") == null);
        cache.close();
    }

    private static void pathChildrenCache(Recipes.Place place) throws Exception {
        CuratorFramework writer = place.client();
        writer.create().forPath(place.path);
        writer.create().forPath(place.path + "/before");
        PathChildrenCache cache = new PathChildrenCache(place.client(), place.path, true);
        cache.start(PathChildrenCache.StartMode.BUILD_INITIAL_CACHE);
        Recipes.expectEqual(1, cache.getCurrentData().size(), "children at first");
        for (int i = 0; i < 20; i++) {
            writer.create().forPath(place.path + "/n" + i, Recipes.bytes("0"));
        }
        Recipes.until("twenty more", () -> cache.getCurrentData().size() == 21);
        writer.setData().forPath(place.path + "/n7", Recipes.bytes("7"));
        Recipes.until("a change", () -> Recipes.text(cache.getCurrentData(place.path + "/n7").getData()).equals("7"));
        writer.delete().forPath(place.path + "/n7");
        Recipes.until("one to go", () -> cache.getCurrentData(place.path + "/n7") == null);
        cache.close();
    }

    private static void nodeCache(Recipes.Place place) throws Exception {
        CuratorFramework writer = place.client();
        NodeCache cache = new NodeCache(place.client(), place.path);
        cache.start(true);
        Recipes.expect(cache.getCurrentData() == null, "no znode at first");
        writer.create().forPath(place.path, Recipes.bytes("1"));
        Recipes.until("the znode", () -> cache.getCurrentData() != null);
        writer.setData().forPath(place.path, Recipes.bytes("2"));
        Recipes.until("its change", () -> Recipes.text(cache.getCurrentData().getData()).equals("2"));
        writer.delete().forPath(place.path);
        Recipes.until("its end", () -> cache.getCurrentData() == null);
        cache.close();
    }

    private static void persistentWatcher(Recipes.Place place) throws Exception {
        CuratorFramework writer = place.client();
        ConcurrentLinkedQueue<String> told = new ConcurrentLinkedQueue<>();
        PersistentWatcher watcher = new PersistentWatcher(place.client(), place.path, true);
        watcher.getListenable().addListener(event -> {
            if (event.getPath() != null) {
                told.add(event.getType() + event.getPath().substring(place.path.length()));
            }
        });
        CountDownLatch armed = new CountDownLatch(1);
        watcher.getResetListenable().addListener(armed::countDown);
        watcher.start();
        Recipes.expect(armed.await(20, TimeUnit.SECONDS), "the watch to be set");
        writer.create().forPath(place.path);
        for (int i = 0; i < 3; i++) {
            writer.create().forPath(place.path + "/a");
            writer.setData().forPath(place.path + "/a", Recipes.bytes("x"));
            writer.delete().forPath(place.path + "/a");
        }
        Recipes.until("ten events", () -> told.size() == 10);
        String round = " NodeCreated/a NodeDataChanged/a NodeDeleted/a";
        Recipes.expectEqual("NodeCreated" + round + round + round, String.join(" ", told), "the events, in order");
        watcher.close();
    }
}
