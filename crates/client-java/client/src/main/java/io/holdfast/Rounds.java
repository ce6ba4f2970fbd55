package io.holdfast;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/**
 * The rounds of one call over the nodes, until one answers or the time of the call is over. Runs in the thread of the
 * caller.
 *
 * <p>A call with harmless copies goes to the next node after a third of a second without an answer. Any other call is at
 * one node at a time, and that node gets pings. Bounds: one request in flight at each node.
 */
final class Rounds {
    /** The nodes that get the requests of a call, and when. */
    enum Route {
        /** The next node gets a copy if this one is late. */
        COPIED,
        /** One node has the call as long as it answers pings. */
        ALONE,
        /** One node has the acquire if it answers the first ping. Then the keepalive delivers the grant, too. */
        QUEUED,
        /** As QUEUED, first at a node where no call of this client waits. */
        ELSEWHERE,
        /** One node holds the keepalive, without pings and at a node where no call of this client waits. */
        PARKED
    }

    /**
     * The time limits of a call.
     *
     * @param perNode the maximum time of one request
     * @param startUntil no request starts after
     * @param until no request lasts beyond
     */
    record Budget(long perNode, long startUntil, long until) {}

    /** The cheapest call: a node answers it without the cluster and without a credential. */
    static final Call PING = Call.get("/livez");
    private static final long PAUSE_MIN = 20 * Clock.MILLI;
    private static final long PAUSE_MAX = 500 * Clock.MILLI;
    private static final long PING_FIRST = 400 * Clock.MILLI;
    private static final long PING_MAX = 15_000 * Clock.MILLI;
    private static final long PING_TIMEOUT = 600 * Clock.MILLI;

    /** A request without an answer so far. */
    private final class Copy {
        final Node node;
        final long sent;
        final long until;
        final CompletableFuture<?> request;
        int pingsLeft;
        long pingAt;
        long pingInterval = PING_FIRST;
        boolean isPinging;

        Copy(Node node, long now) {
            this.node = node;
            this.sent = now;
            this.until = Math.min(Clock.plus(now, budget.perNode), budget.until);
            this.pingsLeft = nodes.count() == 1 ? 0 : pings();
            this.pingAt = pingsLeft == 0 ? Long.MAX_VALUE : now + PING_FIRST;
            var answer = transport.send(node.base, call);
            this.request = answer;
            answer.whenComplete((response, thrown) -> events.add(() -> finished(this, response, thrown)));
        }
    }

    private final Calls calls;
    private final Transport transport;
    private final Nodes nodes;
    private final Clock clock;
    private final Call call;
    private final Budget budget;
    private final Route route;
    private final Stop stop;
    private final BlockingQueue<Runnable> events = new LinkedBlockingQueue<>();
    private final Deque<Node> untried = new ArrayDeque<>();
    private final List<Copy> inFlight = new ArrayList<>();
    private final Map<Node, String> failures = new LinkedHashMap<>();
    private boolean isStarted;
    private long startAt;
    private long pause = PAUSE_MIN;
    private boolean lostAnswer;
    /** The last rejection of an access token whose file may have another one. */
    private HoldfastException oldToken;
    private Delivery result;

    Rounds(Calls calls, Call call, Budget budget, Route route, Stop stop) {
        this.calls = calls;
        this.transport = calls.transport;
        this.nodes = calls.nodes;
        this.clock = calls.clock;
        this.call = call;
        this.budget = budget;
        this.route = route;
        this.stop = stop;
        this.startAt = clock.nanos();
        boolean isIdleFirst = route == Route.ELSEWHERE || route == Route.PARKED;
        untried.addAll(isIdleFirst ? nodes.orderOfIdle(startAt) : nodes.order(startAt));
    }

    /** Runs until there is a result. An interrupt cancels the requests. */
    Delivery run() throws InterruptedException {
        if (stop != null) {
            stop.whenFired(() -> events.add(() -> result = Delivery.stopped()));
        }
        try {
            while (result == null) {
                step();
            }
            return result;
        } finally {
            inFlight.forEach(this::end);
        }
    }

    private void step() throws InterruptedException {
        long now = clock.nanos();
        if (mayStart(now) && now >= startAt) {
            start(now);
        }
        boolean mayStart = mayStart(now);
        if (inFlight.isEmpty() && !mayStart) {
            result = new Delivery(null, 0, error(), lostAnswer);
            return;
        }
        long wake = mayStart ? startAt : Long.MAX_VALUE;
        for (Copy copy : inFlight) {
            wake = Math.min(wake, Math.min(copy.until, copy.pingAt));
        }
        Runnable event = events.poll(Clock.left(wake, now), TimeUnit.NANOSECONDS);
        if (event != null) {
            event.run();
        } else {
            checkTimes(clock.nanos());
        }
    }

    private boolean mayStart(long now) {
        boolean hasTime = !isStarted || now < budget.startUntil;
        boolean mayCopy = inFlight.isEmpty() || route == Route.COPIED;
        return hasTime && mayCopy && !untried.isEmpty();
    }

    private int pings() {
        return switch (route) {
            case COPIED, PARKED -> 0;
            case ALONE -> Integer.MAX_VALUE;
            case QUEUED, ELSEWHERE -> 1;
        };
    }

