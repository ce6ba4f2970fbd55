/**
 * The adapter of the scenario suite: requests as JSON lines on stdin, answers and events as JSON lines on stdout.
 * Requests run concurrently. Every client renews on a worker thread, except with `--no-worker`.
 */
import { createInterface } from "node:readline";
import {
  Client,
  InvalidArgumentError,
  type DoubleBarrierPlace,
  type GroupWatcher,
  type Guard,
  type LockOptions,
  type Membership,
  type MultiGuard,
  type Observer,
  type Watcher,
} from "holdfast";
import { describe } from "./describe.js";
import { CancelledError, checkFields, errorBody, Fields, UnsupportedError, type Request } from "./protocol.js";

type AnyGuard = Guard | MultiGuard;
type Handler = (fields: Fields, signal: AbortSignal) => Promise<Record<string, unknown> | void> | Record<string, unknown> | void;

const worker = !process.argv.includes("--no-worker");
const clients = new Map<string, Client>();
const guards = new Map<string, AnyGuard>();
const closed = new WeakSet<Client>();
const released = new WeakSet<AnyGuard>();
const places = new Map<string, DoubleBarrierPlace>();
const observers = new Map<string, Observer>();
const watchers = new Map<string, Watcher | GroupWatcher>();
const members = new Map<string, Membership>();
const pending = new Map<number, AbortController>();

function print(line: Record<string, unknown>): void {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}

function found<T>(all: ReadonlyMap<string, T>, name: string): T {
  const one = all.get(name);
  if (one === undefined) throw new InvalidArgumentError(`there is no ${name}`);
  return one;
}

const clientOf = (fields: Fields): Client => found(clients, fields.text("client"));
const guardOf = (fields: Fields): AnyGuard => found(guards, fields.text("guard"));

function oneGuardOf(fields: Fields): Guard {
  const guard = guardOf(fields);
  if (!("token" in guard)) throw new InvalidArgumentError("the guard has several locks");
  return guard;
}

function lockOptions(fields: Fields, signal: AbortSignal): LockOptions {
  return {
    wait: fields.optionalNumber("wait_ms"),
    mode: fields.optionalText("mode") as LockOptions["mode"],
    permits: fields.optionalNumber("permits"),
    limit: fields.optionalNumber("limit"),
    priority: fields.optionalNumber("priority"),
    owner: fields.optionalText("owner"),
    reentrant: fields.optionalFlag("reentrant"),
    queueMax: fields.optionalNumber("queue_max"),
    maxHold: fields.optionalNumber("max_hold_ms"),
    minHold: fields.optionalNumber("min_hold_ms"),
    value: fields.optionalText("value"),
    progressTimeout: fields.optionalNumber("progress_timeout_ms"),
    ttl: fields.optionalNumber("ttl_ms"),
    shards: fields.optionalNumber("shards"),
    shard: fields.optionalNumber("shard"),
    signal,
  };
}

/** Keeps a guard under its name, and prints its events. The close of its client is a release, and no loss. */
function keep(fields: Fields, guard: AnyGuard): void {
  const [name, client] = [fields.text("guard"), clientOf(fields)];
  guards.set(name, guard);
  for (const one of "guards" in guard ? guard.guards : [guard]) {
    const lost = (): void => {
      if (!closed.has(client)) print({ event: "lost", guard: name, lock: one.lock, token: one.token, cause: one.lost?.lossCause });
    };
    one.signal.addEventListener("abort", lost, { once: true });
    one.onReleaseRequested((request) => print({ event: "release-requested", guard: name, lock: one.lock, reason: request.reason }));
  }
}

function openClient(fields: Fields): void {
  const name = fields.text("name");
  const client = new Client({
    addresses: fields.texts("addresses"),
    ttl: fields.optionalNumber("ttl_ms"),
    session: fields.optionalText("session"),
    sessionPrefix: fields.optionalText("session_prefix"),
    labels: fields.labels(),
    requestTimeout: fields.optionalNumber("request_timeout_ms"),
    ca: fields.optionalText("ca"),
    certificate: fields.optionalText("certificate"),
    key: fields.optionalText("key"),
    accessToken: fields.optionalText("access_token"),
    accessTokenFile: fields.optionalText("access_token_file"),
    worker,
  });
  clients.set(name, client);
}

/** The name stays known: a released or lost guard then answers `lost`. */
async function releaseGuard(fields: Fields): Promise<void> {
  const guard = guardOf(fields);
  if (released.has(guard)) guard.ensure();
  await guard.release();
  released.add(guard);
}

