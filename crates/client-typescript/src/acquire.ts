/**
 * Acquiring: one entry in each queue, however many calls repeat the request.
 *
 * The call is repeated, at any node that answers, until the grant, the end of the wait or the end of the session. An
 * acquire that fails or is cancelled gives its attempt up in the background, now and for late copies.
 */
import { LinkedAbort, type StopSignal } from "./abort.js";
import type { ErrorCode } from "./codes.js";
import { grantBodies, grantBody, type GrantBody } from "./bodies.js";
import { untilRetry, WAIT_MAX } from "./calls.js";
import type { Call, Delivery } from "./call.js";
import { monotonic, now } from "./clock.js";
import { BusyError, isUncertain, isUnclear, LostError, newestAttempt, retryAt, UnavailableError, UnexpectedResponseError } from "./errors.js";
import { HeldLock } from "./held-lock.js";
import { HoldLimits } from "./limits.js";
import { acquireCall, changeCall, type LockRequest } from "./lock-options.js";
import { numberAfter } from "./numbers.js";
import { QueueEntry } from "./queue-entry.js";
import type { Session } from "./session.js";
import type { Sessions } from "./sessions.js";

/** Acquires that may fail because an idle session has ended. */
const FRESH_SESSIONS_MAX = 3;

/** Acquires the locks of a request, in the order of the request. */
export async function acquire(sessions: Sessions, request: LockRequest): Promise<HeldLock[]> {
  const began = monotonic();
  try {
    const until = request.wait === undefined ? Number.POSITIVE_INFINITY : monotonic() + request.wait;
    const held = await acquireUntil(sessions, request, until);
    for (const lock of request.locks) sessions.metrics.acquired?.(lock, Math.round(monotonic() - began));
    return held;
  } catch (error) {
    for (const lock of request.locks) sessions.metrics.acquireFailed?.(lock, error);
    throw error;
  }
}

/** Returns the transferred hold that had this token. */
export async function adopt(session: Session, request: LockRequest, token: number): Promise<HeldLock[]> {
  const held = await session.track(new AcquireAttempt(session, request, monotonic(), token).run());
  for (const { lock } of held) session.metrics.acquired?.(lock, 0);
  return held;
}

async function acquireUntil(sessions: Sessions, request: LockRequest, until: number): Promise<HeldLock[]> {
  for (let tries = 1; ; tries += 1) {
    request.signal?.throwIfAborted();
    const session = await sessions.live(request.ttl, request.signal);
    const attempt = new AcquireAttempt(session, request, until);
    try {
      return await session.track(attempt.run());
    } catch (error) {
      if (!(error instanceof LostError)) throw error;
      // The session ended while it was idle, or while the entry was queued. The caller held nothing.
      const mayTryAgain = sessions.mayReplace && (tries < FRESH_SESSIONS_MAX || monotonic() < until);
      if (mayTryAgain) continue;
      if (error.lossCause === "not-renewed") throw new UnavailableError(error.reason ?? "no renewal was answered");
      throw error;
    }
  }
}

/** The calls of one acquire in one session. */
class AcquireAttempt {
  readonly #session: Session;
  readonly #request: LockRequest;
  readonly #until: number;
  readonly #entries: readonly QueueEntry[];
  /** The token of a transferred hold to adopt, which no attempt of this client acquired. */
  readonly #adopted: number | undefined;
  /** The number of the attempt, or of the call that adopts a hold. */
  #number = numberAfter(0n);
  /** Repeats the call at another node. */
  #elsewhere = new LinkedAbort();
  #isGrantedElsewhere = false;
  /** Whether a copy of the attempt may still take effect. */
  #inDoubt = false;

  constructor(session: Session, request: LockRequest, until: number, adopted?: number) {
    this.#session = session;
    this.#request = request;
    this.#until = until;
    this.#adopted = adopted;
    const attempt = adopted === undefined ? this.#number : 0n;
    this.#entries = request.locks.map((lock) => new QueueEntry(lock, request.owner, attempt, request.isSharded));
    for (const entry of this.#entries) {
      entry.onGrantedElsewhere = () => this.#elsewhere.abort();
      // The hold to release if the caller gets no guard.
      entry.token = adopted ?? 0;
    }
  }

