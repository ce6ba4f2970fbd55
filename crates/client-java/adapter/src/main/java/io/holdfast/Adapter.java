package io.holdfast;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;

/**
 * The program that plays the scenarios of the suite with this client: one JSON request on each line of stdin, one JSON
 * answer or event on each line of stdout. Requests run concurrently. It shares the package of the client for its JSON
 * reader, and uses only public calls otherwise.
 */
public final class Adapter {
    private static final Map<Class<?>, String> KINDS = Map.of(
            BusyException.class, "busy",
            LostException.class, "lost",
            UnavailableException.class, "unavailable",
            OutcomeUnknownException.class, "outcome-unknown",
            RejectedException.class, "rejected",
            UnexpectedResponseException.class, "unexpected-response",
            InvalidArgumentException.class, "invalid-argument");

    private final PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
    private final Map<Long, Thread> pending = new ConcurrentHashMap<>();
    private final Operations operations = new Operations(this::event);

    private Adapter() {}

    /**
     * Runs until stdin ends or a request ends the program.
     *
     * @param arguments none
     * @throws IOException if stdin cannot be read
     * @throws InterruptedException never
     */
    public static void main(String[] arguments) throws IOException, InterruptedException {
        new Adapter().run();
    }

    private void run() throws IOException, InterruptedException {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            if (line.isBlank()) {
                continue;
            }
            Json request = Json.parse(line);
            switch (request.textOr("do", "")) {
                case "block" -> {
                    // The thread that reads requests blocks; the threads of the client do not.
                    TimeUnit.MILLISECONDS.sleep(request.numberOr("ms", 0));
                    answer(request, Map.of());
                }
                case "shutdown" -> {
                    operations.closeAll();
                    answer(request, Map.of());
                    return;
                }
                case "cancel" -> cancel(request);
                case "describe" -> answer(request, Description.of(Adapter::kindOf));
                default -> start(request);
            }
        }
        operations.closeAll();
    }

    private void start(Json request) {
        Thread thread = Background.thread("request", () -> execute(request));
        pending.put(request.numberOr("id", 0), thread);
        thread.start();
    }

    private void cancel(Json request) {
        Thread thread = pending.get(request.numberOr("request", -1));
        if (thread != null) {
            thread.interrupt();
        }
        answer(request, Map.of());
    }

    private void execute(Json request) {
        Map<String, Object> answer;
        try {
            answer = Map.of("ok", operations.execute(request));
        } catch (InterruptedException e) {
            answer = error("cancelled", "the request was cancelled", null);
        } catch (HoldfastException e) {
            answer = error(kindOf(e.getClass()), e.getMessage(), e);
        } catch (UnsupportedOperationException e) {
            answer = error("unsupported", e.getMessage(), null);
        } catch (RuntimeException e) {
            answer = error("invalid-argument", e.toString(), null);
        }
        pending.remove(request.numberOr("id", 0));
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("id", request.numberOr("id", 0));
        line.putAll(answer);
        print(line);
    }

    private static Map<String, Object> error(String kind, String message, HoldfastException thrown) {
        Map<String, Object> error = new LinkedHashMap<>();
        error.put("kind", kind);
        if (thrown != null) {
            String cause = thrown instanceof LostException lost ? lost.loss().cause().code() : null;
            error.put("code", thrown.code() == null ? cause : thrown.code());
            error.put("cause", cause);
            error.put("retryable", thrown.retryable());
        }
        error.put("message", message);
        return Map.of("error", error);
    }

    private static String kindOf(Class<?> error) {
        return KINDS.getOrDefault(error, "invalid-argument");
    }

    private void answer(Json request, Map<String, Object> ok) {
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("id", request.numberOr("id", 0));
        line.put("ok", ok);
        print(line);
    }

    private void event(Map<String, Object> event) {
        print(event);
    }

    private void print(Object value) {
        StringBuilder text = new StringBuilder();
        write(text, value);
        // A print stream writes a line without another one in between.
        out.println(text);
        out.flush();
    }

    private static void write(StringBuilder text, Object value) {
        if (value instanceof Map<?, ?> map) {
            String separator = "{";
            for (Map.Entry<?, ?> member : map.entrySet()) {
                text.append(separator);
                write(text, member.getKey());
                text.append(':');
                write(text, member.getValue());
                separator = ",";
            }
            text.append(map.isEmpty() ? "{}" : "}");
        } else if (value instanceof List<?> list) {
            String separator = "[";
            for (Object element : list) {
                text.append(separator);
                write(text, element);
                separator = ",";
            }
            text.append(list.isEmpty() ? "[]" : "]");
        } else if (value instanceof String string) {
            quote(text, string);
        } else {
            text.append(value);
        }
    }

    private static void quote(StringBuilder text, String string) {
        text.append('"');
        for (char c : string.toCharArray()) {
            if (c == '"' || c == '\\') {
                text.append('\\').append(c);
            } else if (c < ' ') {
                text.append(String.format("\\u%04x", (int) c));
            } else {
                text.append(c);
            }
        }
        text.append('"');
    }
}
