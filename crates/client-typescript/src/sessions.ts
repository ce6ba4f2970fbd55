/**
 * The sessions of one client: one for each time-to-live that its locks name, opened on first use.
 *
 * The client replaces a generated session that has ended. It never replaces a session that the caller named, because the
 * caller must see its end. Bounds: `SESSIONS_MAX` times-to-live.
 */
import { setMaxListeners } from "node:events";
import { LinkedAbort, unlessAborted, type StopSignal } from "./abort.js";
import type { Calls } from "./calls.js";
import { apiDuration } from "./duration.js";
import { InvalidArgumentError, LostError, OutcomeUnknownError, UnavailableError } from "./errors.js";
import { guarded, type Metrics } from "./metrics.js";
import { randomName } from "./numbers.js";
import type { Renewals } from "./renewer.js";
import { Session } from "./session.js";

const SESSIONS_MAX = 64;

export interface SessionNaming {
  /** The complete name of a session that outlives the client. */
  readonly session: string | undefined;
  /** The beginning of generated names. */
  readonly prefix: string;
  readonly ttl: number | undefined;
  readonly labels: Readonly<Record<string, string>>;
}

export class Sessions {
  /** By time-to-live. */
  readonly #open = new Map<number | undefined, Promise<Session>>();
  readonly #closing = new AbortController();
  readonly metrics: Metrics;

  constructor(
    readonly calls: Calls,
    readonly naming: SessionNaming,
    readonly renewals: Renewals,
    metrics: Metrics,
  ) {
    this.metrics = guarded(metrics);
    // Every wait without a session listens.
    setMaxListeners(0, this.#closing.signal);
  }

  /** Aborted with the `LostError` of waiting calls when the client closes. */
  get closing(): AbortSignal {
    return this.#closing.signal;
  }

  get #isOwn(): boolean {
    return this.naming.session === undefined;
  }

  /** Whether the client may replace a session that has ended. */
  get mayReplace(): boolean {
    return this.#isOwn && !this.closing.aborted;
  }

  /** Sends a call that waits without a session. Rejects with the reason if the caller cancels it or the client closes. */
  async wait<T>(send: (stop: StopSignal) => Promise<T>, signal?: StopSignal): Promise<T> {
    const stop = new LinkedAbort(this.closing, signal);
    try {
      return await send(stop);
    } finally {
      stop.unlink();
    }
  }

  /**
   * Returns the live session for this time-to-live; opens it if necessary. Concurrent callers share it, so a caller that
   * cancels its call leaves the session to later calls.
   */
  async live(ttl: number | undefined, signal?: StopSignal): Promise<Session> {
    return await unlessAborted(this.#live(ttl), signal);
  }

  async #live(ttl: number | undefined): Promise<Session> {
    if (this.closing.aborted) throw new InvalidArgumentError("the client is closed");
    const wanted = this.#checkedTtl(ttl);
    const present = this.#open.get(wanted);
    if (present !== undefined) {
      const session = await present;
      if (session.loss() === undefined) return session;
      if (this.#open.get(wanted) !== present) return await this.#live(ttl);
      session.check();
      const loss = session.loss();
      // An open call would begin another session under the name that the caller chose.
      if (!this.#isOwn && loss !== undefined) throw new LostError(loss);
    }
    const opening = this.#openSession(wanted);
    this.#open.set(wanted, opening);
    opening.catch(() => {
      if (this.#open.get(wanted) === opening) this.#open.delete(wanted);
    });
    return await opening;
  }

  /** Closes generated sessions. For a named session, waits until the locks of released guards are released. */
  async close(): Promise<void> {
    this.#closing.abort(new LostError({ cause: "session-ended" }));
    const opening = [...this.#open.values()];
    this.#open.clear();
    const sessions = (await Promise.allSettled(opening)).flatMap((result) => (result.status === "fulfilled" ? [result.value] : []));
    const closed = await Promise.allSettled(sessions.map((session) => this.#closeOne(session)));
    for (const result of closed) if (result.status === "rejected") throw result.reason;
  }

  async #closeOne(session: Session): Promise<void> {
    if (!this.#isOwn) await session.leave();
    else if (session.loss() === undefined) await session.closeOwn();
  }

  async #openSession(ttl: number | undefined): Promise<Session> {
    if (this.#open.size >= SESSIONS_MAX && !this.#open.has(ttl)) {
      throw new InvalidArgumentError(`the locks of one client have at most ${SESSIONS_MAX} different times-to-live: use fewer`);
    }
    await this.renewals.ready();
    const name = this.naming.session ?? `${this.naming.prefix}-${randomName()}`;
    const settings = { name, isOwn: this.#isOwn, ttl: ttl === undefined ? undefined : apiDuration(ttl), labels: this.naming.labels };
    return await Session.open(this.calls, settings, this.renewals, this.metrics).catch((error: unknown) => {
      // A session without a lock has no effect and ends by itself, so the call of the caller was certainly not executed.
      throw error instanceof OutcomeUnknownError ? new UnavailableError(error.reason) : error;
    });
  }

  #checkedTtl(ttl: number | undefined): number | undefined {
    if (!this.#isOwn && ttl !== undefined && ttl !== this.naming.ttl) {
      throw new InvalidArgumentError("ttl: set the time-to-live of a named session on the client, not on a lock");
    }
    return ttl ?? this.naming.ttl;
  }
}
