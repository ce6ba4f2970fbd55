package io.holdfast;

import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Consumer;

/** The operations of the scenario suite, and the objects that scenarios name. */
final class Operations {
    private static final Map<String, Object> NOTHING = Map.of();
    private static final Set<String> CLIENT = Set.of(
            "id", "do", "name", "addresses", "ttl_ms", "session", "session_prefix", "labels", "request_timeout_ms", "ca",
            "certificate", "key", "access_token", "access_token_file");
    private static final Set<String> ACQUIRE = Set.of(
            "id", "do", "client", "lock", "guard", "wait_ms", "mode", "permits", "limit", "priority", "owner", "reentrant",
            "queue_max", "max_hold_ms", "min_hold_ms", "value", "progress_timeout_ms", "ttl_ms", "shards", "shard");
    private static final Duration LONG = Duration.ofHours(1);

    private final Consumer<Map<String, Object>> events;
    private final Map<String, Holdfast> clients = new ConcurrentHashMap<>();
    private final Map<String, Guard> guards = new ConcurrentHashMap<>();
    private final Map<String, MultiGuard> multiGuards = new ConcurrentHashMap<>();
    private final Map<String, Membership> members = new ConcurrentHashMap<>();
    private final Map<String, Watch> watches = new ConcurrentHashMap<>();
    private final Map<String, DoubleBarrier.Inside> inside = new ConcurrentHashMap<>();

    Operations(Consumer<Map<String, Object>> events) {
        this.events = events;
    }

    Map<String, Object> execute(Json request) throws InterruptedException {
        return switch (request.textOr("do", "")) {
            case "info" -> Map.of("language", "java", "unsupported", List.of("fork"));
            case "client" -> client(request);
            case "close" -> close(request);
            case "acquire" -> acquire(request);
            case "acquire_many" -> acquireMany(request);
            case "campaign" -> campaign(request);
            case "release", "resign" -> release(request);
            case "ensure" -> ensure(request);
            case "remaining" -> Map.of("remaining_ms", guard(request).remaining().toMillis());
            case "headers" -> Map.of("headers", guard(request).headers());
            case "report_progress" -> done(guard(request)::reportProgress);
            case "upgrade" -> Map.of("token", guard(request).upgrade(wait(request)));
            case "downgrade" -> done(() -> guard(request).downgrade(Mode.of(request.textOr("mode", "shared"))));
            case "release_permits" -> done(() -> guard(request).releasePermits(number(request, "permits")));
            case "open_session" -> Map.of("session", clientOf(request).openSession().name());
            case "transfer" -> Map.of("token", guard(request).transfer(text(request, "to"), request.text("owner")));
            case "receive_transfer" -> receiveTransfer(request);
            case "observe" -> observe(request);
            case "watch" -> watch(request);
            case "unobserve" -> done(() -> watches.remove("observer " + text(request, "observer")).close());
            case "unwatch" -> done(() -> watches.remove("watcher " + text(request, "watcher")).close());
            default -> executeRecipe(request);
        };
    }

