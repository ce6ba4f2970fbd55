package io.holdfast;

import java.util.Map;
import java.util.function.BooleanSupplier;
import java.util.function.LongFunction;

/** The calls of this client to the nodes, and the time limit of each. */
final class Calls {
    /** One call of the API waits at most this long. */
    static final long WAIT_MAX = 300_000 * Clock.MILLI;
    private static final long PER_NODE_MIN = 100 * Clock.MILLI;
    /** The maximum time that one node gets for a call that does not wait. */
    private static final long PER_NODE = 6_000 * Clock.MILLI;
    /** The maximum time that one node holds a waiting call. A node that loses power does not close the connection. */
    private static final long PER_NODE_WAITING = 45_000 * Clock.MILLI;
    /** One node may take this fraction of the remaining lease for a renewal. */
    private static final int RENEWAL_PART = 4;
    /** A node may answer a parked keepalive late by this fraction of the remaining lease. */
    private static final int PARKED_PART = 6;
    /** The time in which the client looks for a node that accepts a parked keepalive. */
    private static final long PARK_WITHIN = 50 * Clock.MILLI;
    private static final long SEARCH_TIMEOUT = 1_000 * Clock.MILLI;

    final Transport transport;
    final Background background;
    final Nodes nodes;
    final Clock clock;
    final long timeout;
    /** Stops the calls of {@link #send}; may be null. */
    private final Stop stop;

    Calls(Transport transport, Background background, Nodes nodes, Clock clock, long timeout) {
        this(transport, background, nodes, clock, timeout, null);
    }

    private Calls(Transport transport, Background background, Nodes nodes, Clock clock, long timeout, Stop stop) {
        this.transport = transport;
        this.background = background;
        this.nodes = nodes;
        this.clock = clock;
        this.timeout = timeout;
        this.stop = stop;
    }

    /** The calls with another time limit. {@code ended} stops those of {@link #send}; it may be null. */
    Calls withTimeout(long other, Stop ended) {
        return new Calls(transport, background, nodes, clock, other, ended);
    }

