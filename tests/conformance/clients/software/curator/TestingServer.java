package org.apache.curator.test;

import java.io.BufferedOutputStream;
import java.io.Closeable;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.net.BindException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.Arrays;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.UnaryOperator;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.ZKUtil;
import org.apache.zookeeper.ZooKeeper;

/**
 * Replaces the server of Curator's tests: a proxy to one node of the cluster under test, whose tree a new server
 * empties. A stopped server accepts no connection, and closes those that it has; the cluster runs on.
 *
 * <p>A server of the tests is a single one, whose list of members is empty. Curator would leave the proxy for the members
 * of the cluster, so the proxy empties the list.
 */
public class TestingServer implements Closeable {
    private static final int DATA_AT = 16;
    private static final int STAT_LEN = 68;

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
        client.addAuthInfo("digest", System.getProperty("superuser").getBytes());
        try {
            while (!isEmptied(client)) {
                Thread.sleep(10);
            }
        } finally {
            client.close();
        }
    }

    /** Deletes all znodes but those that each cluster has. False if that must be tried again. */
    private static boolean isEmptied(ZooKeeper client) throws Exception {
        boolean isEmpty = true;
        try {
            for (String name : client.getChildren("/", false)) {
                if (!name.equals("zookeeper")) {
                    // The directory of locks stays.
                    isEmpty &= ZKUtil.deleteRecursive(client, "/" + name, 500) || name.equals("locks");
                }
            }
        } catch (KeeperException.ConnectionLossException | KeeperException.NoNodeException changed) {
            // A client of the test before may still delete znodes.
            return false;
        }
        return isEmpty;
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
        while (listener == null) {
            try {
                ServerSocket opened = new ServerSocket(spec.getPort(), 100, InetAddress.getByName("127.0.0.1"));
                listener = opened;
                daemon(() -> accept(opened));
            } catch (BindException closing) {
                // The thread that accepted for the former listener has not ended yet.
                Thread.sleep(1);
            }
        }
    }

    private void accept(ServerSocket from) {
        String[] address = node().split(":");
        while (true) {
            try {
                Socket client = from.accept();
                Socket server = new Socket(address[0], Integer.parseInt(address[1]));
                open.add(client);
                open.add(server);
                if (from.isClosed()) {
                    close(client);
                    close(server);
                    return;
                }
                Set<Integer> readsMembers = ConcurrentHashMap.newKeySet();
                daemon(() -> copy(client, server, request -> {
                    if (readsMembers(request)) {
                        readsMembers.add(request.getInt(0));
                    }
                    return request;
                }));
                daemon(() -> copy(server, client, reply ->
                    readsMembers.remove(reply.getInt(0)) && reply.limit() > DATA_AT ? withoutData(reply) : reply));
            } catch (IOException stopped) {
                if (from.isClosed()) {
                    return;
                }
            }
        }
    }

    /** Copies frames one by one, each as `edit` returns it. */
    private void copy(Socket from, Socket to, UnaryOperator<ByteBuffer> edit) {
        try (DataInputStream in = new DataInputStream(from.getInputStream())) {
            DataOutputStream out = new DataOutputStream(new BufferedOutputStream(to.getOutputStream()));
            while (true) {
                ByteBuffer frame = edit.apply(ByteBuffer.wrap(in.readNBytes(in.readInt())));
                out.writeInt(frame.limit());
                out.write(frame.array(), 0, frame.limit());
                out.flush();
            }
        } catch (IOException ended) {
            // Either side closed its connection.
        }
        close(from);
        close(to);
    }

    private static boolean readsMembers(ByteBuffer request) {
        String text = new String(request.array(), StandardCharsets.ISO_8859_1);
        return text.startsWith("\0\0\0\4\0\0\0\21/zookeeper/config", Integer.BYTES);
    }

    /** A reply to `getData` (number, zxid, error, data, stat) without its data. */
    private static ByteBuffer withoutData(ByteBuffer reply) {
        byte[] stat = Arrays.copyOfRange(reply.array(), reply.limit() - STAT_LEN, reply.limit());
        return ByteBuffer.wrap(reply.array()).position(DATA_AT).putInt(0).put(stat).flip();
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