    private Map<String, Object> executeRecipe(Json request) throws InterruptedException {
        return switch (request.textOr("do", "")) {
            case "group_join" -> join(request);
            case "group_set_value" -> done(() -> members.get(text(request, "member")).setValue(text(request, "value")));
            case "group_leave" -> done(members.get(text(request, "member"))::leave);
            case "group_members" -> Map.of("members", clientOf(request).group(text(request, "group")).members());
            case "group_watch" -> watchGroup(request);
            case "latch_set" -> done(() -> latch(request).create(number(request, "count")));
            case "latch_count_down" ->
                Map.of("left", latch(request).countDown(request.textOr("key", Numbers.unique("key"))));
            case "latch_wait" -> {
                latch(request).await(wait(request));
                yield NOTHING;
            }
            case "barrier_wait" -> {
                clientOf(request).barrier(text(request, "name"), number(request, "parties")).await(wait(request));
                yield NOTHING;
            }
            case "double_barrier_enter" -> {
                DoubleBarrier barrier = clientOf(request).doubleBarrier(text(request, "name"), number(request, "parties"));
                inside.put(placeOf(request), barrier.enter(wait(request)));
                yield NOTHING;
            }
            case "double_barrier_leave" -> {
                inside.remove(placeOf(request)).leave(wait(request));
                yield NOTHING;
            }
            case "counter_add" ->
                Map.of("value", clientOf(request).counter(text(request, "name")).add(request.numberOr("add", 1)));
            case "tree_get" -> treeGet(request);
            case "tree_put" -> treePut(request);
            case "tree_delete" -> treeDelete(request);
            case "lock_state" -> lockState(request);
            case "force_release" -> Map.of(
                    "ended", clientOf(request).forceRelease(text(request, "lock"), request.textOr("reason", "scenario")));
            case "request_release" -> Map.of("asked", clientOf(request).requestRelease(
                    text(request, "lock"),
                    request.text("reason"),
                    Duration.ofMillis(request.numberOr("deadline_ms", 30_000)),
                    request.flag("revoke")));
            default -> throw new UnsupportedOperationException("unknown operation " + request.text("do"));
        };
    }

    void closeAll() {
        watches.values().forEach(Watch::close);
        for (Holdfast client : clients.values()) {
            try {
                client.close();
            } catch (HoldfastException e) {
                // Its session ends after its time-to-live.
            }
        }
    }

    private static Map<String, Object> done(Runnable work) {
        work.run();
        return NOTHING;
    }

    private static String text(Json request, String name) {
        String text = request.text(name);
        if (text == null) {
            throw new InvalidArgumentException("the request has no " + name);
        }
        return text;
    }

    private static int number(Json request, String name) {
        return (int) request.numberOr(name, 1);
    }

    private static Duration millis(Json request, String name) {
        Long millis = request.number(name);
        return millis == null ? null : Duration.ofMillis(millis);
    }

    private static Duration wait(Json request) {
        Duration wait = millis(request, "wait_ms");
        return wait == null ? LONG : wait;
    }

    /** Passes a value on, if the request has it. */
    private static <T> void some(T value, Consumer<T> use) {
        if (value != null) {
            use.accept(value);
        }
    }

    /** An option that the library does not have must not be ignored. */
    private static void checkOptions(Json request, Set<String> known) {
        ((Map<?, ?>) request.value()).keySet().stream()
                .filter(name -> !known.contains(name))
                .findFirst()
                .ifPresent(name -> {
                    throw new InvalidArgumentException("unknown option " + name);
                });
    }

    private Map<String, Object> client(Json request) {
        checkOptions(request, CLIENT);
        List<String> addresses = request.list("addresses").stream().map(address -> (String) address.value()).toList();
        HoldfastBuilder options = Holdfast.builder(addresses.toArray(String[]::new));
        some(millis(request, "ttl_ms"), options::ttl);
        some(request.text("session"), options::session);
        some(request.text("session_prefix"), options::sessionPrefix);
        some(millis(request, "request_timeout_ms"), options::requestTimeout);
        some(request.text("ca"), ca -> options.ca(Path.of(ca)));
        some(request.text("certificate"), certificate ->
                options.certificate(Path.of(certificate), Path.of(text(request, "key"))));
        some(request.text("access_token"), options::accessToken);
        some(request.text("access_token_file"), file -> options.accessTokenFile(Path.of(file)));
        request.texts("labels").forEach(options::label);
        clients.put(text(request, "name"), options.build());
        return NOTHING;
    }

    private Holdfast clientOf(Json request) {
        Holdfast client = clients.get(text(request, "client"));
        if (client == null) {
            throw new InvalidArgumentException("there is no client " + request.text("client"));
        }
        return client;
    }

    private Map<String, Object> close(Json request) {
        Holdfast client = clientOf(request);
        clients.remove(text(request, "client"));
        client.close();
        return NOTHING;
    }

