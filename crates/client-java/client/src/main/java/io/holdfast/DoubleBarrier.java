package io.holdfast;

import java.time.Duration;

/** A double barrier: the parties enter together and leave together. */
public final class DoubleBarrier {
    private final Holdfast client;
    private final String name;
    private final int parties;

    DoubleBarrier(Holdfast client, String name, int parties) {
        this.client = client;
        this.name = name;
        this.parties = parties;
    }

    /** A place inside a double barrier. If the process dies, the place ends with its session. */
    public static final class Inside {
        private final Arrival arrival;

        private Inside(Arrival arrival) {
            this.arrival = arrival;
        }

        /**
         * Leaves, and waits until all parties have left. A second call only waits.
         *
         * @param wait the maximum wait
         * @throws InterruptedException if the thread is interrupted
         * @throws BusyException if others are still inside; this party has left in any case
         */
        public void leave(Duration wait) throws InterruptedException {
            try {
                arrival.leave(wait);
            } finally {
                arrival.end();
            }
        }
    }

    /**
     * Waits until enough other parties enter. The end of the wait gives up the place and breaks nothing.
     *
     * @param wait the maximum wait
     * @return the place inside
     * @throws InterruptedException if the thread is interrupted
     * @throws BusyException if the others did not arrive in time
     */
    public Inside enter(Duration wait) throws InterruptedException {
        return new Inside(Arrival.at(client, "/v1/double-barriers/", name, parties, wait));
    }
}
