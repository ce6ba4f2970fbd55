package io.holdfast;

/** A signed number of 64 bits that many callers change. */
public final class Counter {
    private final Holdfast client;
    private final String name;

    Counter(Holdfast client, String name) {
        this.client = client;
        this.name = Names.recipe(name);
    }

    private static long valueOf(Delivery delivery) {
        return delivery.expectingNumbers("value").json().numberOr("value", 0);
    }

    private Call.Target target() {
        return Call.Target.of("/v1/counters/", name);
    }

    /**
     * Reads the value.
     *
     * @return 0 before the first change
     */
    public long get() {
        return valueOf(client.calls().send(Call.get(target().toString())));
    }

    /**
     * Adds an amount exactly once, even if the client sends several copies of the call.
     *
     * @param amount may be negative
     * @return the new value
     * @throws RejectedException if the result does not fit 64 bits
     */
    public long add(long amount) {
        return valueOf(client.once("POST", () -> target().with(Parameter.ADD, amount)));
    }

    /**
     * Replaces the value.
     *
     * @param value the new value
     */
    public void set(long value) {
        valueOf(client.once("PUT", () -> target().with(Parameter.VALUE, value)));
    }

    /** Deletes the counter, which resets it to 0. */
    public void delete() {
        client.once("DELETE", this::target).expectingEnd().orThrow();
    }
}
