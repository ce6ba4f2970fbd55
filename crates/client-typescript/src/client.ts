/** The client: the addresses of the nodes, the sessions, and every kind of lock. */
import { acquire } from "./acquire.js";
import { Barrier, DoubleBarrier } from "./barriers.js";
import { Calls } from "./calls.js";
import { connectionOf, DEFAULT_ADDRESS, type ConnectionOptions } from "./connection.js";
import { holdDurably, releaseDurable, type DurableHoldOptions } from "./durable.js";
import { toMillis, toMillisIfSet, type Duration } from "./duration.js";
import { Election } from "./election.js";
import { isUnclear, LostError } from "./errors.js";
import { Group } from "./group.js";
import { Guard, MultiGuard } from "./guard.js";
import { lockRequest, type LockOptions, type MultiLockOptions } from "./lock-options.js";
import { forceRelease, lockState, requestRelease, type LockState, type ReleaseRequestOptions } from "./lock-state.js";
import type { Metrics } from "./metrics.js";
import { Nodes } from "./nodes.js";
import { randomName } from "./numbers.js";
import { OpenSession } from "./open-session.js";
import { Counter, Latch } from "./recipes.js";
import { generatedOwner } from "./reconciliation.js";
import { LocalRenewals, type Renewals } from "./renewer.js";
import { Sessions } from "./sessions.js";
import { receive, type ReceiveOptions } from "./transfer.js";
import { Tree } from "./tree.js";
import { Watcher } from "./watcher.js";
import { WorkerRenewals } from "./worker-renewals.js";

/** The defaults of a client. Other options have the default of the cluster, or none. */
export const DEFAULTS = {
  /** Unless the environment variable `HOLDFAST_ADDR` has the nodes. */
  addresses: [DEFAULT_ADDRESS],
  sessionPrefix: "sdk",
  labels: {},
  requestTimeout: 10_000,
  worker: false,
} as const satisfies ClientOptions;

export interface ClientOptions extends ConnectionOptions {
  /** How long the locks of a dead client stay held; 1 s to 24 h. By default 30 s, or that of the named session. */
  readonly ttl?: Duration | undefined;
  /** The beginning of generated session names; by default `sdk`. */
  readonly sessionPrefix?: string | undefined;
  /** Uses the session of this name, which outlives the client and is never replaced. */
  readonly session?: string | undefined;
  /** Labels of the session, which other callers see. */
  readonly labels?: Readonly<Record<string, string>> | undefined;
  /** The longest search for a node that answers a call; by default 10 s. */
  readonly requestTimeout?: Duration | undefined;
  /** Renews on a worker thread, which a blocked event loop does not stop. By default `false`. */
  readonly worker?: boolean | undefined;
  /** Receives the events that a program counts. */
  readonly metrics?: Metrics | undefined;
}

/** A handle to a cluster, with one session that is renewed while a guard needs it. */
export class Client {
  readonly #nodes: Nodes;
  readonly #renewals: Renewals;
  readonly #sessions: Sessions;
  /** The tree of znodes. */
  readonly tree: Tree;

