package io.holdfast;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.Assumptions;

/** A server of MariaDB for one test, if the machine has its programs. */
final class MariaDb implements AutoCloseable {
    private static final String DATABASE = "shop";

    private final Process server;
    private final Path socket;
    private final int port;

    private MariaDb(Process server, Path socket, int port) {
        this.server = server;
        this.socket = socket;
        this.port = port;
    }

    static MariaDb start(Path folder) throws IOException, InterruptedException {
        boolean isInstalled = Stream.of("/usr/sbin/mariadbd", "/usr/bin/mariadbd").anyMatch(path -> Files.exists(Path.of(path)));
        Assumptions.assumeTrue(isInstalled, "this machine has no MariaDB");
        Path socket = folder.resolve("socket");
        int port = freePort();
        List<String> data = List.of("--no-defaults", "--datadir=" + folder.resolve("data"), "--user=" + System.getProperty("user.name"));
        run(command("mariadb-install-db", data, "--skip-test-db", "--auth-root-authentication-method=normal"));
        Process server = quiet(command("mariadbd", data, "--socket=" + socket, "--bind-address=127.0.0.1", "--port=" + port))
                .start();
        MariaDb started = new MariaDb(server, socket, port);
        long until = System.nanoTime() + TimeUnit.MINUTES.toNanos(1);
        while (started.client("--execute=CREATE DATABASE " + DATABASE).start().waitFor() != 0) {
            assertEquals(true, server.isAlive() && System.nanoTime() < until, "the server does not start");
            TimeUnit.MILLISECONDS.sleep(100);
        }
        return started;
    }

    /** Runs the statements that a program prints. */
    void install(String... program) throws IOException, InterruptedException {
        ProcessBuilder print = new ProcessBuilder(program).redirectError(ProcessBuilder.Redirect.INHERIT);
        for (Process process : ProcessBuilder.startPipeline(List.of(print, client(DATABASE)))) {
            assertEquals(0, process.waitFor());
        }
    }

    String url() {
        return "jdbc:mariadb://127.0.0.1:" + port + "/" + DATABASE + "?user=root";
    }

    private ProcessBuilder client(String argument) {
        return quiet(command("mariadb", List.of("--no-defaults", "--user=root", "--socket=" + socket), argument));
    }

    private static List<String> command(String program, List<String> first, String... rest) {
        List<String> command = new ArrayList<>(List.of(program));
        command.addAll(first);
        command.addAll(List.of(rest));
        return command;
    }

    private static ProcessBuilder quiet(List<String> command) {
        return new ProcessBuilder(command)
                .redirectOutput(ProcessBuilder.Redirect.DISCARD)
                .redirectError(ProcessBuilder.Redirect.DISCARD);
    }

    private static void run(List<String> command) throws IOException, InterruptedException {
        assertEquals(0, quiet(command).start().waitFor(), command.get(0));
    }

    private static int freePort() throws IOException {
        try (ServerSocket any = new ServerSocket(0)) {
            return any.getLocalPort();
        }
    }

    @Override
    public void close() throws InterruptedException {
        server.destroyForcibly().waitFor();
    }
}