    private void start(long now) {
        Node node = untried.removeFirst();
        if (!inFlight.isEmpty()) {
            nodes.copied();
        }
        node.waiting.addAndGet(route == Route.COPIED || route == Route.PARKED ? 0 : 1);
        inFlight.add(new Copy(node, now));
        isStarted = true;
        startAt = now + nodes.copyAfter();
    }

    /** Ends a request and its connection, if it has no answer. */
    private void end(Copy copy) {
        copy.node.waiting.addAndGet(route == Route.COPIED || route == Route.PARKED ? 0 : -1);
        copy.request.cancel(true);
    }

    private void checkTimes(long now) {
        for (Copy copy : List.copyOf(inFlight)) {
            if (now >= copy.until) {
                silent(copy, "no answer in time", now);
            } else if (now >= copy.pingAt) {
                ping(copy, now);
            }
        }
    }

    private void ping(Copy copy, long now) {
        if (copy.isPinging) {
            silent(copy, "the node stopped answering", now);
        } else if (copy.node.answeredWithin(copy.pingInterval, now)) {
            schedulePing(copy, now);
        } else {
            copy.isPinging = true;
            copy.pingAt = now + PING_TIMEOUT;
            transport.send(copy.node.base, PING).whenComplete((response, thrown) -> events.add(() -> pinged(copy, thrown)));
        }
    }

    private void pinged(Copy copy, Throwable thrown) {
        long now = clock.nanos();
        if (!inFlight.contains(copy)) {
            return;
        }
        copy.isPinging = false;
        if (thrown != null) {
            silent(copy, "the node stopped answering", now);
        } else {
            copy.node.answered(now);
            schedulePing(copy, now);
        }
    }

    private void schedulePing(Copy copy, long now) {
        copy.pingsLeft--;
        copy.pingInterval = Math.min(PING_MAX, copy.pingInterval * 2);
        copy.pingAt = copy.pingsLeft > 0 ? now + copy.pingInterval : Long.MAX_VALUE;
    }

    private void silent(Copy copy, String reason, long now) {
        copy.node.rest(now);
        inFlight.remove(copy);
        end(copy);
        unanswered(copy.node, copy.node.base + ": " + reason, now);
    }

    private void finished(Copy copy, Response response, Throwable thrown) {
        if (!inFlight.remove(copy)) {
            return;
        }
        end(copy);
        long now = clock.nanos();
        if (thrown != null) {
            copy.node.rest(now);
        } else {
            copy.node.answered(now);
            nodes.learn(copy.node, response);
        }
        String base = copy.node.base;
        Outcome outcome = thrown == null ? Outcome.of(base, response) : Transport.failed(base, thrown);
        switch (outcome.kind()) {
            case SUCCESS -> {
                // A ping needs no credential.
                if (!call.target().equals(PING.target())) {
                    nodes.accepted();
                }
                won(copy, now);
                result = new Delivery(outcome.response(), copy.sent, null, isInDoubt());
            }
            case REJECTED -> rejected(copy, outcome.error(), now);
            case NOT_DONE -> failed(copy.node, outcome.reason(), now);
            case MAY_BE_DONE -> unanswered(copy.node, outcome.reason(), now);
        }
    }

    private void rejected(Copy copy, HoldfastException error, long now) {
        if (calls.mayGetToken(error)) {
            oldToken = error;
            failed(copy.node, error.getMessage(), now);
        } else {
            won(copy, now);
            result = new Delivery(null, copy.sent, error, isInDoubt());
        }
    }

    private boolean isInDoubt() {
        return lostAnswer || !inFlight.isEmpty();
    }

    /** At the end of the time, an earlier answer of the node explains more than a request that had no time left. */
    private void unanswered(Node node, String reason, long now) {
        lostAnswer = true;
        boolean isLast = now >= budget.startUntil;
        failed(node, isLast ? failures.getOrDefault(node, reason) : reason, now);
    }

    /** Schedules the next request after one that failed. */
    private void failed(Node node, String reason, long now) {
        failures.put(node, reason);
        startAt = now;
        if (untried.isEmpty()) {
            nodes.order(now).stream()
                    .filter(other -> inFlight.stream().noneMatch(copy -> copy.node == other))
                    .forEach(untried::add);
            startAt = Math.min(now + pause, budget.startUntil);
            pause = Math.min(PAUSE_MAX, pause * 2);
        }
    }

    /** Prefers the node that answered to those that have not. */
    private void won(Copy winner, long now) {
        for (Copy late : inFlight) {
            if (now - late.sent >= Nodes.COPY_AFTER) {
                late.node.rest(now);
            }
        }
        if (inFlight.isEmpty()) {
            nodes.answeredAlone();
        }
        if (route != Route.PARKED) {
            nodes.prefer(winner.node);
        }
    }

    private HoldfastException error() {
        String reason = failures.isEmpty() ? "no node was tried" : String.join("; ", failures.values());
        // A read changes nothing, so a lost answer leaves no doubt.
        if (lostAnswer && !call.method().equals("GET")) {
            return new OutcomeUnknownException(reason);
        }
        return oldToken != null ? oldToken : new UnavailableException(reason);
    }
}
