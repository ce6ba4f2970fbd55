package io.holdfast;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * The nodes of one cluster: which one a call tries first, and which ones rest after a failure.
 *
 * <p>Every answer names its node and the leader, and calls try the leader first, because another node forwards them. The
 * first node of a process is random, so one frozen node does not delay all processes alike.
 */
final class Nodes {
    /** Another node gets a copy of a call after this time without an answer. */
    static final long COPY_AFTER = 300 * Clock.MILLI;
    /** The same while most calls take that long: the cluster is slow, and copies would make it slower. */
    private static final long COPY_AFTER_OF_SLOW_CLUSTER = 1_000 * Clock.MILLI;
    /** An answer without a copy earns 1 credit, a copy costs this many. */
    private static final int COPY_COST = 10;
    private static final int CREDIT_MAX = 100;
    private static final long ALIVE_FOR = 1_000 * Clock.MILLI;

    private final List<Node> all = new ArrayList<>();
    private final AtomicInteger copyCredit = new AtomicInteger(CREDIT_MAX);
    /** The index of the node that answered last. Every start is correct, so a lost write does not matter. */
    private volatile int preferred;
    private volatile long leader;
    private volatile boolean hasAccepted;

    Nodes(List<String> bases, int random) {
        bases.forEach(base -> all.add(new Node(base)));
        preferred = random % bases.size();
    }

    int count() {
        return all.size();
    }

    /** The nodes in the order in which a call tries them: the leader first, those that rest last. */
    List<Node> order(long now) {
        List<Node> order = new ArrayList<>(all.size());
        int first = preferred;
        long led = leader;
        boolean isKnown = false;
        boolean hasResting = false;
        for (int turn = 0; turn < all.size(); turn++) {
            Node node = all.get((first + turn) % all.size());
            order.add(node);
            isKnown |= node.id == led;
            hasResting |= node.rests(now);
        }
        // While the address of the leader is unknown, an address without an answer may be the leader's.
        long wanted = isKnown ? led : 0;
        boolean isInOrder = !hasResting && (led == 0 || order.get(0).id == wanted);
        if (!isInOrder) {
            order.sort(Comparator.<Node, Boolean>comparing(node -> node.rests(now))
                    .thenComparing(node -> led != 0 && node.id != wanted));
        }
        return order;
    }

    /** The nodes with the fewest waiting calls first, so that a keepalive does not share a frozen node with an acquire. */
    List<Node> orderOfIdle(long now) {
        List<Node> order = order(now);
        Node first = all.get(preferred);
        order.sort(Comparator.<Node, Boolean>comparing(node -> node.rests(now))
                .thenComparing(node -> node.waiting.get())
                .thenComparing(node -> node == first));
        return order;
    }

    void prefer(Node node) {
        preferred = all.indexOf(node);
    }

    /** Learns from an answer which node sent it, and which node leads. */
    void learn(Node node, Response response) {
        long id = number(response.header("Holdfast-Node"));
        if (id > 0) {
            node.id = id;
            leader = number(response.header("Holdfast-Leader"));
        }
    }

    private static long number(String header) {
        try {
            return header == null ? 0 : Long.parseLong(header);
        } catch (NumberFormatException e) {
            return 0;
        }
    }

    boolean isFirstAlive(long now) {
        return order(now).get(0).answeredWithin(ALIVE_FOR, now);
    }

    long copyAfter() {
        return copyCredit.get() >= COPY_COST ? COPY_AFTER : COPY_AFTER_OF_SLOW_CLUSTER;
    }

    void copied() {
        copyCredit.updateAndGet(credit -> Math.max(0, credit - COPY_COST));
    }

    void answeredAlone() {
        copyCredit.updateAndGet(credit -> Math.min(CREDIT_MAX, credit + 1));
    }

    /** Whether a node has accepted a call, and with it the access token. */
    boolean hasAccepted() {
        return hasAccepted;
    }

    void accepted() {
        hasAccepted = true;
    }
}
