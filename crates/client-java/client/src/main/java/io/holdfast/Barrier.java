package io.holdfast;

import java.time.Duration;

/** A barrier, which opens for all parties when the last one arrives. */
public final class Barrier {
    private final Holdfast client;
    private final String name;
    private final int parties;

    Barrier(Holdfast client, String name, int parties) {
        this.client = client;
        this.name = name;
        this.parties = parties;
    }

    /**
     * Arrives and waits for the other parties. The end of the wait breaks the barrier for the waiting parties.
     *
     * @param wait the maximum wait
     * @throws InterruptedException if the thread is interrupted, which breaks the barrier
     * @throws BusyException if the others did not arrive in time
     * @throws RejectedException with {@code barrier-broken} if another party left
     */
    public void await(Duration wait) throws InterruptedException {
        Arrival.at(client, "/v1/barriers/", name, parties, wait).end();
    }
}
