package io.holdfast;

import java.io.IOException;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Deque;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Callable;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/**
 * The rounds of one call over the nodes, until one answers or the time of the call is over. Runs in the thread of the
 * caller, which also sends the request and reads the answer while the call is at one node with an open connection.
 * Background threads open connections, send pings, and have the requests of a call that is at several nodes.
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
    static final long CONNECT_TIMEOUT = 1_000 * Clock.MILLI;
    /** A larger body may be more than the system takes before the node reads. */
    private static final int BODY_HERE_MAX = 8 * 1024;

    /** A request without an answer so far. */
    private final class Copy {
        final Node node;
        final long sent;
        final long until;
        final Request request;
        /** Whether a background thread opens the connection or waits for the answer. */
        boolean isInBackground;
        /** The end of the time to connect; {@link Long#MAX_VALUE} with a connection. */
        long openUntil = Long.MAX_VALUE;
        int pingsLeft;
        long pingAt;
        long pingInterval = PING_FIRST;
        /** The ping without an answer so far, or null. */
        Request ping;

        Copy(Node node, long now) {
            this.node = node;
            this.sent = now;
            this.until = Math.min(Clock.plus(now, budget.perNode), budget.until);
            this.pingsLeft = nodes.count() == 1 ? 0 : pings();
            this.pingAt = pingsLeft == 0 ? Long.MAX_VALUE : now + PING_FIRST;
            this.request = transport.request(node.base, call);
        }

        /** Whether the request may have been sent. */
        boolean maySend() {
            return openUntil == Long.MAX_VALUE;
        }

        long wakeAt() {
            return Math.min(openUntil, Math.min(until, pingAt));
        }
    }

    private final Calls calls;
    private final Transport transport;
    private final Background background;
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
    /** The nodes whose last answer is from another server. */
    private final Set<Node> foreign = new HashSet<>();
    /** The copy whose answer the thread of the caller reads, or null. */
    private volatile Copy here;
    private boolean isStarted;
    private long startAt;
    /** When each node may get the call again. */
    private final Map<Node, Long> notBefore = new HashMap<>();
    private long pause = PAUSE_MIN;
    private boolean lostAnswer;
    /** The last rejection of an access token whose file may have another one. */
    private HoldfastException oldToken;
    private Delivery result;

    Rounds(Calls calls, Call call, Budget budget, Route route, Stop stop) {
        this.calls = calls;
        this.transport = calls.transport;
        this.background = calls.background;
        this.nodes = calls.nodes;
        this.clock = calls.clock;
        this.call = call;
        this.budget = budget;
        this.route = route;
        this.stop = stop;
        this.startAt = clock.nanos();
        nodes.order(startAt).forEach(node -> notBefore.put(node, startAt));
        boolean isIdleFirst = route == Route.ELSEWHERE || route == Route.PARKED;
        untried.addAll(isIdleFirst ? nodes.orderOfIdle(startAt) : nodes.order(startAt));
    }

    /** Runs until there is a result. An interrupt cancels the requests. */
    Delivery run() throws InterruptedException {
        if (stop != null) {
            stop.whenFired(() -> {
                events.add(() -> result = Delivery.stopped());
                Copy copy = here;
                if (copy != null) {
                    copy.request.cancel();
                }
            });
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
        if (mayStart(now) && now >= nextStart()) {
            start(now);
        }
        boolean mayStart = mayStart(now);
        if (inFlight.isEmpty() && !mayStart) {
            result = new Delivery(null, 0, error(), isInDoubt());
            return;
        }
        long wake = mayStart ? nextStart() : Long.MAX_VALUE;
        for (Copy copy : inFlight) {
            wake = Math.min(wake, copy.wakeAt());
        }
        long left = Clock.left(wake, now);
        boolean isHere = inFlight.size() == 1 && !inFlight.get(0).isInBackground;
        Runnable event = isHere ? answerHere(inFlight.get(0), left) : events.poll(left, TimeUnit.NANOSECONDS);
        if (event != null) {
            event.run();
        } else {
            checkTimes(clock.nanos());
        }
    }

    /** When the first of these nodes may get the call again. */
    private long retryAt(Collection<Node> some) {
        return some.stream().mapToLong(notBefore::get).min().orElse(Long.MAX_VALUE);
    }

    private long nextStart() {
        return Math.max(startAt, retryAt(untried));
    }

    private boolean mayStart(long now) {
        boolean hasTime = !isStarted || Math.max(now, retryAt(untried)) < budget.startUntil;
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
        Node node = untried.stream().filter(other -> notBefore.get(other) <= now).findFirst().orElseThrow();
        untried.remove(node);
        if (!inFlight.isEmpty()) {
            nodes.copied();
        }
        Copy copy = new Copy(node, now);
        node.waiting.addAndGet(route == Route.COPIED || route == Route.PARKED ? 0 : 1);
        inFlight.add(copy);
        if (!copy.request.isOpen()) {
            open(copy, now);
        }
        answerInBackgroundIfMany();
        isStarted = true;
        startAt = now + nodes.copyAfter();
    }

    /** A background thread connects, because the resolution of a name has no time limit and no interrupt. */
    private void open(Copy copy, long now) {
        copy.openUntil = now + CONNECT_TIMEOUT;
        inBackground(copy, () -> {
            copy.request.open();
            return () -> opened(copy);
        });
    }

    private void opened(Copy copy) {
        copy.openUntil = Long.MAX_VALUE;
        copy.isInBackground = false;
        answerInBackgroundIfMany();
    }

    /** The thread of the caller waits for one answer only, and a node that does not read must not block it. */
    private void answerInBackgroundIfMany() {
        if (inFlight.size() > 1 || call.body().length > BODY_HERE_MAX) {
            inFlight.stream().filter(copy -> !copy.isInBackground).forEach(copy -> inBackground(copy, () -> {
                Response response = copy.request.answer(Long.MAX_VALUE);
                return () -> finished(copy, response, null);
            }));
        }
    }

    private void inBackground(Copy copy, Callable<Runnable> work) {
        copy.isInBackground = true;
        background.run(() -> {
            try {
                events.add(work.call());
            } catch (Exception e) {
                events.add(() -> finished(copy, null, e));
            }
        });
    }

    /** Waits for the answer in this thread. Returns what follows from it, or null after {@code nanos}. */
    private Runnable answerHere(Copy copy, long nanos) throws InterruptedException {
        here = copy;
        try {
            Response response = events.isEmpty() ? copy.request.answer(nanos) : null;
            return response == null ? events.poll() : () -> finished(copy, response, null);
        } catch (IOException e) {
            if (Thread.interrupted()) {
                throw new InterruptedException();
            }
            Runnable event = events.poll();
            return event == null ? () -> finished(copy, null, e) : event;
        } finally {
            here = null;
        }
    }

    /** Ends a request and its connection, if it has no answer. */
    private void end(Copy copy) {
        copy.node.waiting.addAndGet(route == Route.COPIED || route == Route.PARKED ? 0 : -1);
        copy.request.cancel();
        if (copy.ping != null) {
            copy.ping.cancel();
        }
    }

    private void checkTimes(long now) {
        for (Copy copy : List.copyOf(inFlight)) {
            if (now >= copy.until) {
                silent(copy, "no answer in time", now);
            } else if (now >= copy.openUntil) {
                copy.request.cancel();
                finished(copy, null, new Request.NotSentException("connect timed out"));
            } else if (now >= copy.pingAt) {
                ping(copy, now);
            }
        }
    }

    private void ping(Copy copy, long now) {
        if (copy.ping != null) {
            silent(copy, "the node stopped answering", now);
        } else if (copy.node.answeredWithin(copy.pingInterval, now)) {
            schedulePing(copy, now);
        } else {
            Request ping = transport.request(copy.node.base, PING);
            copy.ping = ping;
            copy.pingAt = now + PING_TIMEOUT;
            background.run(() -> {
                boolean isAnswered = isAnswered(ping);
                events.add(() -> pinged(copy, isAnswered));
                if (!isAnswered) {
                    copy.request.cancel();
                }
            });
        }
    }

    private static boolean isAnswered(Request ping) {
        try {
            if (!ping.isOpen()) {
                ping.open();
            }
            return ping.answer(Long.MAX_VALUE) != null;
        } catch (IOException e) {
            return false;
        }
    }

    private void pinged(Copy copy, boolean isAnswered) {
        long now = clock.nanos();
        if (!inFlight.contains(copy)) {
            return;
        }
        copy.ping = null;
        if (isAnswered) {
            copy.node.answered(now);
            schedulePing(copy, now);
        } else {
            silent(copy, "the node stopped answering", now);
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
        String where = copy.node.base + ": " + reason;
        if (copy.maySend()) {
            unanswered(copy.node, where, now);
        } else {
            failed(copy.node, where, now);
        }
    }

    private void finished(Copy copy, Response response, Throwable thrown) {
        if (!inFlight.remove(copy)) {
            return;
        }
        end(copy);
        long now = clock.nanos();
        String base = copy.node.base;
        Outcome outcome = thrown == null ? Outcome.of(base, response) : Transport.failed(base, thrown);
        if (thrown != null || outcome.kind() == Outcome.Kind.FOREIGN) {
            copy.node.rest(now);
        } else {
            copy.node.answered(now);
            nodes.learn(copy.node, response);
        }
        refused(copy.node, outcome.retryAfter(), now);
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
            case FOREIGN -> foreign(copy, outcome.reason(), now);
            case MAY_BE_DONE -> unanswered(copy.node, outcome.reason(), now);
        }
    }

    private void foreign(Copy copy, String reason, long now) {
        lostAnswer = true;
        failed(copy.node, reason, now);
        foreign.add(copy.node);
        if (foreign.size() == nodes.count() || call.copies() == Call.Copies.NEVER) {
            result = new Delivery(null, copy.sent, new UnexpectedResponseException(reason()), isInDoubt());
        }
    }

    /** Records when the node, or each node, may get the call again. Until then, it comes last in each call. */
    private void refused(Node node, Outcome.RetryAfter retry, long now) {
        if (retry.nanos() > 0) {
            notBefore.replaceAll((other, at) -> {
                if (other != node && !retry.isOfCaller()) {
                    return at;
                }
                long until = Math.max(at, now + retry.nanos());
                other.restUntil(until);
                return until;
            });
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

    /** A read changes nothing, so a lost answer leaves no doubt. */
    private boolean isInDoubt() {
        return !call.isRead() && (lostAnswer || inFlight.stream().anyMatch(Copy::maySend));
    }

    /** At the end of the time, an earlier answer of the node explains more than a request that had no time left. */
    private void unanswered(Node node, String reason, long now) {
        lostAnswer = true;
        boolean isLast = now >= budget.startUntil;
        failed(node, isLast ? failures.getOrDefault(node, reason) : reason, now);
        if (call.copies() == Call.Copies.NEVER) {
            result = new Delivery(null, 0, error(), true);
        }
    }

    /** Schedules the next request after one that failed. */
    private void failed(Node node, String reason, long now) {
        failures.put(node, reason);
        foreign.remove(node);
        startAt = now;
        if (retryAt(untried) > now) {
            untried.clear();
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

    private String reason() {
        return failures.isEmpty() ? "no node was tried" : String.join("; ", failures.values());
    }

    /** The error of a call without an answer. */
    private HoldfastException error() {
        String reason = reason();
        HoldfastException unavailable = oldToken != null ? oldToken : new UnavailableException(reason);
        HoldfastException error = isInDoubt() ? new OutcomeUnknownException(reason) : unavailable;
        error.retryAt = retryAt(notBefore.keySet());
        return error;
    }
}
