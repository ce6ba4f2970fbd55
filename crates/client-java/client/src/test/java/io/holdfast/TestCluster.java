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
import org.junit.jupiter.api.Assumptions;

/** A cluster of real nodes on this machine: the program in HOLDFAST_BIN, by {@code holdfast dev}. */
public final class TestCluster implements AutoCloseable {
    private static final AtomicInteger NEXT_PORT = new AtomicInteger(
            Integer.parseInt(System.getenv().getOrDefault("HOLDFAST_TEST_PORT", "29000")));

    private static final int STARTS_MAX = 5;

    private final Process process;
    private final Writer commands;
    private final List<String> addresses = new ArrayList<>();

    private TestCluster(Process process, int nodes, int port) {
        this.process = process;
        this.commands = process.outputWriter(StandardCharsets.UTF_8);
        for (int node = 0; node < nodes; node++) {
            addresses.add("127.0.0.1:" + (port + 10 * node));
        }
    }

    /** Another program may take a port of the range, so a start that fails is repeated with other ports. */
    public static TestCluster start(int nodes) throws IOException, InterruptedException {
        String program = System.getenv("HOLDFAST_BIN");
        Assumptions.assumeTrue(program != null, "HOLDFAST_BIN names no program, so no cluster can be started");
        List<String> output = new CopyOnWriteArrayList<>();
        for (int start = 0; start < STARTS_MAX; start++) {
            int port = NEXT_PORT.getAndAdd(50);
            Process process = new ProcessBuilder(program, "dev", "--nodes", "" + nodes, "--port", "" + port, "--commands")
                    .redirectErrorStream(true)
                    .start();
            CountDownLatch readyOrOver = new CountDownLatch(1);
            Background.thread("output of the cluster", () -> readOutput(process, output, readyOrOver)).start();
            boolean isInTime = readyOrOver.await(60, TimeUnit.SECONDS);
            TestCluster cluster = new TestCluster(process, nodes, port);
            if (isInTime && process.isAlive()) {
                return cluster;
            }
            cluster.close();
        }
        throw new IOException("no cluster is ready: " + output);
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

    HoldfastBuilder builder() {
        return Holdfast.builder(addresses());
    }

    Holdfast client() {
        return builder().build();
    }

    /** The number of the leader, from 1. */
    int leader(Holdfast client) {
        Delivery read = client.calls().send(Call.get("/v1/cluster"));
        return Integer.parseInt(read.orThrow().header("Holdfast-Leader"));
    }

    void kill(int node) throws IOException {
        command("kill " + node);
    }

    void restart(int node) throws IOException {
        command("restart " + node);
    }

    void pause(int node) throws IOException {
        command("pause " + node);
    }

    void resume(int node) throws IOException {
        command("resume " + node);
    }

    private void command(String line) throws IOException {
        commands.write(line + "\n");
        commands.flush();
    }

    static void sleep(Duration time) throws InterruptedException {
        TimeUnit.NANOSECONDS.sleep(time.toNanos());
    }

    @Override
    public void close() throws InterruptedException {
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
