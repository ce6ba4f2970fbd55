package org.apache.curator.test;

import java.io.Closeable;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.file.Files;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.ZKUtil;
import org.apache.zookeeper.ZooKeeper;

/**
 * Replaces the server of Curator's tests: a proxy to one node of the cluster under test, whose tree a new server
 * empties. A stopped server accepts no connection, and closes those that it has; the cluster runs on.
 */
public class TestingServer implements Closeable {
    private final Set<Socket> open = ConcurrentHashMap.newKeySet();
    private final File directory;
    private final InstanceSpec spec;
    private ServerSocket listener;

    public TestingServer() throws Exception {
        this(-1, null, true);
    }

    public TestingServer(boolean start) throws Exception {
        this(-1, null, start);
    }

    public TestingServer(int port) throws Exception {
        this(port, null, true);
    }

    public TestingServer(int port, boolean start) throws Exception {
        this(port, null, start);
    }

    public TestingServer(int port, File directory) throws Exception {
        this(port, directory, true);
    }

    public TestingServer(int port, File directory, boolean start) throws Exception {
        this(new InstanceSpec(directory, port, -1, -1, true, -1), start);
    }

    public TestingServer(InstanceSpec spec, boolean start) throws Exception {
        this.spec = spec;
        boolean isKept = spec.getDataDirectory() != null && spec.getDataDirectory().exists();
        directory = isKept ? spec.getDataDirectory() : Files.createTempDirectory("curator").toFile();
        empty();
        if (start) {
            start();
        }
    }

    private static String node() {
        return System.getProperty("node");
    }

    private static void empty() throws Exception {
        ZooKeeper client = new ZooKeeper(node(), 10_000, event -> { });
        try {
            while (!client.getState().isConnected()) {
                Thread.sleep(10);
            }
            for (String name : client.getChildren("/", false)) {
                try {
                    if (!name.equals("zookeeper")) {
                        ZKUtil.deleteRecursive(client, "/" + name);
                    }
                } catch (KeeperException stays) {
                    // The directory of locks, or a znode that a former test has protected.
                }
            }
        } finally {
            client.close();
        }
    }

    public int getPort() {
        return spec.getPort();
    }

    public File getTempDirectory() {
        return directory;
    }

    public String getConnectString() {
        return spec.getConnectString();
    }

    public synchronized void start() throws Exception {
        if (listener != null) {
            return;
        }
        listener = new ServerSocket(spec.getPort(), 100, InetAddress.getByName("127.0.0.1"));
        daemon(() -> accept(listener));
    }

    private void accept(ServerSocket from) {
        String[] address = node().split(":");
        while (true) {
            try {
                Socket client = from.accept();
                Socket server = new Socket(address[0], Integer.parseInt(address[1]));
                open.add(client);
                open.add(server);
                daemon(() -> copy(client, server));
                daemon(() -> copy(server, client));
            } catch (IOException stopped) {
                if (from.isClosed()) {
                    return;
                }
            }
        }
    }

    private void copy(Socket from, Socket to) {
        try (InputStream in = from.getInputStream()) {
            in.transferTo(to.getOutputStream());
        } catch (IOException ended) {
            // Either side closed its connection.
        }
        close(from);
        close(to);
    }

    private void close(Socket socket) {
        open.remove(socket);
        try {
            socket.close();
        } catch (IOException closed) {
            // It is closed.
        }
    }

    private static void daemon(Runnable work) {
        Thread thread = new Thread(work);
        thread.setDaemon(true);
        thread.start();
    }

    public synchronized void stop() throws IOException {
        if (listener != null) {
            listener.close();
            listener = null;
        }
        open.forEach(this::close);
    }

    public void restart() throws Exception {
        stop();
        start();
    }

    @Override
    public void close() throws IOException {
        stop();
    }
}
