import com.sun.management.OperatingSystemMXBean;
import io.holdfast.Holdfast;
import java.lang.management.ManagementFactory;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.atomic.LongAdder;
import java.util.function.IntFunction;
import java.util.function.LongPredicate;
import java.util.stream.IntStream;

/**
 * Counts cycles of one acquire and one release, by the client and by a bare loop of the same calls: {@code Speed TURNS SECONDS}.
 *
 * <p>The loop sends them by {@code java.net.http}, on one connection a task, to the first address in HOLDFAST_ADDR.
 */
final class Speed {
    private static final int[] TASKS = {1, 64, 256};
    private static final int TASKS_MAX = 256;
    /** The windows of the warm-up that are compared with as many earlier ones. */
    private static final int WINDOWS = 3;
    private static final long WARM_UP_NANOS_MAX = 180_000_000_000L;
    private static final String[] ADDRESSES = System.getenv("HOLDFAST_ADDR").split(",");
    private static final HttpClient HTTP = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();

    private record Result(double rate, double used) {}

    private Speed() {}

    public static void main(String[] arguments) throws InterruptedException {
        measure(arguments, Speed::sent);
    }

    /**
     * Prints a line for 1, 64 and 256 tasks in each turn: the tasks, the cycles of a second by the client and by the other kind, and the
     * processor time of a cycle in microseconds by both. Each task has one lock. The arguments are TURNS SECONDS; {@code other}
     * returns the cycle of a task.
     */
    static void measure(String[] arguments, IntFunction<Callable<?>> other) throws InterruptedException {
        int turns = Integer.parseInt(arguments[0]);
        long nanos = Integer.parseInt(arguments[1]) * 1_000_000_000L;
        List<Callable<?>> clients = new ArrayList<>();
        List<Callable<?>> others = new ArrayList<>();
        try (Holdfast holdfast = Holdfast.connect(ADDRESSES)) {
            for (int task = 0; task < TASKS_MAX; task++) {
                clients.add(locked(holdfast, task));
                others.add(other.apply(task));
            }
            warmUp(nanos, clients);
            warmUp(nanos, others);
            for (int turn = 0; turn < turns; turn++) {
                for (int tasks : TASKS) {
                    Result client = runFor(nanos, clients.subList(0, tasks));
                    Result beside = runFor(nanos, others.subList(0, tasks));
                    System.out.printf("%d %.0f %.0f %.0f %.0f%n", tasks, client.rate(), beside.rate(), client.used(), beside.used());
                }
            }
        }
    }

    /** Runs all cycles until their rate is flat: until then the virtual machine compiles. */
    private static void warmUp(long nanos, List<Callable<?>> cycles) throws InterruptedException {
        List<Double> rates = new ArrayList<>();
        for (long began = System.nanoTime(); !isFlat(rates) && System.nanoTime() - began < WARM_UP_NANOS_MAX; ) {
            rates.add(runFor(nanos, cycles).rate());
        }
    }

    /** Whether the last three rates together are no greater than some three consecutive rates before them. */
    private static boolean isFlat(List<Double> rates) {
        int last = rates.size() - WINDOWS;
        return IntStream.rangeClosed(0, last - WINDOWS).anyMatch(at -> sum(rates, last) <= sum(rates, at));
    }

    private static double sum(List<Double> rates, int from) {
        return rates.subList(from, from + WINDOWS).stream().mapToDouble(Double::doubleValue).sum();
    }

    private static Result runFor(long nanos, List<Callable<?>> cycles) throws InterruptedException {
        long began = System.nanoTime();
        return run(cycles, count -> System.nanoTime() - began >= nanos);
    }

    /** The cycles of a second, and the microseconds of processor time of a cycle. */
    private static Result run(List<Callable<?>> cycles, LongPredicate isOver) throws InterruptedException {
        LongAdder count = new LongAdder();
        List<Thread> threads = new ArrayList<>();
        long began = System.nanoTime();
        long used = processorTime();
        for (Callable<?> cycle : cycles) {
            Thread thread = new Thread(() -> repeat(cycle, count, isOver));
            threads.add(thread);
            thread.start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
        double counted = count.sum();
        return new Result(counted / (System.nanoTime() - began) * 1e9, (processorTime() - used) / counted / 1e3);
    }

    private static void repeat(Callable<?> cycle, LongAdder count, LongPredicate isOver) {
        try {
            for (; !isOver.test(count.sum()); count.increment()) {
                cycle.call();
            }
        } catch (Exception e) {
            e.printStackTrace();
            System.exit(1);
        }
    }

    private static Callable<?> locked(Holdfast holdfast, int task) {
        return () -> {
            holdfast.lock("client-" + task).acquire().release();
            return null;
        };
    }

    private static Callable<?> sent(int task) {
        long[] attempt = {System.currentTimeMillis() * 1_000};
        return () -> {
            attempt[0]++;
            String call = "http://" + ADDRESSES[0] + "/v1/locks/bare-" + task + "?session=bare-" + ProcessHandle.current().pid()
                    + "&owner=task-" + task + "&attempt=" + attempt[0];
            send("PUT", call + "&wait=30s&ttl=1m");
            send("DELETE", call);
            return null;
        };
    }

    private static void send(String method, String call) throws Exception {
        HttpRequest request = HttpRequest.newBuilder(URI.create(call)).method(method, HttpRequest.BodyPublishers.noBody()).build();
        HttpResponse<String> answer = HTTP.send(request, HttpResponse.BodyHandlers.ofString());
        if (answer.statusCode() >= 300) {
            throw new IllegalStateException(answer.body());
        }
    }

    /** In nanoseconds, of this process. */
    private static long processorTime() {
        return ((OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
    }
}
