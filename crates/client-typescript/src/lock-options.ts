/** The options of an acquire, and the calls that it sends. Pure. */
import type { Call } from "./call.js";
import { apiDuration, toMillis, toMillisIfSet, type Duration } from "./duration.js";
import { InvalidArgumentError } from "./errors.js";
import { checkedName, namedPath, target, waitQuery, type Query } from "./target.js";

export type Mode = "exclusive" | "shared" | "upgradable";

export interface LockOptions {
  /** The longest wait in the queue. By default without bound; 0 acquires only a free lock. */
  readonly wait?: Duration | undefined;
  /** By default `exclusive`. */
  readonly mode?: Mode | undefined;
  /** The number of permits of a semaphore, all or none. */
  readonly permits?: number | undefined;
  /** The total number of permits; the first acquire with a limit creates the semaphore. */
  readonly limit?: number | undefined;
  /** The priority in the queue, from 0 to 9. */
  readonly priority?: number | undefined;
  /** The owner within the session, which may acquire the lock again. By default each guard has another one. */
  readonly owner?: string | undefined;
  /** With `false`, another acquire of the owner is rejected. With `true`, it also enters the hold of a semaphore. */
  readonly reentrant?: boolean | undefined;
  /** Fails with `BusyError` if the queue has this many waiters. */
  readonly queueMax?: number | undefined;
  /** Ends the hold this long after its grant, despite renewals. */
  readonly maxHold?: Duration | undefined;
  /** Delays the next grant until this long after this one, even after a release. */
  readonly minHold?: Duration | undefined;
  /** A text that readers of the lock see. */
  readonly value?: string | undefined;
  /** The longest time between two calls of `reportProgress`; after it the client releases the lock. */
  readonly progressTimeout?: Duration | undefined;
  /** How long the lock of a dead holder stays held. By default the time-to-live of the client. */
  readonly ttl?: Duration | undefined;
  /** The number of shards of a sharded lock, each of which is a separate lock. The cluster selects a shard. */
  readonly shards?: number | undefined;
  /** The shard to acquire, counted from 0. */
  readonly shard?: number | undefined;
  /** Cancels the acquire, which then rejects with the reason of the signal. */
  readonly signal?: AbortSignal | undefined;
}

export type MultiLockOptions = Omit<LockOptions, "permits" | "limit" | "priority" | "reentrant" | "minHold" | "value" | "mode" | "shards" | "shard"> & {
  readonly mode?: "exclusive" | "shared" | undefined;
};

/** A checked request for one lock or several. */
export interface LockRequest {
  readonly locks: readonly string[];
  /** Undefined stands for the session itself. */
  readonly owner: string | undefined;
  readonly wait: number | undefined;
  readonly ttl: number | undefined;
  readonly maxHold: number | undefined;
  readonly progressTimeout: number | undefined;
  readonly mode: Mode;
  /** Whether the request is for one shard of a sharded lock. */
  readonly isSharded: boolean;
  readonly signal: AbortSignal | undefined;
  /** The parameters that every copy of the acquire has. */
  readonly query: Query;
}

/** Checks names and options. `generatedOwner` is the owner if the options name none. */
export function lockRequest(locks: readonly string[], options: LockOptions, generatedOwner: string): LockRequest {
  if (locks.length === 0) throw new InvalidArgumentError("no lock is named: name at least one");
  for (const lock of locks) checkedName(lock);
  if (new Set(locks).size < locks.length) throw new InvalidArgumentError("a lock is named twice");
  const maxHold = toMillisIfSet(options.maxHold, "maxHold");
  const minHold = toMillisIfSet(options.minHold, "minHold");
  return {
    locks,
    owner: options.owner ?? generatedOwner,
    wait: toMillisIfSet(options.wait, "wait"),
    ttl: toMillisIfSet(options.ttl, "ttl"),
    maxHold,
    progressTimeout: options.progressTimeout === undefined ? undefined : toMillis(options.progressTimeout, "progressTimeout"),
    mode: options.mode ?? "exclusive",
    isSharded: options.shards !== undefined || options.shard !== undefined,
    signal: options.signal,
    query: {
      mode: options.mode,
      permits: options.permits,
      limit: options.limit,
      priority: options.priority,
      reentrant: options.reentrant,
      queue_max: options.queueMax,
      max_hold: maxHold === undefined ? undefined : apiDuration(maxHold),
      min_hold: minHold === undefined ? undefined : apiDuration(minHold),
      value: options.value,
      shards: options.shards,
      shard: options.shard,
    },
  };
}

/** Returns the request of a receiver of transfers. */
export function receiveRequest(lock: string, options: LockOptions): LockRequest {
  const { owner, progressTimeout, signal, ttl, wait } = options;
  return { ...lockRequest([lock], { progressTimeout, signal, ttl, wait }, ""), owner };
}

/** Names one session, so that a call never opens another session of the same name. */
export interface SessionId {
  readonly name: string;
  readonly incarnation: number;
}

/** Returns the call that acquires the locks. A copy of it renews the hold of the attempt. */
export function acquireCall(request: LockRequest, session: SessionId, attempt: bigint, wait: number): Call {
  const { locks, owner, query } = request;
  const { name, incarnation } = session;
  const named = { session: name, incarnation, owner, attempt, ...waitQuery(wait), ...query };
  const [only] = locks;
  if (locks.length === 1 && only !== undefined) {
    return { method: "PUT", target: target(namedPath("locks", only), named), copies: "harmless", wait };
  }
  return { method: "POST", target: target("/v1/locks", { name: locks, ...named }), copies: "harmless", wait };
}

/** Returns the call that converts the hold of an attempt; `by` is its number. It never acquires the lock. */
export function changeCall(lock: string, session: SessionId, owner: string | undefined, attempt: bigint, by: bigint, change: Query, wait: number): Call {
  const { name, incarnation } = session;
  const query = { session: name, incarnation, owner, attempt: by, change: attempt, ...waitQuery(wait), ...change };
  return { method: "PUT", target: target(namedPath("locks", lock), query), copies: "harmless", wait };
}

/** Returns the call that releases the locks of one attempt, or ends its wait, now and for late copies. */
export function releaseCall(locks: readonly string[], session: string, owner: string | undefined, attempt: bigint, token: number): Call {
  const named = attempt === 0n ? { session, owner, token } : { session, owner, attempt };
  const [only] = locks;
  const path = locks.length === 1 && only !== undefined ? target(namedPath("locks", only), named) : target("/v1/locks", { name: locks, ...named });
  return { method: "DELETE", target: path, copies: "harmless" };
}