async function follow(name: string, observer: Observer): Promise<void> {
  for await (const change of observer) {
    if (change.kind === "gap") print({ event: "gap", observer: name });
    else print({ event: "leader", observer: name, leader: change.kind === "leader" ? change.leader : null });
  }
}

async function watch(name: string, watcher: Watcher): Promise<void> {
  for await (const change of watcher) {
    if (change.kind === "gap") print({ event: "gap", watcher: name });
    else print({ event: "change", watcher: name, path: change.path, kind: change.kind, revision: change.revision });
  }
}

async function followGroup(name: string, watcher: GroupWatcher): Promise<void> {
  for await (const present of watcher) print({ event: "members", watcher: name, members: Object.fromEntries(present) });
}

/** Repeats an iteration that no node served, until it is ended. */
function keepRunning(run: () => Promise<void>): void {
  run().catch(() => setTimeout(() => keepRunning(run), 100));
}

const wait = (fields: Fields, signal: AbortSignal) => ({ wait: fields.optionalNumber("wait_ms"), signal });

const handlers: Readonly<Record<string, Handler>> = {
  info: () => ({ language: "typescript", unsupported: ["fork"] }),
  describe,
  client: openClient,
  async acquire(fields, signal) {
    const guard = await clientOf(fields).lock(fields.text("lock"), lockOptions(fields, signal));
    keep(fields, guard);
    return { token: guard.token, session: guard.session, lock: guard.lock, permits: guard.permits, slots: guard.slots };
  },
  async acquire_many(fields, signal) {
    const { wait, mode, owner, queueMax, maxHold, ttl } = lockOptions(fields, signal);
    const isUpgradable = mode === "upgradable";
    if (isUpgradable) throw new InvalidArgumentError("a multi-lock cannot be upgradable");
    const options = { wait, mode, owner, queueMax, maxHold, ttl, signal };
    const guard = await clientOf(fields).lockMany(fields.texts("locks"), options);
    keep(fields, guard);
    return { tokens: Object.fromEntries(guard.tokens), session: guard.session };
  },
  cancel(fields) {
    pending.get(fields.number("request"))?.abort(new CancelledError("the request was cancelled"));
  },
  release: releaseGuard,
  resign: releaseGuard,
  ensure: (fields) => guardOf(fields).ensure(),
  remaining: (fields) => ({ remaining_ms: Math.trunc(guardOf(fields).remaining()) }),
  report_progress: (fields) => oneGuardOf(fields).reportProgress(),
  async upgrade(fields) {
    const guard = oneGuardOf(fields);
    await guard.upgrade({ wait: fields.optionalNumber("wait_ms") });
    return { token: guard.token };
  },
  async downgrade(fields) {
    const guard = oneGuardOf(fields);
    await guard.downgrade((fields.optionalText("mode") ?? "shared") as "shared" | "upgradable");
    return { token: guard.token };
  },
  open_session: async (fields) => ({ session: (await clientOf(fields).openSession()).name }),
  async transfer(fields) {
    return { token: await oneGuardOf(fields).transfer(fields.text("to"), { owner: fields.optionalText("owner") }) };
  },
  async receive_transfer(fields, signal) {
    const { wait, owner } = lockOptions(fields, signal);
    const guard = await clientOf(fields).receiveTransfer(fields.text("lock"), { wait, owner, signal });
    keep(fields, guard);
    return { token: guard.token, session: guard.session };
  },
  async release_permits(fields) {
    const guard = oneGuardOf(fields);
    await guard.releasePermits(fields.number("permits"));
    return { permits: guard.permits };
  },
  headers: (fields) => ({ headers: oneGuardOf(fields).headers() }),
  async campaign(fields, signal) {
    const election = clientOf(fields).election(fields.text("election"));
    const { wait, ttl, owner, priority, maxHold } = lockOptions(fields, signal);
    const leadership = await election.campaign(fields.optionalText("value") ?? "", { wait, ttl, owner, priority, maxHold, signal });
    keep(fields, leadership);
    return { token: leadership.token, session: leadership.session };
  },
  observe(fields) {
    const name = fields.text("observer");
    const observer = clientOf(fields).election(fields.text("election")).observe();
    observers.set(name, observer);
    keepRunning(() => follow(name, observer));
  },
  async unobserve(fields) {
    await found(observers, fields.text("observer")).return();
  },
  latch_set: (fields) => clientOf(fields).latch(fields.text("name")).create(fields.number("count")),
  async latch_count_down(fields) {
    const key = fields.optionalText("key") ?? `${process.pid}-${fields.request.id}-${Date.now()}`;
    return { left: await clientOf(fields).latch(fields.text("name")).countDown(key) };
  },
  latch_wait: (fields, signal) => clientOf(fields).latch(fields.text("name")).wait(wait(fields, signal)),
  async barrier_wait(fields, signal) {
    const barrier = clientOf(fields).barrier(fields.text("name"), fields.number("parties"));
    return { ...(await barrier.wait(wait(fields, signal))) };
  },
  async double_barrier_enter(fields, signal) {
    const barrier = clientOf(fields).doubleBarrier(fields.text("name"), fields.number("parties"));
    places.set(placeName(fields), await barrier.enter(wait(fields, signal)));
  },
  double_barrier_leave: (fields, signal) => found(places, placeName(fields)).leave(wait(fields, signal)),
  async counter_add(fields) {
    const { value } = await clientOf(fields).counter(fields.text("name")).add(fields.number("add"));
    return { value: Number(value) };
  },
  async group_join(fields) {
    const membership = await clientOf(fields).group(fields.text("group")).join(fields.text("value"));
    members.set(fields.text("member"), membership);
    return { session: membership.session };
  },
  group_set_value: (fields) => found(members, fields.text("member")).setValue(fields.text("value")),
  group_leave: (fields) => found(members, fields.text("member")).leave(),
  async group_members(fields) {
    return { members: Object.fromEntries(await clientOf(fields).group(fields.text("group")).members()) };
  },
  group_watch(fields) {
    const name = fields.text("watcher");
    const watcher = clientOf(fields).group(fields.text("group")).watch();
    watchers.set(name, watcher);
    keepRunning(() => followGroup(name, watcher));
  },
  async tree_get(fields) {
    const znode = await clientOf(fields).tree.get(fields.text("path"));
    return znode === undefined ? { value: null, version: null } : { value: znode.data.toString("utf8"), version: znode.version };
  },
  async tree_put(fields) {
    const version = fields.optionalNumber("version");
    return { version: await clientOf(fields).tree.put(fields.text("path"), fields.text("value"), { version }) };
  },
  tree_delete: (fields) => clientOf(fields).tree.delete(fields.text("path"), { version: fields.optionalNumber("version") }),
  async watch(fields) {
    const name = fields.text("watcher");
    const watcher = clientOf(fields).watch(fields.text("prefix"));
    await watcher.start();
    watchers.set(name, watcher);
    keepRunning(() => watch(name, watcher));
  },
  async unwatch(fields) {
    await found(watchers, fields.text("watcher")).return();
  },
  async lock_state(fields) {
    const { holders, waiters } = await clientOf(fields).lockState(fields.text("lock"));
    return { holders: holders.map(({ session, token }) => ({ session, token })), waiters };
  },
  async force_release(fields) {
    return { ended: await clientOf(fields).forceRelease(fields.text("lock"), { reason: fields.text("reason") }) };
  },
  async request_release(fields) {
    const options = { reason: fields.optionalText("reason"), deadline: fields.optionalNumber("deadline_ms"), revoke: fields.optionalFlag("revoke") };
    return { asked: await clientOf(fields).requestRelease(fields.text("lock"), options) };
  },
  block(fields) {
    const until = Date.now() + fields.number("ms");
    while (Date.now() < until);
  },
  async close(fields) {
    await closeClient(clientOf(fields));
  },
  async shutdown() {
    await shutDown();
  },
};

async function closeClient(client: Client): Promise<void> {
  closed.add(client);
  await client.close();
}

/** Ends the program in order; the answer to the request is written first. */
async function shutDown(): Promise<void> {
  for (const iterator of [...observers.values(), ...watchers.values()]) await iterator.return();
  await Promise.allSettled([...clients.values()].map(closeClient));
  setImmediate(() => process.exit(0));
}

function placeName(fields: Fields): string {
  return `${fields.text("client")} ${fields.text("name")}`;
}

async function serve(line: string): Promise<void> {
  const request = JSON.parse(line) as Request;
  const { id } = request;
  const cancel = new AbortController();
  pending.set(id, cancel);
  try {
    const handler = Object.hasOwn(handlers, request.do) ? handlers[request.do] : undefined;
    if (handler === undefined) throw new UnsupportedError(`${request.do} is not supported`);
    checkFields(request);
    print({ id, ok: (await handler(new Fields(request), cancel.signal)) ?? {} });
  } catch (error) {
    print({ id, error: errorBody(error) });
  } finally {
    pending.delete(id);
  }
}

const lines = createInterface({ input: process.stdin });
lines.on("line", (line) => void serve(line));
lines.on("close", () => void shutDown());