    /** Sends a call that does not wait. An interrupt takes effect afterwards. */
    Delivery send(Call call) {
        boolean interrupted = Thread.interrupted();
        boolean wasInDoubt = false;
        try {
            while (true) {
                try {
                    return deliver(call, stop).after(wasInDoubt);
                } catch (InterruptedException e) {
                    interrupted = true;
                    if (call.copies() == Call.Copies.NEVER) {
                        var unknown = new OutcomeUnknownException("the thread was interrupted before the answer");
                        return new Delivery(null, 0, unknown, true);
                    }
                    // The same call is sent again.
                    wasInDoubt = !call.isRead();
                }
            }
        } finally {
            if (interrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    /** Whether a node rejected an access token that was accepted before, and whose file may have another one now. */
    boolean mayGetToken(HoldfastException error) {
        return error.problem() != null
                && error.problem().isUnauthenticated()
                && nodes.hasAccepted()
                && transport.readTokenAgain();
    }

    /** Reads the state of a lock. */
    Delivery read(String lock) {
        return send(Call.get(Call.Target.of("/v1/locks/", lock).toString())).expectingList("holders");
    }

    /** Sends a call within the request timeout, plus its wait. {@code stop} may be null. */
    Delivery deliver(Call call, Stop stop) throws InterruptedException {
        boolean mayCopy = call.isHarmless() && call.waits() == 0;
        return deliver(call, mayCopy ? Rounds.Route.COPIED : Rounds.Route.ALONE, stop);
    }

    /** Sends an acquire. If a renewal has listed its grant, another node than before gets it first. */
    Delivery deliverAcquire(Call call, boolean isGrantedElsewhere, Stop stop) throws InterruptedException {
        if (call.waits() == 0) {
            return deliver(call, stop);
        }
        return deliver(call, isGrantedElsewhere ? Rounds.Route.ELSEWHERE : Rounds.Route.QUEUED, stop);
    }

    private Delivery deliver(Call call, Rounds.Route route, Stop stop) throws InterruptedException {
        long now = clock.nanos();
        Rounds.Budget budget;
        if (call.waits() == 0) {
            long startUntil = now + Math.max(0, timeout - PER_NODE_MIN);
            budget = new Rounds.Budget(PER_NODE, startUntil, startUntil + PER_NODE_MIN);
        } else {
            long perNode = Math.min(PER_NODE_WAITING, call.waits() + Math.min(PER_NODE, timeout));
            long startUntil = now + timeout;
            budget = new Rounds.Budget(perNode, startUntil, startUntil + perNode);
        }
        if (!call.isHarmless() && nodes.count() > 1 && !nodes.isFirstAlive(now)) {
            findAlive(budget);
        }
        return new Rounds(this, call, budget, route, stop).run().after(false);
    }

    /** Makes calls start at a node that answers, so that the only copy of a call does not go to a frozen node. */
    private void findAlive(Rounds.Budget budget) throws InterruptedException {
        long until = Math.min(budget.startUntil(), clock.nanos() + SEARCH_TIMEOUT);
        new Rounds(this, Rounds.PING, new Rounds.Budget(SEARCH_TIMEOUT, until, until), Rounds.Route.COPIED, null).run();
    }

    /** Renews a session within {@code leaseLeft}. */
    Delivery keepAlive(String session, long incarnation, long leaseLeft, Stop stop) throws InterruptedException {
        long until = clock.nanos() + leaseLeft;
        long perNode = Math.min(PER_NODE, Math.max(PER_NODE_MIN, leaseLeft / RENEWAL_PART));
        Call call = Call.of("POST", keepAliveTarget(session).with(Parameter.INCARNATION, incarnation).toString())
                .harmless();
        var budget = new Rounds.Budget(perNode, until - PER_NODE_MIN, until);
        return new Rounds(this, call, budget, Rounds.Route.COPIED, stop).run();
    }

    /** Renews a session with a call that one node holds for {@code wait}, or until an event of the session's locks. */
    Delivery parkKeepAlive(String session, long incarnation, Long since, long wait, long leaseLeft, Stop stop)
            throws InterruptedException {
        String target = keepAliveTarget(session)
                .with(Parameter.WAIT, Math.max(1, wait / Clock.MILLI) + "ms")
                .with(Parameter.SINCE, since)
                .with(Parameter.INCARNATION, incarnation)
                .toString();
        long perNode = wait + Math.min(PER_NODE, Math.max(PER_NODE_MIN, leaseLeft / PARKED_PART));
        long startUntil = clock.nanos() + PARK_WITHIN;
        var budget = new Rounds.Budget(perNode, startUntil, startUntil + perNode);
        Call call = Call.of("POST", target).harmless();
        return new Rounds(this, call, budget, Rounds.Route.PARKED, stop).run();
    }

    private static Call.Target keepAliveTarget(String session) {
        return new Call.Target("/v1/sessions/" + Names.encodePath(session) + "/keepalive");
    }

    /** Opens a session, or renews it. Without {@code isInterruptible}, an interrupt takes effect afterwards. */
    Delivery open(String session, long attempt, Long ttlMillis, Map<String, String> labels, boolean isInterruptible)
            throws InterruptedException {
        Call.Target target = Call.Target.of("/v1/sessions/", session)
                .with(Parameter.ATTEMPT, attempt)
                .with(Parameter.TTL, ttlMillis == null ? null : ttlMillis + "ms");
        labels.forEach(target::withLabel);
        Call open = Call.of("PUT", target.toString()).harmless();
        return isInterruptible ? deliver(open, null) : send(open);
    }

    /** Closes a session. With its incarnation, a late copy of the call closes no later session of the same name. */
    Delivery close(String session, long incarnation) {
        Call.Target target = Call.Target.of("/v1/sessions/", session).with(Parameter.INCARNATION, incarnation);
        return send(Call.of("DELETE", target.toString()).harmless()).expectingEnd();
    }

    /** Waits for an event by repeated calls until {@code until}. The calls must name the same request. */
    Delivery repeatUntil(long until, BooleanSupplier isNeeded, LongFunction<Call> call, Stop stop)
            throws InterruptedException {
        boolean wasInDoubt = false;
        while (true) {
            long wait = Math.min(WAIT_MAX, Clock.left(until, clock.nanos()));
            wait -= wait % Clock.MILLI;
            Delivery delivery = deliver(call.apply(wait).waiting(wait), stop);
            wasInDoubt |= delivery.inDoubt();
            HoldfastException error = delivery.error();
            boolean isUncertain = error != null && error.isUncertain();
            if (!isUncertain || Math.max(clock.nanos(), error.retryAt) >= until || !isNeeded.getAsBoolean()) {
                return delivery.after(wasInDoubt);
            }
            stop.await(Clock.left(error.retryAt, clock.nanos()));
            if (stop.reason() != null) {
                return Delivery.stopped();
            }
        }
    }
}
