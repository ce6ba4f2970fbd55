package io.holdfast;

/**
 * A watch of changes in the tree, in a thread of its own. It resumes at another node without a gap, or reports one.
 * Closing it ends the watch.
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
    private final String parameter;
    private final String path;
    private final Listener listener;
    private final boolean startsWithMissed;
    private final Thread thread;
    private volatile boolean isClosed;

    private Watch(Holdfast client, String parameter, String path, boolean startsWithMissed, Listener listener) {
        this.calls = client.calls();
        this.parameter = parameter;
        this.path = path;
        this.startsWithMissed = startsWithMissed;
        this.listener = listener;
        this.thread = Background.thread("holdfast-watch", this::run);
    }

    /** With {@code startsWithMissed}, first reports a gap, so that the listener reads the state after the start. */
    static Watch start(Holdfast client, String parameter, String path, boolean startsWithMissed, Listener listener) {
        Watch watch = new Watch(client, parameter, path, startsWithMissed, listener);
        watch.thread.start();
        return watch;
    }

    private void run() {
        Long since = null;
        boolean isMissing = startsWithMissed;
        while (!isClosed) {
            try {
                if (since == null) {
                    since = poll(null, 0).json().numberOr("revision", 0);
                }
                if (isMissing) {
                    listener.missed();
                    isMissing = false;
                }
                Delivery delivery = poll(since, POLL);
                if (delivery.error() != null && delivery.error().hasCode("revision-compacted")) {
                    since = null;
                    isMissing = true;
                } else {
                    since = deliver(delivery.json());
                }
            } catch (InterruptedException e) {
                return;
            } catch (RuntimeException e) {
                pause(e);
            }
        }
    }

    private void pause(RuntimeException error) {
        if (!isClosed) {
            LOG.log(System.Logger.Level.DEBUG, () -> "a watch continues after an error: " + error.getMessage());
            Signal.sleepUninterruptibly(RETRY);
        }
    }

    private Delivery poll(Long since, long wait) throws InterruptedException {
        String target = new Call.Target("/v1/watch")
                .with(parameter, path)
                .with("since", since)
                .with("wait", wait / Clock.MILLI + "ms")
                .toString();
        return calls.deliver(Call.get(target).waiting(wait), null);
    }

    private long deliver(Json body) {
        for (Json event : body.list("events")) {
            if (!isClosed) {
                listener.changed(new Change(
                        event.text("path"),
                        event.text("kind"),
                        event.numberOr("revision", 0),
                        event.numberOr("token", 0)));
            }
        }
        return body.numberOr("revision", 0);
    }

    @Override
    public void close() {
        isClosed = true;
        thread.interrupt();
    }
}