    private Map<String, Object> acquire(Json request) throws InterruptedException {
        checkOptions(request, ACQUIRE);
        LockOptions options = new LockOptions();
        LockRequest[] lock = {new LockRequest(clientOf(request), text(request, "lock"), options)};
        some(millis(request, "wait_ms"), wait -> lock[0] = lock[0].waitAtMost(wait));
        some(request.text("mode"), mode -> lock[0] = lock[0].mode(Mode.of(mode)));
        some(request.number("permits"), permits -> lock[0] = lock[0].permits(permits.intValue()));
        some(request.number("limit"), limit -> lock[0] = lock[0].limit(limit.intValue()));
        some(request.number("priority"), priority -> lock[0] = lock[0].priority(priority.intValue()));
        some(request.text("owner"), owner -> lock[0] = lock[0].owner(owner));
        some((Boolean) request.get("reentrant").value(), reentrant -> lock[0] = lock[0].reentrant(reentrant));
        some(request.number("queue_max"), max -> lock[0] = lock[0].queueMax(max.intValue()));
        some(millis(request, "max_hold_ms"), max -> lock[0] = lock[0].maxHold(max));
        some(millis(request, "min_hold_ms"), min -> lock[0] = lock[0].minHold(min));
        some(request.text("value"), value -> lock[0] = lock[0].value(value));
        some(millis(request, "progress_timeout_ms"), timeout -> lock[0] = lock[0].progressTimeout(timeout));
        some(millis(request, "ttl_ms"), ttl -> lock[0] = lock[0].ttl(ttl));
        some(request.number("shards"), count -> lock[0] = lock[0].shards(count.intValue()));
        some(request.number("shard"), shard -> lock[0] = lock[0].shard(shard.intValue()));
        return keep(text(request, "guard"), lock[0].acquire());
    }

    private Map<String, Object> receiveTransfer(Json request) throws InterruptedException {
        LockRequest[] lock = {clientOf(request).lock(text(request, "lock"))};
        some(millis(request, "wait_ms"), wait -> lock[0] = lock[0].waitAtMost(wait));
        some(request.text("owner"), owner -> lock[0] = lock[0].owner(owner));
        return keep(text(request, "guard"), lock[0].receiveTransfer());
    }

    private Map<String, Object> join(Json request) {
        Membership membership = clientOf(request).group(text(request, "group")).join(text(request, "value"));
        members.put(text(request, "member"), membership);
        return Map.of("session", membership.session());
    }

    private Map<String, Object> watchGroup(Json request) {
        String watcher = text(request, "watcher");
        Consumer<Map<String, String>> listener = present ->
                events.accept(Map.of("event", "members", "watcher", watcher, "members", present));
        watches.put("watcher " + watcher, clientOf(request).group(text(request, "group")).watch(listener));
        return NOTHING;
    }

    private Map<String, Object> keep(String name, Guard guard) {
        guards.put(name, guard);
        report(name, guard);
        return Map.of("token", guard.token(), "session", guard.session(), "lock", guard.lock());
    }

    private void report(String name, Guard guard) {
        guard.onLost(loss -> events.accept(Map.of(
                "event", "lost",
                "guard", name,
                "lock", guard.lock(),
                "token", guard.token(),
                "cause", loss.cause().code())));
        guard.onReleaseRequested(asked -> events.accept(Map.of(
                "event", "release-requested",
                "guard", name,
                "lock", guard.lock(),
                "reason", asked.reason() == null ? "" : asked.reason())));
    }

    private Map<String, Object> acquireMany(Json request) throws InterruptedException {
        String[] locks = request.list("locks").stream().map(lock -> (String) lock.value()).toArray(String[]::new);
        MultiLockRequest wanted = clientOf(request).lockAll(locks);
        Duration wait = millis(request, "wait_ms");
        MultiGuard all = (wait == null ? wanted : wanted.waitAtMost(wait)).acquire();
        String name = text(request, "guard");
        multiGuards.put(name, all);
        all.guards().forEach(guard -> report(name, guard));
        return Map.of("tokens", all.tokens(), "session", all.session());
    }

