/**
 * Renews sessions, on this thread or on a worker.
 *
 * For each session in use, one keepalive is parked at a node. The call renews the session, and returns as soon as the
 * cluster grants, takes or requests a lock of the session. If no node accepts a parked call, plain keepalives renew the
 * session until one does. Bounds: one call in flight for each session.
 */
import type { Socket } from "node:net";
import type { StopSignal } from "./abort.js";
import { sessionBody, type KeepaliveBody } from "./bodies.js";
import { keepAlive, park } from "./calls.js";
import type { Delivery } from "./call.js";
import { now } from "./clock.js";
import { LostError } from "./errors.js";
import { parkTime, renewalPause } from "./lease.js";
import type { Nodes, SendOptions } from "./nodes.js";
import { sleep } from "./sleep.js";
import { sessionPath, target, waitQuery, type Query } from "./target.js";

/** The time before the first keepalive. The acquire renews the session, and a short hold needs no keepalive. */
const FIRST_AFTER = 50;
/** The pause between two parked keepalives. It batches events, so a busy session is not renewed for each one. */
const PAUSE = 40;
/** The pause after a renewal that no node accepted. */
const RETRY_PAUSE = 200;
const PARK_RETRY_MAX = 12_800;

/** What a renewal learned. The moments of sending and of the answer are on the clock of deadlines. */
export type RenewalReport =
  | { readonly kind: "renewed"; readonly sent: number; readonly answered: number; readonly body: KeepaliveBody }
  | { readonly kind: "failed"; readonly reason: string }
  | { readonly kind: "session-ended" };

/** A session to renew. */
export interface RenewedSession {
  readonly name: string;
  /** No later session of the name is renewed. */
  readonly incarnation: number;
  /** Events up to this revision are known. */
  readonly since: number | undefined;
  /** The length and the deadline of the lease. */
  readonly held: number;
  readonly deadline: number;
}

export class SessionRenewer {
  readonly #nodes: Nodes;
  readonly #report: (report: RenewalReport) => void;
  readonly #name: string;
  readonly #incarnation: number;
  #since: number | undefined;
  #held: number;
  #deadline: number;
  /** Ends the present run, which stops its call. */
  #run: AbortController | undefined;
  /** Whether the session is in use. Without a use, the call in flight ends by itself and the process may end. */
  #isUsed = false;
  #socket: Socket | undefined;
  /** Consecutive parked calls that no node accepted. */
  #failures = 0;
  /** The next parked call waits at most this long. */
  #parkAtMost = Number.POSITIVE_INFINITY;

  constructor(nodes: Nodes, session: RenewedSession, report: (report: RenewalReport) => void) {
    this.#nodes = nodes;
    this.#report = report;
    this.#name = session.name;
    this.#incarnation = session.incarnation;
    this.#since = session.since;
    this.#held = session.held;
    this.#deadline = session.deadline;
  }