  /** Creates the client. Sends nothing yet. */
  constructor(options: ClientOptions = {}) {
    const connection = connectionOf(options);
    this.#nodes = new Nodes(connection);
    this.#renewals = (options.worker ?? DEFAULTS.worker) ? new WorkerRenewals(connection) : new LocalRenewals(this.#nodes);
    const naming = {
      session: options.session,
      prefix: options.sessionPrefix ?? DEFAULTS.sessionPrefix,
      ttl: toMillisIfSet(options.ttl, "ttl"),
      labels: options.labels ?? DEFAULTS.labels,
    };
    const calls = new Calls(this.#nodes, toMillis(options.requestTimeout ?? DEFAULTS.requestTimeout, "requestTimeout"));
    this.#sessions = new Sessions(calls, naming, this.#renewals, options.metrics ?? {});
    this.tree = new Tree(this.#sessions);
  }

  /** Acquires a lock. Waits without bound unless `wait` is set; then fails with `BusyError`. */
  async lock(name: string, options: LockOptions = {}): Promise<Guard> {
    const request = lockRequest([name], options, generatedOwner(randomName()));
    const [held] = await acquire(this.#sessions, request);
    if (held === undefined) throw new TypeError("an acquire returns one lock for each name");
    return new Guard(held);
  }

  /** Acquires a lock if it is free. Otherwise fails with `BusyError`. */
  async tryLock(name: string, options: Omit<LockOptions, "wait"> = {}): Promise<Guard> {
    return await this.lock(name, { ...options, wait: 0 });
  }

  /** Acquires several locks, all or none. Such acquires never deadlock with each other. */
  async lockMany(names: readonly string[], options: MultiLockOptions = {}): Promise<MultiGuard> {
    const request = lockRequest(names, options, generatedOwner(randomName()));
    return new MultiGuard(await acquire(this.#sessions, request));
  }

  /** Acquires a permit of a semaphore, which has `limit` permits. Every caller names the same limit. */
  async semaphore(name: string, limit: number, options: Omit<LockOptions, "limit"> = {}): Promise<Guard> {
    return await this.lock(name, { ...options, limit });
  }

  /** Acquires a lock, runs `work` and releases the lock. */
  withLock<T>(name: string, work: (guard: Guard) => Promise<T> | T): Promise<T>;
  /**
   * Acquires a lock, runs `work` and releases the lock. At the loss the signal of the guard is aborted. When `work` is
   * over, the call then rejects with the `LostError`, because another client may have held the lock meanwhile.
   */
  withLock<T>(name: string, options: LockOptions, work: (guard: Guard) => Promise<T> | T): Promise<T>;
  async withLock<T>(name: string, second: LockOptions | Work<T>, third?: Work<T>): Promise<T> {
    const [options, work] = typeof second === "function" ? [{}, second] : [second, third];
    if (work === undefined) throw new TypeError("withLock needs a function");
    return await runUnder(await this.lock(name, options), work);
  }

  /**
   * Waits for the lock that `Guard.transfer` gives to the session of this client. Never acquires the lock. The receiver is
   * `owner`, or the session itself. Fails with `BusyError` if no transfer arrives within `wait`. The release of the guard
   * ends the hold, so release guards that re-entered it first.
   */
  async receiveTransfer(name: string, options: ReceiveOptions = {}): Promise<Guard> {
    return new Guard(await receive(this.#sessions, name, options));
  }

  /** Opens the session of this client, and renews it until `OpenSession.close`. */
  async openSession(): Promise<OpenSession> {
    return new OpenSession(await this.#sessions.live(undefined));
  }

  /** Prepares an election, which has many candidates and one leader. */
  election(name: string): Election {
    return new Election(this.#sessions, name);
  }

  /** Prepares a latch, which counts down once for each key and opens at zero. */
  latch(name: string): Latch {
    return new Latch(this.#sessions, name);
  }

  /** Prepares a barrier that opens when `parties` callers have arrived. */
  barrier(name: string, parties: number): Barrier {
    return new Barrier(this.#sessions, name, parties);
  }

  /** Prepares a double barrier that `parties` callers enter together and leave together. */
  doubleBarrier(name: string, parties: number): DoubleBarrier {
    return new DoubleBarrier(this.#sessions, name, parties);
  }

  /** Prepares a group, which lists its live members, each with a value. */
  group(name: string): Group {
    return new Group(this.#sessions, name);
  }

  /** Prepares a counter of 64 bits. */
  counter(name: string): Counter {
    return new Counter(this.#sessions, name);
  }

  /** Watches the paths that begin with a text: `/cfg/` is everything below `/cfg`, and the lock NAME is `/locks/NAME`. */
  watch(prefix: string, options: { readonly since?: number | undefined } = {}): Watcher {
    return new Watcher(this.#sessions, { prefix }, options.since);
  }

  /** Returns the holders of a lock, and the number of its waiters. */
  async lockState(name: string): Promise<LockState> {
    return await lockState(this.#sessions.calls, name);
  }

  /** Ends every hold of a lock, or the hold of a token, as an operator. Returns the number of holds that ended. */
  async forceRelease(name: string, options: { readonly reason: string; readonly token?: number | undefined }): Promise<number> {
    return await forceRelease(this.#sessions.calls, name, options.reason, options.token);
  }

  /** Asks the holders of a lock to release it. Returns the number of holders that were asked. */
  async requestRelease(name: string, options: ReleaseRequestOptions = {}): Promise<number> {
    return await requestRelease(this.#sessions.calls, name, options);
  }

  /**
   * Acquires a lock with a durable hold, or finds the hold that the owner has, and returns its token. The hold outlasts this
   * program: store the token, which alone releases it. The close of the client does not end the wait.
   */
  async holdDurably(name: string, options: DurableHoldOptions): Promise<number> {
    return await holdDurably(this.#sessions.calls, name, options);
  }

  /** Releases the durable hold that has this token. A repeated call has no effect. */
  async releaseDurable(name: string, { owner, token }: { readonly owner: string; readonly token: number }): Promise<void> {
    await releaseDurable(this.#sessions.calls, name, owner, token);
  }

  /**
   * Closes the sessions of the client, which releases everything that they hold, and its connections. Waiting calls end with
   * `LostError`, and guards are lost. A named session stays open with its locks until it expires: release its guards first.
   * Rejects if no node confirms the end of a session, which then ends after its time-to-live.
   */
  async close(): Promise<void> {
    try {
      await this.#sessions.close();
    } finally {
      this.#renewals.close();
      this.#nodes.close();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

type Work<T> = (guard: Guard) => Promise<T> | T;

/** Runs the work and releases the guard. Reports the loss even if the work did not see it. */
async function runUnder<T>(guard: Guard, work: Work<T>): Promise<T> {
  let result: T;
  try {
    result = await work(guard);
  } catch (error) {
    throw await releaseAfterError(guard, error);
  }
  try {
    await guard.release();
  } catch (error) {
    // The work was done under the lock, so its result counts; an uncertain release continues in the background.
    if (!isUnclear(error)) throw error;
  }
  return result;
}

/** Returns the error of the work. After a loss, an error that only reports the aborted signal becomes the loss. */
async function releaseAfterError(guard: Guard, error: unknown): Promise<unknown> {
  const released: unknown = await guard.release().catch((release: unknown) => release);
  if (!(released instanceof LostError) || error === released) return error;
  if (error instanceof Error && error.name === "AbortError") {
    return new LostError({ cause: released.lossCause, reason: released.reason }, guard.lock, guard.token, error);
  }
  if (error instanceof Error && error.cause === undefined) error.cause = released;
  return error;
}
