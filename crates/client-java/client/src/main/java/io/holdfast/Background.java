package io.holdfast;

import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Executor;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/** The threads of a client: releases in the background, reads of locks and listeners of the caller. Daemon threads. */
final class Background {
    private static final System.Logger LOG = System.getLogger("io.holdfast");
    /** A renewal may need a read of each lock, so more reads than this wait for a thread. */
    static final int READERS_MAX = 4;

    private final Executor executor = threads("holdfast-task", 0, Integer.MAX_VALUE, new SynchronousQueue<>());
    private final Executor readers = threads("holdfast-read", READERS_MAX, READERS_MAX, new LinkedBlockingQueue<>());

    private static Executor threads(String name, int core, int max, BlockingQueue<Runnable> queue) {
        var threads = new ThreadPoolExecutor(core, max, 10, TimeUnit.SECONDS, queue, task -> thread(name, task));
        threads.allowCoreThreadTimeOut(true);
        return threads;
    }

    void run(Runnable task) {
        executor.execute(() -> runGuarded(task));
    }

    /** As {@link #run}, for reads of locks. */
    void read(Runnable task) {
        readers.execute(() -> runGuarded(task));
    }

    /** Runs a task that may call a listener of the caller. What it throws is logged, and ends no thread. */
    static void runGuarded(Runnable task) {
        try {
            task.run();
        } catch (Throwable e) {
            LOG.log(System.Logger.Level.WARNING, "a listener or a task failed", e);
        }
    }

    static Thread thread(String name, Runnable task) {
        Thread thread = new Thread(task, name);
        thread.setDaemon(true);
        return thread;
    }
}
