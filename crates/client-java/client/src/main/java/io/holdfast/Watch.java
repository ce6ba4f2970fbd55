package io.holdfast;

import java.util.List;
import java.util.function.Function;

/**
 * A watch of changes in the tree, in a separate thread. It resumes at another node without a gap, or reports one.
 * Closing it or its client ends the watch. If the cluster rejects it, or no address answers as a node at its start, it ends
 * with a warning in the log.
 */
public final class Watch implements AutoCloseable {
    private static final System.Logger LOG = System.getLogger("io.holdfast");
    private static final long POLL = 30_000 * Clock.MILLI;
    private static final long RETRY = 500 * Clock.MILLI;

    /**
     * A change.
     *
     * @param path the path of the znode; a lock is {@code /locks/NAME}
     * @param kind {@code created}, {@code changed} or {@code deleted}; of a lock also {@code granted} or {@code lost}
     * @param revision the revision of the change
     * @param token the token of a grant or a loss; 0 for other changes
     */
    public record Change(String path, String kind, long revision, long token) {}

    /** Receives changes in a thread of the watch, each once: the log has what a listener throws, and the watch continues. */
    public interface Listener {
        /**
         * A change, in the order of the revisions.
         *
         * @param change the change
         */
        void changed(Change change);

        /** The cluster no longer has some changes: read the state again. */
        void missed();
    }

    private final Holdfast client;
    private final Parameter parameter;
    private final String path;
    /**
     * Returns the call of the listener for a change, or for a gap if the change is null. If it throws, e.g. because no node
     * answers its read, the watch repeats it.
     */
    private final Function<Change, Runnable> reports;
    private final Thread thread;
    /** The watch has delivered all changes up to this revision; null before the start and after a gap. */
    private Long since;
    private boolean readsAgain;
    private volatile boolean isClosed;

    private Watch(Holdfast client, Parameter parameter, String path, Function<Change, Runnable> reports) {
        this.client = client;
        this.parameter = parameter;
        this.path = path;
        this.reports = reports;
        this.thread = Background.thread("holdfast-watch", this::run);
    }

    /** Starts a watch that misses no change after this call. */
    static Watch after(Holdfast client, Parameter parameter, String path, Function<Change, Runnable> reports) {
        Watch watch = new Watch(client, parameter, path, reports);
        watch.since = client.calls().send(watch.poll(null, 0)).expectingNumbers("revision").json().number("revision");
        watch.thread.start();
        return watch;
    }

    /** Starts a watch that first reports a gap, so that the state is read. */
    static Watch withState(Holdfast client, Parameter parameter, String path, Function<Change, Runnable> reports) {
        Watch watch = new Watch(client, parameter, path, reports);
        watch.thread.start();
        return watch;
    }

    /** As {@link #withState}, and reports a gap after a poll without changes: another value of a lock is no change here. */
    static Watch withStateReadAgain(
            Holdfast client, Parameter parameter, String path, Function<Change, Runnable> reports) {
        Watch watch = new Watch(client, parameter, path, reports);
        watch.readsAgain = true;
        watch.thread.start();
        return watch;
    }

    private boolean isOver() {
        return isClosed || client.isClosed();
    }

    private void run() {
        HoldfastException rejection = null;
        while (!isOver() && rejection == null) {
            Stop stop = new Stop();
            try (Pending.Work step = client.waits().stoppable(stop)) {
                rejection = stepOrPause(stop);
            } catch (InterruptedException e) {
                return;
            }
        }
        if (rejection != null && !isOver()) {
            String text = "the watch of " + path + " has ended: " + rejection.getMessage();
            LOG.log(System.Logger.Level.WARNING, text);
        }
    }

    /** As {@link #step}. After another error, returns null when the next poll may begin. */
    private HoldfastException stepOrPause(Stop stop) throws InterruptedException {
        try {
            return step(stop);
        } catch (RuntimeException e) {
            LOG.log(System.Logger.Level.DEBUG, () -> "a watch continues after an error: " + e.getMessage());
            long at = e instanceof HoldfastException refused ? refused.retryAt : Long.MIN_VALUE / 2;
            stop.await(Math.max(RETRY, Clock.left(at, client.clock().nanos())));
            return null;
        }
    }

    /** Polls once. Returns the error that a repetition would return as well, or null. */
    private HoldfastException step(Stop stop) throws InterruptedException {
        boolean isStart = since == null;
        Calls calls = client.calls();
        Delivery delivery = calls.deliver(isStart ? poll(null, 0) : poll(since, POLL), stop);
        if (delivery.isStopped()) {
            return null;
        }
        if (delivery.error() instanceof RejectedException error && !calls.mayGetToken(error)) {
            since = null;
            return error.hasCode(Codes.REVISION_COMPACTED) ? null : error;
        }
        if (isStart && delivery.error() instanceof UnexpectedResponseException error) {
            return error;
        }
        Json body = delivery.expectingNumbers("revision").json();
        if (isStart) {
            report(null);
        }
        since = isStart ? Long.valueOf(body.numberOr("revision", 0)) : deliver(body);
        return null;
    }

    private void report(Change change) {
        Runnable call = reports.apply(change);
        if (!isOver()) {
            Background.runGuarded(call);
        }
    }

    private Call poll(Long since, long wait) {
        String target = new Call.Target("/v1/watch")
                .with(parameter, path)
                .with(Parameter.SINCE, since)
                .with(Parameter.WAIT, wait / Clock.MILLI + "ms")
                .toString();
        return Call.get(target).waiting(wait);
    }

    private Long deliver(Json body) {
        List<Json> events = body.list("events");
        for (Json event : events) {
            if (!isOver()) {
                report(new Change(
                        event.text("path"),
                        event.text("kind"),
                        event.numberOr("revision", 0),
                        event.numberOr("token", 0)));
            }
        }
        return readsAgain && events.isEmpty() ? null : body.number("revision");
    }

    @Override
    public void close() {
        isClosed = true;
        thread.interrupt();
    }
}
