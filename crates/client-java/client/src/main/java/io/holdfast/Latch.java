package io.holdfast;

import java.time.Duration;

/** A latch, which opens after a number of different keys and stays open until its deletion. */
public final class Latch {
    private final Holdfast client;
    private final String name;

    Latch(Holdfast client, String name) {
        this.client = client;
        this.name = Names.recipe(name);
    }

    private Call.Target target() {
        return Call.Target.of("/v1/latches/", name);
    }

    /**
     * Creates the latch, unless one with the same count exists.
     *
     * @param count the number of keys
     * @throws RejectedException if one with another count exists
     */
    public void create(int count) {
        client.once("PUT", () -> target().with(Parameter.COUNT, count)).expectingNumbers("left").orThrow();
    }

    /**
     * Counts down once for each key; a repeated call changes nothing.
     *
     * @param key a name without '/' and white space
     * @return the count left after the first call for the key
     */
    public long countDown(String key) {
        Names.flat("the key", key, 64);
        return client.once("POST", () -> target().with(Parameter.KEY, key)).expectingNumbers("left").json().numberOr("left", 0);
    }

    /**
     * Waits until the latch is open.
     *
     * @param wait the maximum wait; zero only reads the latch
     * @throws InterruptedException if the thread is interrupted
     * @throws BusyException if the latch is not open in time
     * @throws LostException if the client is closed
     */
    public void await(Duration wait) throws InterruptedException {
        Clock clock = client.clock();
        long until = Clock.plus(clock.nanos(), Acquire.nanos(wait));
        Stop stop = new Stop();
        Delivery read;
        try (Pending.Work latched = client.waits().stoppable(stop)) {
            do {
                read = client.calls().repeatUntil(
                        until, () -> true, left -> Call.get(target().waiting(left).toString()), stop);
            } while (read.error() instanceof BusyException && clock.nanos() < until);
        }
        if (read.isStopped()) {
            throw new LostException(Loss.SESSION_ENDED);
        }
        read.expectingNumbers("left").orThrow();
    }

    /** Deletes the latch. Callers that wait for it get {@link RejectedException}. */
    public void delete() {
        client.once("DELETE", this::target).expectingEnd().orThrow();
    }
}
