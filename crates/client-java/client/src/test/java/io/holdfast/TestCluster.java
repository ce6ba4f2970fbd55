package io.holdfast;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.Writer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.UnaryOperator;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.extension.AfterAllCallback;
import org.junit.jupiter.api.extension.AfterEachCallback;
import org.junit.jupiter.api.extension.BeforeAllCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.ExtensionContext;

/**
 * A cluster of real nodes on this machine: the program in HOLDFAST_BIN, by {@code holdfast dev}. A static field with
 * {@code @RegisterExtension} is one cluster for all tests of a class, another field a new one for each test.
 */
public final class TestCluster implements BeforeAllCallback, BeforeEachCallback, AfterEachCallback, AfterAllCallback {
    private static final AtomicInteger NEXT_PORT = new AtomicInteger(
            Integer.parseInt(System.getenv().getOrDefault("HOLDFAST_TEST_PORT", "29000")));

    private static final int STARTS_MAX = 5;

    private final int nodes;
    private final List<String> addresses = new ArrayList<>();
    private final List<Holdfast> clients = new CopyOnWriteArrayList<>();
    private Process process;
    private Writer commands;
    private boolean isOfClass;

    private TestCluster(int nodes) {
        this.nodes = nodes;
    }

    /** A cluster that JUnit starts before the tests. */
    public static TestCluster of(int nodes) {
        return new TestCluster(nodes);
    }

    @Override
    public void beforeAll(ExtensionContext context) throws IOException, InterruptedException {
        isOfClass = true;
        start();
    }

    @Override
    public void beforeEach(ExtensionContext context) throws IOException, InterruptedException {
        if (!isOfClass) {
            start();
        }
    }

    @Override
    public void afterEach(ExtensionContext context) throws InterruptedException {
        for (Holdfast client : clients) {
            try {
                client.close();
            } catch (HoldfastException e) {
                // The test has stopped the nodes.
            }
        }
        clients.clear();
        if (!isOfClass) {
            stop();
        }
    }

    @Override
    public void afterAll(ExtensionContext context) throws InterruptedException {
        stop();
    }

    /** Another program may take a port of the range, so a start that fails is repeated with other ports. */
    private void start() throws IOException, InterruptedException {
        String program = System.getenv("HOLDFAST_BIN");
        Assumptions.assumeTrue(program != null, "HOLDFAST_BIN names no program, so no cluster can be started");
        List<String> output = new CopyOnWriteArrayList<>();
        for (int start = 0; start < STARTS_MAX; start++) {
            if (startAt(NEXT_PORT.getAndAdd(50), program, output)) {
                return;
            }
            stop();
        }
        throw new IOException("no cluster is ready: " + output);
    }

    private boolean startAt(int port, String program, List<String> output) throws IOException, InterruptedException {
        process = new ProcessBuilder(program, "dev", "--nodes", "" + nodes, "--port", "" + port, "--commands")
                .redirectErrorStream(true)
                .start();
        commands = process.outputWriter(StandardCharsets.UTF_8);
        addresses.clear();
        for (int node = 0; node < nodes; node++) {
            addresses.add("127.0.0.1:" + (port + 10 * node));
        }
        CountDownLatch readyOrOver = new CountDownLatch(1);
        Background.thread("output of the cluster", () -> readOutput(process, output, readyOrOver)).start();
        return readyOrOver.await(60, TimeUnit.SECONDS) && process.isAlive();
    }

    private static void readOutput(Process process, List<String> output, CountDownLatch readyOrOver) {
        try (BufferedReader lines = process.inputReader(StandardCharsets.UTF_8)) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                output.add(line);
                if (line.startsWith("ready ")) {
                    readyOrOver.countDown();
                }
            }
            process.waitFor();
        } catch (IOException | InterruptedException e) {
            // The cluster has ended.
        }
        readyOrOver.countDown();
    }

    public String[] addresses() {
        return addresses.toArray(String[]::new);
    }

    /** A client of the cluster, which is closed after the test. */
    public Holdfast client(UnaryOperator<HoldfastBuilder> options) {
        Holdfast client = options.apply(Holdfast.builder(addresses())).build();
        clients.add(client);
        return client;
    }

    /** A client with the default options. */
    public Holdfast client() {
        return client(options -> options);
    }

    /** The number of the leader, from 1. */
    int leader(Holdfast client) {
        Delivery read = client.calls().send(Call.get("/v1/cluster"));
        return Integer.parseInt(read.orThrow().header("Holdfast-Leader"));
    }

    public void kill(int node) throws IOException {
        command("kill " + node);
    }

    public void restart(int node) throws IOException {
        command("restart " + node);
    }

    public void pause(int node) throws IOException {
        command("pause " + node);
    }

    public void resume(int node) throws IOException {
        command("resume " + node);
    }

    private void command(String line) throws IOException {
        commands.write(line + "\n");
        commands.flush();
    }

    public static void sleep(Duration time) throws InterruptedException {
        TimeUnit.NANOSECONDS.sleep(time.toNanos());
    }

    private void stop() throws InterruptedException {
        if (process == null) {
            return;
        }
        try {
            command("stop");
        } catch (IOException e) {
            process.destroy();
        }
        if (!process.waitFor(15, TimeUnit.SECONDS)) {
            process.destroy();
        }
    }
}
