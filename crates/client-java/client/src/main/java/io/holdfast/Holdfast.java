package io.holdfast;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Supplier;
import java.util.function.UnaryOperator;
import javax.net.ssl.SSLContext;

/**
 * A client of a holdfast cluster, with one session that is renewed while a guard needs it. Safe for all threads; a
 * program needs one. {@link #close} ends the session and releases everything that it holds.
 *
 * <pre>{@code
 * try (Holdfast holdfast = Holdfast.connect("10.0.0.1:7400", "10.0.0.2:7400", "10.0.0.3:7400");
 *         Guard guard = holdfast.lock("orders").waitAtMost(Duration.ofSeconds(10)).acquire()) {
 *     guard.ensure();
 *     update(order, guard.token());
 * }
 * }</pre>
 */
public final class Holdfast implements AutoCloseable {
    private final Calls calls;
    private final Background background = new Background();
    private final Metrics metrics;
    private final Sessions sessions;
    /** The waits without a session. */
    private final Pending waits = new Pending();
    private final Map<HoldfastLock.Key, HoldfastLock.Held> heldByThreads = new ConcurrentHashMap<>();
    private final String threads = Numbers.unique("thread");
    private volatile boolean isClosed;

    Holdfast(HoldfastBuilder options) {
        List<String> bases = Addresses.bases(options.addresses, options.ca != null || options.certificate != null);
        boolean needsTls = bases.stream().anyMatch(base -> base.startsWith("https:"));
        SSLContext tls = needsTls ? Tls.context(options.ca, options.certificate, options.key) : Tls.unused();
        Transport transport = new Transport(tls, options.accessToken);
        Nodes nodes = new Nodes(bases, Numbers.jitter());
        this.calls = new Calls(transport, background, nodes, Clock.system(), Acquire.nanos(options.requestTimeout));
        this.metrics = new GuardedMetrics(options.metrics);
        this.sessions = new Sessions(
                new ForSessions(), options.session, options.sessionPrefix, options.ttl, options.labels);
    }

    private final class ForSessions implements Session.Client {
        @Override
        public Calls calls() {
            return calls;
        }

        @Override
        public Background background() {
            return background;
        }

        @Override
        public Metrics metrics() {
            return metrics;
        }
    }

    /**
     * Creates a client with the default options. Sends nothing yet.
     *
     * @param addresses {@code host:port} of all nodes or some of them; none means {@code HOLDFAST_ADDR}, otherwise
     *     {@code 127.0.0.1:7400}
     * @return the client
     */
    public static Holdfast connect(String... addresses) {
        return builder(addresses).build();
    }

    /**
     * Returns the options of a client.
     *
     * @param addresses as for {@link #connect}
     * @return a builder with the default options
     */
    public static HoldfastBuilder builder(String... addresses) {
        String known = System.getenv("HOLDFAST_ADDR");
        List<String> others = List.of(known == null || known.isBlank() ? Addresses.DEFAULT : known);
        return new HoldfastBuilder(addresses.length == 0 ? others : List.of(addresses));
    }

    /**
     * Prepares the acquire of a lock.
     *
     * @param name 1 to 512 bytes; may contain '/'
     * @return the request
     */
    public LockRequest lock(String name) {
        return new LockRequest(this, name, new LockOptions());
    }

    /**
     * Prepares the acquire of several locks, all or none.
     *
     * @param names at most 16
     * @return the request
     */
    public MultiLockRequest lockAll(String... names) {
        return new MultiLockRequest(this, List.of(names), new LockOptions());
    }

    /**
     * Prepares the acquire of a permit of a semaphore. The first acquire creates it; all callers name the same limit.
     *
     * @param name the name
     * @param limit the number of permits
     * @return the request
     */
    public LockRequest semaphore(String name, int limit) {
        return lock(name).limit(limit);
    }

    /**
     * Prepares an election, which has many candidates and one leader.
     *
     * @param name the name
     * @return the election
     */
    public Election election(String name) {
        return new Election(this, name);
    }

    /**
     * Prepares a latch, which opens after a number of different keys.
     *
     * @param name the name
     * @return the latch
     */
    public Latch latch(String name) {
        return new Latch(this, name);
    }

    /**
     * Prepares a barrier that opens when all parties have arrived.
     *
     * @param name the name
     * @param parties the number of parties
     * @return the barrier
     */
    public Barrier barrier(String name, int parties) {
        return new Barrier(this, name, parties);
    }

    /**
     * Prepares a double barrier that the parties enter together and leave together.
     *
     * @param name the name
     * @param parties the number of parties
     * @return the barrier
     */
    public DoubleBarrier doubleBarrier(String name, int parties) {
        return new DoubleBarrier(this, name, parties);
    }

    /**
     * Prepares a group, which lists its live members, each with a value.
     *
     * @param name the name
     * @return the group
     */
    public Group group(String name) {
        return new Group(this, name);
    }

    /**
     * Opens the session of this client, and renews it until it is closed. A sender of a transfer needs its name.
     *
     * @return the session
     */
    public OpenSession openSession() {
        return new OpenSession(sessions.use(null));
    }

    /**
     * Prepares a counter of 64 bits.
     *
     * @param name the name
     * @return the counter
     */
    public Counter counter(String name) {
        return new Counter(this, name);
    }

    /**
     * The tree of znodes.
     *
     * @return the tree
     */
    public Tree tree() {
        return new Tree(this);
    }

    /**
     * Reads holders and queue of a lock.
     *
     * @param name the name
     * @return the state; a lock that was never acquired is free
     */
    public LockState lockState(String name) {
        return LockState.read(calls.read(Names.lock(name)).json());
    }

