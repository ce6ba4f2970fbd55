package io.holdfast;

import java.io.BufferedReader;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/** A program of the tests in another process, which a test kills and pauses. */
public final class TestProcess implements AutoCloseable {
    private final Process process;
    private final BufferedReader lines;

    private TestProcess(Process process) {
        this.process = process;
        this.lines = process.inputReader(StandardCharsets.UTF_8);
    }

    /** Runs the {@code main} of a class with the class path of this process. */
    public static TestProcess start(Class<?> program, String... arguments) throws IOException {
        List<String> command = new ArrayList<>(List.of(
                System.getProperty("java.home") + "/bin/java", "-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
                "-cp", System.getProperty("java.class.path"), program.getName()));
        command.addAll(List.of(arguments));
        return new TestProcess(
                new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start());
    }

    /** The next line that the program prints; null after its end. */
    public String line() throws IOException {
        return lines.readLine();
    }

    /** The number in the next line, which begins with this word. */
    public long number(String word) throws IOException {
        String line = line();
        if (line == null || !line.startsWith(word + " ")) {
            throw new IOException("not " + word + " but " + line);
        }
        return Long.parseLong(line.substring(word.length() + 1));
    }

    /** Reads lines up to this one. */
    public void awaitLine(String wanted) throws IOException {
        for (String line = line(); !wanted.equals(line); line = line()) {
            if (line == null) {
                throw new IOException("the program ended before it printed: " + wanted);
            }
        }
    }

    /** As by {@code kill -9}. */
    public void kill() throws InterruptedException {
        process.destroyForcibly().waitFor();
    }

    /** As by {@code kill -STOP}. */
    public void pause() throws IOException, InterruptedException {
        signal("STOP");
    }

    /** As by {@code kill -CONT}. */
    public void resume() throws IOException, InterruptedException {
        signal("CONT");
    }

    private void signal(String name) throws IOException, InterruptedException {
        new ProcessBuilder("kill", "-" + name, "" + process.pid()).start().waitFor();
    }

    @Override
    public void close() {
        process.destroyForcibly();
    }
}
