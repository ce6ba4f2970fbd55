import java.util.Arrays;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.nodes.GroupMember;
import org.apache.curator.framework.recipes.nodes.PersistentNode;
import org.apache.curator.framework.recipes.nodes.PersistentTtlNode;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.data.Stat;

/** Znodes that recipes keep alive. */
final class NodeChecks {
    static void addTo(Map<String, Recipes.Check> checks) {
        checks.put("persistent-node", NodeChecks::persistentNode);
        checks.put("persistent-node-and-expiry", NodeChecks::persistentNodeAndExpiry);
        checks.put("persistent-node-of-each-kind", NodeChecks::eachKind);
        checks.put("persistent-ttl-node", NodeChecks::ttlNode);
        checks.put("group-member", NodeChecks::groupMember);
    }

    private static PersistentNode started(CuratorFramework client, CreateMode mode, String path) throws Exception {
        PersistentNode node = new PersistentNode(client, mode, false, path, Recipes.bytes("first"));
        node.start();
        Recipes.expect(node.waitForInitialCreate(20, TimeUnit.SECONDS), "the znode to be made");
        return node;
    }

    private static void persistentNode(Recipes.Place place) throws Exception {
        CuratorFramework other = place.client();
        String path = place.path + "/node";
        PersistentNode node = started(place.client(), CreateMode.EPHEMERAL, path);
        other.delete().forPath(path);
        other.sync().forPath(path);
        Recipes.until("it to be made again", () -> other.checkExists().forPath(path) != null);
        node.setData(Recipes.bytes("second"));
        Recipes.until("its new data", () -> Recipes.text(other.getData().forPath(path)).equals("second"));
        node.close();
        Recipes.until("it to go with its owner", () -> other.checkExists().forPath(path) == null);
    }

    private static void persistentNodeAndExpiry(Recipes.Place place) throws Exception {
        CuratorFramework doomed = place.client();
        CuratorFramework other = place.client();
        String path = place.path + "/node";
        PersistentNode node = started(doomed, CreateMode.EPHEMERAL, path);
        other.sync().forPath(path);
        long before = other.checkExists().forPath(path).getEphemeralOwner();
        place.expire(doomed);
        Recipes.until("it to be made again by the new session", () -> {
            Stat stat = other.checkExists().forPath(path);
            return stat != null && stat.getEphemeralOwner() != before;
        });
        node.close();
    }

    private static void eachKind(Recipes.Place place) throws Exception {
        CuratorFramework client = place.client();
        CreateMode[] modes = {
            CreateMode.PERSISTENT, CreateMode.PERSISTENT_SEQUENTIAL, CreateMode.EPHEMERAL_SEQUENTIAL, CreateMode.CONTAINER,
        };
        for (CreateMode mode : modes) {
            PersistentNode node = started(client, mode, place.path + "/" + mode.name().toLowerCase());
            String made = node.getActualPath();
            Recipes.expect(client.checkExists().forPath(made) != null, mode + " to be there");
            node.close();
            Recipes.until(mode + " to go", () -> client.checkExists().forPath(made) == null);
        }
    }

    private static void ttlNode(Recipes.Place place) throws Exception {
        CuratorFramework client = place.client();
        String path = place.path + "/ttl";
        PersistentTtlNode node = new PersistentTtlNode(client, path, 600, Recipes.bytes("data"));
        node.start();
        Recipes.expect(node.waitForInitialCreate(20, TimeUnit.SECONDS), "the znode to be made");
        Recipes.until("the child that keeps it alive", () -> client.getChildren().forPath(path).size() == 1);
        String child = path + "/" + client.getChildren().forPath(path).get(0);
        long owner = client.checkExists().forPath(child).getEphemeralOwner();
        Recipes.expectEqual(0L, owner, "the owner of a TTL znode, as ZooKeeper 3.8 shows it");
        int version = client.checkExists().forPath(child).getVersion();
        Recipes.until("the child to be touched", () -> client.checkExists().forPath(child).getVersion() > version + 1);
        node.close();
    }

    private static void groupMember(Recipes.Place place) throws Exception {
        CuratorFramework doomed = place.client();
        GroupMember a = new GroupMember(place.client(), place.path, "a", Recipes.bytes("one"));
        GroupMember b = new GroupMember(place.client(), place.path, "b");
        GroupMember c = new GroupMember(doomed, place.path, "c");
        a.start();
        b.start();
        c.start();
        Recipes.until("three members", () -> a.getCurrentMembers().keySet().equals(Set.of("a", "b", "c")));
        Recipes.until("a's data at b", () -> Arrays.equals(Recipes.bytes("one"), b.getCurrentMembers().get("a")));
        a.setThisData(Recipes.bytes("two"));
        Recipes.until("a's new data at b", () -> Arrays.equals(Recipes.bytes("two"), b.getCurrentMembers().get("a")));
        b.close();
        Recipes.until("b to leave", () -> a.getCurrentMembers().keySet().equals(Set.of("a", "c")));
        c.close();
        doomed.close();
        Recipes.until("c to leave", () -> a.getCurrentMembers().keySet().equals(Set.of("a")));
        a.close();
    }
}
