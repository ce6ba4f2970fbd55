package io.holdfast;

import java.time.Duration;

/** An arrival at a barrier or a double barrier; each is a separate party. */
final class Arrival {
    private final Holdfast client;
    private final Session session;
    private final String path;
    private final String name;
    private final String owner = Numbers.unique("a");
    /** The round that the party entered. */
    private long generation;

    private Arrival(Holdfast client, Session session, String path, String name) {
        this.client = client;
        this.session = session;
        this.path = path;
        this.name = name;
    }

    /** Arrives and waits for the other parties. The arrival uses the session until {@link #end}. */
    static Arrival at(Holdfast client, String path, String name, int parties, Duration wait)
            throws InterruptedException {
        Session session = client.sessions().use(null);
        Arrival arrival = new Arrival(client, session, path, Names.recipe(name));
        boolean hasArrived = false;
        try {
            arrival.arrive(parties, Clock.plus(client.clock().nanos(), Acquire.nanos(wait)));
            hasArrived = true;
            return arrival;
        } finally {
            if (!hasArrived) {
                arrival.end();
            }
        }
    }

    private void arrive(int parties, long until) throws InterruptedException {
        long request = Numbers.next(0);
        Delivery arrived = send(request, parties, until);
        long newest = arrived.error() == null ? -1 : arrived.error().newest(Codes.REQUEST_OVER);
        if (newest >= 0) {
            arrived = send(Numbers.next(newest), parties, until);
        }
        generation = arrived.json().numberOr("generation", 0);
    }

    private Delivery send(long request, int parties, long until) throws InterruptedException {
        boolean mayRemain = true;
        Stop stop = new Stop();
        Pending.Work wait = session.pending.stoppable(stop);
        try {
            Delivery arrived = client.calls().repeatUntil(until, session::isAlive, left -> Call.of("PUT", target()
                    .with(Parameter.INCARNATION, session.incarnation)
                    .with(Parameter.PARTIES, parties)
                    .with(Parameter.REQUEST, request)
                    .waiting(left)
                    .toString()), stop);
            if (arrived.isStopped()) {
                session.throwIfEnding();
            }
            mayRemain = arrived.error() != null && arrived.error().isUncertain();
            return arrived;
        } finally {
            if (mayRemain) {
                withdraw(target().with(Parameter.REQUEST, request));
            }
            wait.close();
        }
    }

    /** Gives the place up in the background. */
    private void withdraw(Call.Target target) {
        Call call = Call.of("DELETE", target.toString());
        session.inBackground(() -> session.untilCertain(() -> client.calls().send(call).error()));
    }

    /** Leaves the round, and waits until all parties have left. A leave without a certain outcome goes on in the background. */
    void leave(Duration wait) throws InterruptedException {
        Clock clock = client.clock();
        long until = Clock.plus(clock.nanos(), Acquire.nanos(wait));
        boolean mayRemain = true;
        Stop stop = new Stop();
        Pending.Work leave = session.pending.stoppable(stop);
        try {
            Delivery left;
            do {
                left = client.calls().repeatUntil(until, session::isAlive, more -> Call.of(
                        "DELETE", target().with(Parameter.GENERATION, generation).waiting(more).toString()), stop);
                if (left.isStopped()) {
                    session.throwIfEnding();
                }
            } while (left.error() instanceof BusyException && clock.nanos() < until);
            mayRemain = left.error() != null && left.error().isUncertain();
            left.orThrow();
        } finally {
            if (mayRemain) {
                withdraw(target().with(Parameter.GENERATION, generation));
            }
            leave.close();
        }
    }

    private Call.Target target() {
        return Call.Target.of(path, name).with(Parameter.SESSION, session.name).with(Parameter.OWNER, owner);
    }

    void end() {
        session.removeUser();
    }
}
