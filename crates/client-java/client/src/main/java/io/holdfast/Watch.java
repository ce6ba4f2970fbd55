package io.holdfast;

import java.util.List;

/**
 * A watch of changes in the tree, in a separate thread. It resumes at another node without a gap, or reports one.
 * Closing it ends the watch. If the cluster rejects it, or no address answers as a node at its start, it ends with a warning
 * in the log.
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

    /** Receives changes in a thread of the watch. */
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

    private final Calls calls;
    private final Parameter parameter;
    private final String path;
    private final Listener listener;
    private final Thread thread;
    /** The watch has delivered all changes up to this revision; null before the start and after a gap. */
    private Long since;
    private boolean readsAgain;
    private volatile boolean isClosed;

    private Watch(Holdfast client, Parameter parameter, String path, Listener listener) {
        this.calls = client.calls();
        this.parameter = parameter;
        this.path = path;
        this.listener = listener;
        this.thread = Background.thread("holdfast-watch", this::run);
    }

    /** Starts a watch that misses no change after this call. */
    static Watch after(Holdfast client, Parameter parameter, String path, Listener listener) {
        Watch watch = new Watch(client, parameter, path, listener);
        watch.since = client.calls().send(watch.poll(null, 0)).expectingNumbers("revision").json().number("revision");
        watch.thread.start();
        return watch;
    }

    /** Starts a watch that first reports a gap, so that the listener reads the state. */
    static Watch withState(Holdfast client, Parameter parameter, String path, Listener listener) {
        Watch watch = new Watch(client, parameter, path, listener);
        watch.thread.start();
        return watch;
    }

    /** As {@link #withState}, and reports a gap after a poll without changes: another value of a lock is no change here. */
    static Watch withStateReadAgain(Holdfast client, Parameter parameter, String path, Listener listener) {
        Watch watch = new Watch(client, parameter, path, listener);
        watch.readsAgain = true;
        watch.thread.start();
        return watch;
    }

    private void run() {
        HoldfastException rejection = null;
        while (!isClosed && rejection == null) {
            try {
                rejection = step();
            } catch (InterruptedException e) {
                return;
            } catch (RuntimeException e) {
                pause(e);
            }
        }
        if (rejection != null && !isClosed) {
            String text = "the watch of " + path + " has ended: " + rejection.getMessage();
            LOG.log(System.Logger.Level.WARNING, text);
        }
    }

    /** Polls once. Returns the error that a repetition would return as well, or null. */
    private HoldfastException step() throws InterruptedException {
        boolean isStart = since == null;
        Delivery delivery = calls.deliver(isStart ? poll(null, 0) : poll(since, POLL), null);
        if (delivery.error() instanceof RejectedException error && !calls.mayGetToken(error)) {
            since = null;
            return error.hasCode(Codes.REVISION_COMPACTED) ? null : error;
        }
        if (isStart && delivery.error() instanceof UnexpectedResponseException error) {
            return error;
        }
        Json body = delivery.expectingNumbers("revision").json();
        if (isStart) {
            listener.missed();
        }
        since = isStart ? Long.valueOf(body.numberOr("revision", 0)) : deliver(body);
        return null;
    }

    private void pause(RuntimeException error) {
        if (!isClosed) {
            LOG.log(System.Logger.Level.DEBUG, () -> "a watch continues after an error: " + error.getMessage());
            long at = error instanceof HoldfastException refused ? refused.retryAt : Long.MIN_VALUE / 2;
            Signal.sleepUninterruptibly(Math.max(RETRY, Clock.left(at, calls.clock.nanos())));
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
            if (!isClosed) {
                listener.changed(new Change(
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
