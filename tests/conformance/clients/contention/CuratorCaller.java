import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.StandardLockInternalsDriver;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.RetryForever;

/**
 * Takes the lock with Curator's InterProcessMutex, again and again. Arguments, modes and log as those of the kazoo
 * caller (see log.py). The driver given to the mutex is Curator's own; it only writes down which znode it made.
 */
public final class CuratorCaller {
    private static final String PATH = "/locks/orders";

    private final Path directory;
    private final String who;
    private final FileChannel events;
    private int cycle;

    private CuratorCaller(Path directory, String who) throws IOException {
        this.directory = directory;
        this.who = who;
        this.events = FileChannel.open(
            directory.resolve("events.jsonl"), StandardOpenOption.APPEND, StandardOpenOption.CREATE);
    }

    private void say(String what, String more) throws IOException {
        String line = String.format("{\"t\":%d,\"who\":\"%s\",\"what\":\"%s\",\"cycle\":%d%s}\n",
            System.nanoTime(), who, what, cycle, more);
        events.write(ByteBuffer.wrap(line.getBytes(StandardCharsets.UTF_8)));
    }

    private static String place(String node) {
        long sequence = Long.parseLong(node.substring(node.length() - 10));
        return String.format(",\"node\":\"%s\",\"seq\":%d", node, sequence);
    }

    private boolean enter(String place) throws IOException {
        try (FileChannel witness = FileChannel.open(
                directory.resolve("witness"), StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE)) {
            witness.write(ByteBuffer.wrap(who.getBytes(StandardCharsets.UTF_8)));
        } catch (FileAlreadyExistsException somebodyElse) {
            say("overlap", place);
            return false;
        }
        say("grant", place);
        return true;
    }

    private void work(long holdMs) throws IOException, InterruptedException {
        Path counter = directory.resolve("counter");
        long value = Long.parseLong(Files.readString(counter).trim());
        Thread.sleep(holdMs);
        Path written = directory.resolve("counter." + who);
        Files.writeString(written, (value + 1) + "\n");
        Files.move(written, counter, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
    }

    /** Curator's driver, which tells which contender it made. */
    private final class Noting extends StandardLockInternalsDriver {
        private String made;

        @Override
        public String createsTheLock(CuratorFramework client, String path, byte[] data) throws Exception {
            made = super.createsTheLock(client, path, data);
            say("enqueue", place(made));
            return made;
        }
    }

    private void once(CuratorFramework client, String mode, long holdMs) throws Exception {
        Noting noting = new Noting();
        InterProcessMutex mutex = new InterProcessMutex(client, PATH, noting);
        say("send", "");
        mutex.acquire();
        boolean made = enter(place(noting.made));
        if (mode.equals("hold")) {
            Thread.sleep(3_600_000);
        }
        work(holdMs);
        if (made) {
            Files.delete(directory.resolve("witness"));
        }
        say("release", "");
        mutex.release();
    }

    private void onState(CuratorFramework client, ConnectionState state) {
        if (state == ConnectionState.LOST) {
            try {
                say("lost", ",\"why\":\"session expired\"");
            } catch (IOException unwritable) {
                unwritable.printStackTrace();
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        CuratorCaller caller = new CuratorCaller(Path.of(arguments[1]), arguments[2]);
        String mode = arguments[3];
        int cycles = Integer.parseInt(arguments[4]);
        long holdMs = Long.parseLong(arguments[5]);
        int timeoutMs = Integer.parseInt(arguments[6]);
        CuratorFramework client =
            CuratorFrameworkFactory.newClient(arguments[0], timeoutMs, timeoutMs, new RetryForever(100));
        client.getConnectionStateListenable().addListener(caller::onState);
        client.start();
        while (caller.cycle < cycles || !Files.exists(caller.directory.resolve("stop"))) {
            caller.once(client, mode, holdMs);
            caller.cycle++;
        }
        client.close();
        caller.say("done", "");
    }
}
