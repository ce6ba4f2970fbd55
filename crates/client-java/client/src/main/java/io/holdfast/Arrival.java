package io.holdfast;

import java.time.Duration;
import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.stream.Stream;

/** An arrival at a barrier or a double barrier; each is a separate party. */
final class Arrival {
    private final Holdfast client;
    private final Session session;
    private final String path;
    private final String name;
    private final String owner = Numbers.unique("a");
    /** The round that the party entered. */
    private long generation;
    private final AtomicBoolean isOver = new AtomicBoolean();

    private Arrival(Holdfast client, Session session, String path, String name) {
        this.client = client;
        this.session = session;
        this.path = path;
        this.name = name;
    }

    /** Arrives and waits for the other parties. The arrival uses the session until {@link #end}. */
    static Arrival at(Holdfast client, String path, String name, int parties, Duration wait)
            throws InterruptedException {
        Names.recipe(name);
        Arrival arrival = new Arrival(client, client.sessions().use(null), path, name);
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
            arrived = arrived.expectingNumbers("generation", "index", "parties");
            mayRemain = mayRemain(arrived.error());
            return arrived;
        } finally {
            if (mayRemain) {
                // With the number, the arrival has no effect if it comes later. Without it, the party leaves that got in.
                withdraw(target().with(Parameter.REQUEST, request), target());
            }
            wait.close();
        }
    }

    private static boolean mayRemain(HoldfastException error) {
        return error != null && error.isUnclear();
    }

    /** Gives the place up in the background. */
    private void withdraw(Call.Target... targets) {
        List<Call> calls = Stream.of(targets).map(target -> Call.of("DELETE", target.toString())).toList();
        session.inBackground(() ->
                calls.forEach(call -> session.untilCertain(() -> client.calls().send(call).expectingEnd().error())));
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
            left = left.expectingEnd();
            mayRemain = mayRemain(left.error());
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

    /** Ends the use of the session; a second call does nothing. */
    void end() {
        if (isOver.compareAndSet(false, true)) {
            session.removeUser();
        }
    }
}