  async run(): Promise<HeldLock[]> {
    const session = this.#session;
    const unuse = session.use();
    for (const entry of this.#entries) session.entries.add(entry);
    let isGranted = false;
    try {
      const held = await this.#repeat(unuse);
      isGranted = true;
      return held;
    } finally {
      for (const entry of this.#entries) entry.onGrantedElsewhere = undefined;
      if (!isGranted) {
        if (this.#inDoubt && session.mayRelease) session.releaseInBackground(this.#entries);
        else for (const entry of this.#entries) session.entries.delete(entry);
        unuse();
      }
    }
  }

  async #repeat(unuse: () => void): Promise<HeldLock[]> {
    for (;;) {
      const wasInDoubt = this.#inDoubt;
      this.#inDoubt = true;
      const delivery = await this.#send();
      if (delivery === "elsewhere") continue;
      const { result } = delivery;
      if ("answer" in result) {
        const grants = this.#entries.length === 1 ? [grantBody(result.answer)] : grantBodies(result.answer);
        return this.#granted(grants, result.sent, unuse);
      }
      this.#inDoubt = wasInDoubt || delivery.inDoubt || isUnclear(result.error);
      this.#mayRepeat(result.error);
      const pause = await this.#unlessStopped(async (stop) => {
        await untilRetry(result.error, stop);
        stop.throwIfAborted();
      });
      if (pause === "elsewhere") this.#inDoubt = true;
    }
  }

  /** Sends one call. */
  async #send(): Promise<Delivery | "elsewhere"> {
    const wait = Math.max(Math.min(Math.trunc(this.#until - monotonic()), WAIT_MAX), 0);
    const call = this.#call(wait);
    const route = wait === 0 ? "copied" : this.#isGrantedElsewhere ? "elsewhere" : "alone";
    this.#isGrantedElsewhere = false;
    return await this.#unlessStopped((stop) => this.#session.deliverAt(call, route, stop));
  }

  /** The result of the work; "elsewhere" if a renewal listed the locks as held before. Rejects if the caller cancels the acquire or the session ends. */
  async #unlessStopped<T>(work: (stop: StopSignal) => Promise<T>): Promise<T | "elsewhere"> {
    const { signal } = this.#request;
    this.#elsewhere = new LinkedAbort();
    const stop = new LinkedAbort(this.#session.ending, this.#elsewhere, signal);
    try {
      return await work(stop);
    } catch (error) {
      if (signal?.aborted) throw signal.reason;
      if (this.#session.ending.aborted) throw this.#session.ending.reason;
      if (!this.#elsewhere.aborted) throw error;
      // A renewal listed the locks as held: the node that holds the call is behind or frozen.
      this.#isGrantedElsewhere = true;
      return "elsewhere";
    } finally {
      stop.unlink();
    }
  }

  /** A call that adopts a hold changes nothing, and never acquires the lock. */
  #call(wait: number): Call {
    const [first] = this.#entries;
    if (this.#adopted === undefined || first === undefined) return acquireCall(this.#request, this.#session, this.#number, wait);
    return changeCall(first.lock, this.#session, first.owner, first.attempt, this.#number, {}, wait);
  }

  /** Throws the error, unless the acquire may continue with another call. */
  #mayRepeat(error: Error): void {
    const isOver = Math.max(monotonic(), retryAt(error)) >= this.#until;
    const newest = newestAttempt(error);
    if (newest !== undefined) {
      this.#number = numberAfter(newest);
      if (this.#adopted === undefined) for (const entry of this.#entries) entry.attempt = this.#number;
      this.#inDoubt = false;
      return;
    }
    // The node died, held the call for the maximum time, or has no leader. The queue entry still exists.
    if (isUncertain(error) && !isOver) return;
    // Until its session ends, a waiter keeps its place and tries the token that the file has.
    if (this.#session.calls.nodes.mayGetToken(error) && !isOver) return;
    // The HTTP API bounds the wait of one call.
    if (error instanceof BusyError && error.code === ("wait-timeout" satisfies ErrorCode) && !isOver) return;
    throw error;
  }

  /** Turns the grants into held locks, if the session is alive. */
  #granted(grants: readonly GrantBody[], sent: number, unuse: () => void): HeldLock[] {
    for (const grant of grants) {
      const acknowledged = { countedFrom: sent + grant.waited_ms, held: grant.expires_in_ms ?? 0 };
      const loss = this.#session.acknowledge(acknowledged);
      if (loss !== undefined) throw new LostError(loss);
    }
    this.#request.signal?.throwIfAborted();
    const granted = this.#entries.map((entry) => {
      const grant = this.#entries.length === 1 ? grants[0] : grants.find(({ lock }) => lock === entry.lock);
      if (grant === undefined) throw new UnexpectedResponseError(`${entry.lock} was not granted with the other locks`);
      return { entry, grant };
    });
    const moment = now();
    let users = granted.length;
    const unuseOne = (): void => {
      users -= 1;
      if (users === 0) unuse();
    };
    const held = granted.map(({ entry, grant }) => {
      this.#session.followUpgrade(grant, moment);
      entry.grantedAs(grant.lock);
      entry.limits = new HoldLimits(moment, this.#request.progressTimeout);
      entry.granted(grant, this.#request.maxHold, sent + grant.waited_ms, moment);
      // The sender chose the mode of a transferred hold.
      const mode = this.#adopted !== undefined ? grant.mode : this.#request.mode;
      return new HeldLock(this.#session, entry, { ...grant, mode }, unuseOne);
    });
    this.#session.check();
    return held;
  }
}