    /**
     * Ends every hold of a lock. For operators. The client does not repeat a call whose answer is lost, because a copy could
     * end a later hold.
     *
     * @param name the name
     * @param reason the reason, which the holders receive
     * @return the number of holds that ended
     * @throws OutcomeUnknownException if the holds may have ended: read the lock first
     */
    public long forceRelease(String name, String reason) {
        return forceRelease(name, null, reason);
    }

    /**
     * Ends the hold with a token. For operators.
     *
     * @param name the name
     * @param token the token of the hold
     * @param reason the reason, which the holder receives
     * @return the number of holds that ended; 0 if the hold had ended before
     */
    public long forceRelease(String name, long token, String reason) {
        return forceRelease(name, Long.valueOf(token), reason);
    }

    private long forceRelease(String name, Long token, String reason) {
        Call.Target target = Call.Target.of("/v1/force-releases/", Names.lock(name)).with(Parameter.REASON, reason);
        return changeHolds(target, token, "ended");
    }

    /**
     * Asks the holders of a lock to release it. The client does not repeat a call whose answer is lost, because a copy could
     * concern a later hold.
     *
     * @param name the name
     * @param reason the reason, which the holders receive; may be null
     * @param deadline the time in which the caller wants the lock
     * @param revoke whether the cluster ends the holds at the deadline
     * @return the number of holders that were asked
     * @throws OutcomeUnknownException if the holders may have been asked: read the lock first
     */
    public long requestRelease(String name, String reason, Duration deadline, boolean revoke) {
        return requestRelease(name, null, reason, deadline, revoke);
    }

    /**
     * Asks the holder with a token to release the lock.
     *
     * @param name the name
     * @param token the token of the hold
     * @param reason the reason, which the holder receives; may be null
     * @param deadline the time in which the caller wants the lock
     * @param revoke whether the cluster ends the hold at the deadline
     * @return the number of holders that were asked
     */
    public long requestRelease(String name, long token, String reason, Duration deadline, boolean revoke) {
        return requestRelease(name, Long.valueOf(token), reason, deadline, revoke);
    }

    private long requestRelease(String name, Long token, String reason, Duration deadline, boolean revoke) {
        Call.Target target = Call.Target.of("/v1/release-requests/", Names.lock(name))
                .with(Parameter.REASON, reason)
                .with(Parameter.DEADLINE, deadline)
                .with(Parameter.REVOKE, revoke ? "true" : null);
        return changeHolds(target, token, "asked");
    }

    /** Sends a call that concerns the hold with a token, or every hold of a lock if the token is null. */
    private long changeHolds(Call.Target target, Long token, String count) {
        Call.Copies copies = token == null ? Call.Copies.NEVER : Call.Copies.HARMLESS;
        Call call = Call.of("POST", target.with(Parameter.TOKEN, token).toString()).with(copies);
        return calls.send(call).expectingNumbers(count).json().numberOr(count, 0);
    }

    /**
     * Acquires a lock with a durable hold, or returns the token of the hold that the owner has. The hold outlasts this
     * program: store the token, which alone releases it. After an interrupt, a close or {@link OutcomeUnknownException}, the
     * same call returns the token, if any.
     *
     * @param name the name of the lock
     * @param owner the name of the hold
     * @param reason the reason, which others see
     * @param wait the maximum wait, up to 5 minutes
     * @return the fencing token
     * @throws InterruptedException if the thread is interrupted while it waits
     * @throws BusyException if the wait ended before the grant
     * @throws LostException if the client is closed
     * @throws OutcomeUnknownException if no node answered until the end of the wait
     */
    public long holdDurably(String name, String owner, String reason, Duration wait) throws InterruptedException {
        return DurableHold.acquire(this, name, owner, reason, wait);
    }

    /**
     * Releases the durable hold that has this token. A repeated call changes nothing.
     *
     * @param name the name of the lock
     * @param owner the name of the hold
     * @param token the token of the hold
     */
    public void releaseDurable(String name, String owner, long token) {
        DurableHold.release(calls, name, owner, token);
    }

    /**
     * Closes the sessions, which releases everything they hold. Waiting calls end with {@link LostException}, and guards
     * are lost. A named session stays open with its locks until it expires, so release its guards first. The call waits for
     * the releases of a named session that are in progress, at most for the request timeout.
     *
     * @throws HoldfastException if no node confirms the end of a session. It then ends after its time-to-live.
     */
    @Override
    public void close() {
        isClosed = true;
        waits.stop();
        try {
            sessions.close();
        } finally {
            calls.transport.close();
        }
    }

    boolean isClosed() {
        return isClosed;
    }

    Calls calls() {
        return calls;
    }

    Clock clock() {
        return calls.clock;
    }

    Background background() {
        return background;
    }

    Metrics metrics() {
        return metrics;
    }

    Map<HoldfastLock.Key, HoldfastLock.Held> heldByThreads() {
        return heldByThreads;
    }

    /** The owner of a thread's holds. Threads of other clients with the same named session have other owners. */
    String ownerOf(Thread thread) {
        return threads + "-" + thread.getId();
    }

    Sessions sessions() {
        return sessions;
    }

    Pending waits() {
        return waits;
    }

    /** Sends a change that the cluster executes once: it names the session and a new request number. */
    Delivery once(String method, Supplier<Call.Target> target) {
        return once(method, target, call -> call);
    }

    /** As {@link #once(String, Supplier)}, with a body or headers. */
    Delivery once(String method, Supplier<Call.Target> target, UnaryOperator<Call> content) {
        Session session = sessions.use(null);
        try {
            return session.numbered.send(request -> {
                String named = target.get().with(Parameter.SESSION, session.name).with(Parameter.REQUEST, request).toString();
                return session.checked(calls.send(content.apply(Call.of(method, named).harmless())));
            });
        } finally {
            session.removeUser();
        }
    }
}