    private Map<String, Object> campaign(Json request) throws InterruptedException {
        Election election = clientOf(request).election(text(request, "election"));
        Duration wait = millis(request, "wait_ms");
        Guard leadership = (wait == null ? election : election.waitAtMost(wait)).campaign(request.text("value"));
        return keep(text(request, "guard"), leadership);
    }

    private Guard guard(Json request) {
        Guard guard = guards.get(text(request, "guard"));
        if (guard == null) {
            throw new InvalidArgumentException("there is no guard " + request.text("guard"));
        }
        return guard;
    }

    private Map<String, Object> release(Json request) {
        MultiGuard all = multiGuards.get(text(request, "guard"));
        return done(all != null ? all::release : guard(request)::release);
    }

    private Map<String, Object> ensure(Json request) {
        MultiGuard all = multiGuards.get(text(request, "guard"));
        return done(all != null ? all::ensure : guard(request)::ensure);
    }

    private Map<String, Object> observe(Json request) {
        String observer = text(request, "observer");
        Consumer<Optional<Election.Leader>> listener = leader -> {
            Map<String, Object> event = new LinkedHashMap<>();
            event.put("event", "leader");
            event.put("observer", observer);
            event.put("leader", leader.map(Operations::leaderOf).orElse(null));
            events.accept(event);
        };
        watches.put("observer " + observer, clientOf(request).election(text(request, "election")).observe(listener));
        return NOTHING;
    }

    private static Map<String, Object> leaderOf(Election.Leader leader) {
        Map<String, Object> shown = new LinkedHashMap<>();
        shown.put("session", leader.session());
        shown.put("token", leader.token());
        shown.put("value", leader.value());
        return shown;
    }

    private Map<String, Object> watch(Json request) {
        String watcher = text(request, "watcher");
        Watch.Listener listener = new Watch.Listener() {
            @Override
            public void changed(Watch.Change change) {
                events.accept(Map.of(
                        "event", "change", "watcher", watcher, "path", change.path(), "kind", change.kind()));
            }

            @Override
            public void missed() {
                events.accept(Map.of("event", "gap", "watcher", watcher));
            }
        };
        watches.put("watcher " + watcher, clientOf(request).tree().watch(text(request, "prefix"), listener));
        return NOTHING;
    }

    private Latch latch(Json request) {
        return clientOf(request).latch(text(request, "name"));
    }

    private static String placeOf(Json request) {
        return request.text("client") + " " + request.text("name");
    }

    private Map<String, Object> treeGet(Json request) {
        Map<String, Object> shown = new LinkedHashMap<>();
        Optional<Tree.Znode> znode = clientOf(request).tree().get(text(request, "path"));
        shown.put("value", znode.map(found -> new String(found.data(), StandardCharsets.UTF_8)).orElse(null));
        shown.put("version", znode.map(Tree.Znode::version).orElse(null));
        return shown;
    }

    private Map<String, Object> treePut(Json request) {
        Tree tree = clientOf(request).tree();
        byte[] data = text(request, "value").getBytes(StandardCharsets.UTF_8);
        Long version = request.number("version");
        String path = text(request, "path");
        return Map.of("version", version == null ? tree.put(path, data) : tree.putIf(path, data, version));
    }

    private Map<String, Object> treeDelete(Json request) {
        Tree tree = clientOf(request).tree();
        Long version = request.number("version");
        String path = text(request, "path");
        return done(() -> {
            if (version == null) {
                tree.delete(path);
            } else {
                tree.deleteIf(path, version);
            }
        });
    }

    private Map<String, Object> lockState(Json request) {
        LockState state = clientOf(request).lockState(text(request, "lock"));
        List<Map<String, Object>> holders = state.holders().stream()
                .map(holder -> Map.<String, Object>of("session", holder.session(), "token", holder.token()))
                .toList();
        return Map.of("holders", holders, "waiters", state.waiters());
    }
}