  /** Renews the session from now on. `deadline` is that of its lease. */
  use(deadline: number): void {
    this.#isUsed = true;
    this.#deadline = Math.max(this.#deadline, deadline);
    this.#socket?.ref();
    if (this.#run !== undefined) return;
    this.#run = new AbortController();
    void this.#renewWhileUsed(this.#run.signal);
  }

  /** Stops the renewal after the present call, which no longer keeps the process alive. */
  unuse(): void {
    this.#isUsed = false;
    this.#socket?.unref();
  }

  /** Bounds the next parked call, because the client wants to compare the holds of the session again. */
  reportWithin(millis: number): void {
    this.#parkAtMost = Math.min(this.#parkAtMost, millis);
  }

  /** Stops the renewal and its call. */
  stop(): void {
    this.#isUsed = false;
    this.#run?.abort();
  }

  async #renewWhileUsed(signal: StopSignal): Promise<void> {
    let pause = FIRST_AFTER;
    while (this.#isUsed && !signal.aborted) {
      await sleep(pause, signal);
      if (!this.#isUsed || signal.aborted) break;
      try {
        pause = await this.#renew(signal);
      } catch (error) {
        // The call was aborted, or something else than a node answered it.
        if (signal.aborted) break;
        this.#report({ kind: "failed", reason: error instanceof Error ? error.message : String(error) });
        pause = RETRY_PAUSE;
      }
    }
    this.#run = undefined;
    if (this.#isUsed && !signal.aborted) this.use(this.#deadline);
  }

  /** Parks a keepalive, or renews with a plain one if no node accepts it. Returns the pause before the next one. */
  async #renew(signal: StopSignal): Promise<number> {
    const wait = Math.min(parkTime(this.#held, Math.random()), this.#parkAtMost);
    this.#parkAtMost = Number.POSITIVE_INFINITY;
    const left = Math.max(this.#deadline - now(), 0);
    const options = this.#options(signal);
    const path = `${sessionPath(this.#name)}/keepalive`;
    const call = (query: Query) =>
      ({ method: "POST", target: target(path, { ...query, incarnation: this.#incarnation }), copies: "harmless" }) as const;
    const parked = await park(this.#nodes, call({ ...waitQuery(Math.max(wait, 1)), since: this.#since }), wait, left, options);
    if (this.#deliver(parked)) {
      this.#failures = 0;
      return PAUSE;
    }
    this.#failures += 1;
    if (!this.#isUsed) return PAUSE;
    const plain = await keepAlive(this.#nodes, call({}), Math.max(this.#deadline - now(), 0), options);
    if (!this.#deliver(plain)) {
      this.#report({ kind: "failed", reason: "error" in plain.result ? plain.result.error.message : "" });
      return RETRY_PAUSE;
    }
    if (this.#failures === 1) return PAUSE;
    const retry = Math.min(RETRY_PAUSE * 2 ** Math.min(this.#failures - 2, 6), PARK_RETRY_MAX);
    return Math.min(retry, renewalPause(this.#held, Math.random()));
  }

  /** Reports an answer, or the end of the session. Returns whether the cluster answered. */
  #deliver({ result }: Delivery): boolean {
    // The connection may serve another call from now on.
    this.#socket = undefined;
    if ("error" in result) {
      if (!(result.error instanceof LostError)) return false;
      this.#report({ kind: "session-ended" });
      this.stop();
      return true;
    }
    const report = { kind: "renewed", sent: result.sent, answered: now(), body: sessionBody<KeepaliveBody>(result.answer) } as const;
    const { since = this.#since, held, deadline } = renewed(report);
    this.#since = since;
    this.#held = held;
    this.#deadline = Math.max(this.#deadline, deadline);
    this.#report(report);
    return true;
  }

  #options(signal: StopSignal): SendOptions {
    const onSocket = (socket: Socket): void => {
      this.#socket = socket;
      if (this.#isUsed) socket.ref();
      else socket.unref();
    };
    return { signal, onSocket };
  }
}

/** What a renewal changes of its session. */
export function renewed({ sent, body }: Extract<RenewalReport, { kind: "renewed" }>): { since?: number; held: number; deadline: number } {
  const held = (body.waited_ms ?? 0) + (body.expires_in_ms ?? 0);
  const isCurrent = body.events !== undefined && body.revision !== undefined;
  return { ...(isCurrent ? { since: body.revision } : {}), held, deadline: sent + held };
}

/** Renews the sessions of one client. */
export interface Renewals {
  /** Resolves when sessions can be renewed. */
  ready(): Promise<void>;
  /** Adds a session. Its renewals and reports begin with `use`. */
  add(session: RenewedSession, report: (report: RenewalReport) => void): SessionRenewals;
  /** Delivers the reports that have arrived on another thread. */
  drain(): void;
  close(): void;
}

export type SessionRenewals = Pick<SessionRenewer, "use" | "unuse" | "reportWithin" | "stop">;

/** Renews on this thread, with the connections of the client. */
export class LocalRenewals implements Renewals {
  constructor(readonly nodes: Nodes) {}

  async ready(): Promise<void> {}

  add(session: RenewedSession, report: (report: RenewalReport) => void): SessionRenewals {
    return new SessionRenewer(this.nodes, session, report);
  }

  drain(): void {}

  close(): void {}
}
