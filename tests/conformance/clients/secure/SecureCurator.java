import java.nio.charset.StandardCharsets;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.RetryOneTime;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.ZooKeeper;

/** Curator over TLS with an access token: {@code SecureCurator HOSTS TOKEN}. Prints one line for each check. */
public final class SecureCurator {
    public static void main(String[] args) throws Exception {
        byte[] credential = ("ci:" + args[1]).getBytes(StandardCharsets.UTF_8);
        CuratorFramework client = CuratorFrameworkFactory.builder()
                .connectString(args[0])
                .authorization("digest", credential)
                .retryPolicy(new RetryOneTime(1_000))
                .build();
        client.start();
        InterProcessMutex mutex = new InterProcessMutex(client, "/locks/deploy/curator");
        if (!mutex.acquire(30, TimeUnit.SECONDS)) {
            throw new IllegalStateException("the lock was not acquired");
        }
        String holder = new String(client.getData().forPath("/locks/deploy/curator"), StandardCharsets.UTF_8);
        mutex.release();
        boolean hasToken = holder.matches("\\{\"token\":[1-9][0-9]*,.*");
        System.out.println((hasToken ? "ok" : "FAILED") + " curator_locks_with_a_token");
        try {
            client.create().forPath("/locks/orders");
            System.out.println("FAILED curator_without_the_permission_is_no_auth");
        } catch (KeeperException.NoAuthException expected) {
            System.out.println("ok curator_without_the_permission_is_no_auth");
        }
        client.close();
        addsCredentialLater(args[0], credential);
    }

    /** The client adds its credential when it is connected already. */
    private static void addsCredentialLater(String hosts, byte[] credential) throws Exception {
        CountDownLatch connected = new CountDownLatch(1);
        ZooKeeper client = new ZooKeeper(hosts, 10_000, event -> {
            if (event.getState() == Watcher.Event.KeeperState.SyncConnected) {
                connected.countDown();
            }
        });
        connected.await();
        long session = client.getSessionId();
        client.addAuthInfo("digest", credential);
        boolean sees = client.exists("/locks", false) != null && client.getSessionId() == session;
        System.out.println((sees ? "ok" : "FAILED") + " java_adds_a_credential_after_the_connection");
        client.close();
    }
}
