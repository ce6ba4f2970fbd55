/**
 * A session of this client: its lease, its queue entries and the count of its users.
 *
 * Guards and acquires in progress are users. The session is renewed while it has users. Bounds: one timer; one record
 * for each listed hold without a guard.
 */
import { setMaxListeners } from "node:events";
import { LinkedAbort, type StopSignal } from "./abort.js";
import { sessionBody, type HoldBody, type SessionBody } from "./bodies.js";
import type { Call, Delivery, Route } from "./call.js";
import { answerOf, type Calls } from "./calls.js";
import { monotonic, now } from "./clock.js";
import { timerDelay } from "./duration.js";
import { isUncertain, isUnclear, LostError, newestAttempt, retryAt } from "./errors.js";
import { Lease, type Acknowledged } from "./lease.js";
import { releaseCall } from "./lock-options.js";
import type { Loss } from "./loss.js";
import { debug, type Metrics } from "./metrics.js";
import { NumberedCalls } from "./numbered-calls.js";
import { numberAfter } from "./numbers.js";
import type { QueueEntry } from "./queue-entry.js";
import { Reconciliation } from "./reconciliation.js";
import type { Renewals, RenewalReport, SessionRenewals } from "./renewer.js";
import { sleep } from "./sleep.js";
import { labelQuery, sessionPath, target } from "./target.js";

/** The pause between two releases in a session that is lost here. Each answer of another server doubles it. */
const RELEASE_PAUSE = 200;
const RELEASE_DOUBLINGS_MAX = 6;
/** The timers of Node stand still while the machine is suspended, so deadlines are checked at least this often. */
const CHECK_EVERY = 1_000;

export interface SessionSettings {
  readonly name: string;
  /** Whether the client generated the name: no other client uses the session, and it ends with the client. */
  readonly isOwn: boolean;
  readonly ttl: string | undefined;
  readonly labels: Readonly<Record<string, string>>;
}

export class Session {
  readonly lease: Lease;
  readonly entries = new Set<QueueEntry>();
  readonly numberedCalls = new NumberedCalls();
  readonly #renewals: Renewals;
  readonly #renewal: SessionRenewals;
  readonly #reconciliation: Reconciliation;
  readonly #ending = new AbortController();
  #isOver = false;
  #users = 0;
  #isClosing = false;
  /** Whether the client has stopped to use a named session. */
  #isLeft = false;
  #timer: NodeJS.Timeout | undefined;
  /** Ends the pauses of releases. */
  #pauses = new LinkedAbort();
  /** Waits and releases in progress. */
  readonly #pending = new Set<Promise<unknown>>();

  private constructor(
    readonly calls: Calls,
    readonly settings: SessionSettings,
    readonly incarnation: number,
    renewals: Renewals,
    readonly metrics: Metrics,
    { acknowledged, revision }: { acknowledged: Acknowledged; revision: number | undefined },
  ) {
    this.lease = new Lease(acknowledged);
    // Every wait listens.
    setMaxListeners(0, this.#ending.signal);
    this.#renewals = renewals;
    this.#reconciliation = new Reconciliation(this);
    const { held } = acknowledged;
    const known = { name: this.name, incarnation, since: revision, held, deadline: this.lease.deadline };
    this.#renewal = renewals.add(known, (report) => this.#receive(report));
  }

  static async open(calls: Calls, settings: SessionSettings, renewals: Renewals, metrics: Metrics): Promise<Session> {
    const open = async (attempt: bigint): Promise<{ body: SessionBody; sent: number }> => {
      const query = { attempt, ttl: settings.ttl, ...labelQuery(settings.labels) };
      const call = { method: "PUT", target: target(sessionPath(settings.name), query), copies: "harmless" } as const;
      const { answer, sent } = answerOf(await calls.deliver(call));
      return { body: sessionBody(answer), sent };
    };
    const opened = await open(numberAfter(0n)).catch((error: unknown) => {
      // An earlier session of this name had a larger number.
      const newest = newestAttempt(error);
      if (newest === undefined) throw error;
      return open(numberAfter(newest));
    });
    const acknowledged = { countedFrom: opened.sent, held: opened.body.expires_in_ms ?? 0 };
    debug("session %s is open for %d ms", settings.name, acknowledged.held);
    return new Session(calls, settings, opened.body.incarnation, renewals, metrics, { acknowledged, revision: opened.body.revision });
  }

  get name(): string {
    return this.settings.name;
  }

  /** Aborted when every wait on the session must end: the session is over, or the client closes. */
  get ending(): AbortSignal {
    return this.#ending.signal;
  }

  /** Sends a call that waits. Rejects with the reason if the caller cancels it, the session ends or the client closes. */
  async wait<T>(send: (stop: StopSignal) => Promise<T>, signal?: AbortSignal): Promise<T> {
    const stop = new LinkedAbort(this.ending, signal);
    try {
      return await send(stop);
    } catch (error) {
      if (signal?.aborted) throw signal.reason;
      if (this.ending.aborted) throw this.ending.reason;
      throw error;
    } finally {
      stop.unlink();
    }
  }

  /** `leave` waits for the end of this work. A wait that fails tracks the release of what it may have left. */
  track<T>(work: Promise<T>): Promise<T> {
    const tracked = work.finally(() => this.#pending.delete(tracked));
    this.#pending.add(tracked);
    return tracked;
  }

  /** Returns the loss if the session is over. Sees renewals that another thread has reported. */
  loss(): Loss | undefined {
    this.#renewals.drain();
    return this.lease.loss(now());
  }

  /** Whether a release may still end a hold: another program may renew a named session that is lost here. */
  get mayRelease(): boolean {
    const loss = this.loss();
    return loss === undefined || (loss.cause === "not-renewed" && !this.settings.isOwn && !this.#isLeft);
  }

  /** Delivers an acquire or a change. Ends the session if the cluster has ended it. */
  async deliverAt(call: Call, route: Route, stop?: StopSignal): Promise<Delivery> {
    const delivery = await this.calls.deliverAt(call, route, stop);
    if ("error" in delivery.result && delivery.result.error instanceof LostError) this.end({ cause: delivery.result.error.lossCause });
    return delivery;
  }

  /** Continues the other guards of a granted hold under its token. */
  followUpgrade(grant: HoldBody, moment: number): void {
    for (const entry of this.entries) entry.followUpgrade(grant, moment);
  }

  /** Sees the reports of another thread without the event loop. */
  drain(): void {
    this.#renewals.drain();
  }

  /** Renews the session until the returned function is called. */
  use(): () => void {
    this.#users += 1;
    if (this.loss() === undefined) this.#renewal.use(this.lease.deadline);
    if (this.#users === 1) this.#arm();
    let isUsed = true;
    return () => {
      if (!isUsed) return;
      isUsed = false;
      this.#users -= 1;
      if (this.#users > 0) return;
      this.#renewal.unuse();
      clearTimeout(this.#timer);
    };
  }

  /** Extends the lease. A timer that is armed for its former deadline is early, and arms the next one. */
  acknowledge(acknowledged: Acknowledged): Loss | undefined {
    this.#renewals.drain();
    return this.lease.acknowledge(acknowledged, now());
  }

  /** Compares every deadline with the clock. Waits for the next one. */
  check(): void {
    this.#renewals.drain();
    this.#check();
  }

  #check(): void {
    const moment = now();
    const loss = this.lease.loss(moment);
    if (loss !== undefined && !this.#isOver) this.#end();
    for (const entry of [...this.entries]) entry.check(this.lease, moment);
    this.#arm();
  }

  /** Ends the session for this client; the first loss stays. */
  end(loss: Loss): void {
    this.lease.end(loss, now());
    this.#check();
  }

  /** The next report arrives within this time. */
  reportWithin(millis: number): void {
    this.#renewal.reportWithin(millis);
  }

  /** Whether the client closes, or has closed. */
  get isClosing(): boolean {
    return this.#isClosing;
  }

  /**
   * Releases the locks of one attempt. After an uncertain outcome the release continues in the background. Calls `confirmed`
   * when the cluster has confirmed it.
   */
  async release(entries: readonly QueueEntry[], confirmed: () => void): Promise<void> {
    const call = this.#releaseCall(entries);
    if (call === undefined) return;
    try {
      await this.track(this.calls.confirm(call));
      this.#remove(entries);
      confirmed();
    } catch (error) {
      if (isUnclear(error)) this.releaseInBackground(entries, confirmed);
      else this.#remove(entries);
      throw error;
    }
  }

  /** Releases the locks of one attempt, until the outcome is certain. */
  releaseInBackground(entries: readonly QueueEntry[], confirmed?: () => void): void {
    void this.track(this.#releaseUntilCertain(entries, confirmed));
  }

  /**
   * Sends a release until its outcome is certain, the session is over in the cluster or the client is closed. Returns whether
   * the cluster has confirmed it.
   */
  async sendUntilCertain(call: Call): Promise<boolean> {
    for (let wrongAnswers = 0; this.mayRelease; ) {
      const pauses = this.#pauses;
      const error = await this.calls.confirm(call).then(() => undefined, (error: unknown) => error);
      if (!isUnclear(error)) return error === undefined;
      // A session that is lost here may live for long: the release does not keep the process alive.
      const isLost = this.loss() !== undefined;
      if (!isUncertain(error)) wrongAnswers = Math.min(wrongAnswers + 1, RELEASE_DOUBLINGS_MAX);
      const pause = Math.max(retryAt(error) - monotonic(), isLost || wrongAnswers > 0 ? RELEASE_PAUSE * 2 ** wrongAnswers : 0);
      await sleep(pause, pauses, !isLost && !this.#isClosing);
      if (pauses.aborted) wrongAnswers = 0;
    }
    return false;
  }

  /** Aborted, and replaced, when the calls that pause are repeated at once. */
  get pauses(): StopSignal {
    return this.#pauses;
  }

  /** Repeats the releases that pause, at once, because the session has ended or the client closes. */
  #endPauses(): void {
    const ended = this.#pauses;
    this.#pauses = new LinkedAbort();
    ended.abort();
  }

  /** Ends the session for this client, and closes it, which releases everything that it holds. */
  async closeOwn(): Promise<void> {
    this.#isClosing = true;
    this.end({ cause: "session-ended" });
    await this.#close().catch((error: unknown) => {
      if (!(error instanceof LostError)) throw error;
    });
  }

  /** Stops the use of a session that others may use. Its waits leave nothing in the cluster. Its holds stay there. */
  async leave(): Promise<void> {
    this.#isClosing = true;
    this.#ending.abort(new LostError({ cause: "session-ended" }));
    this.#endPauses();
    // If no node answers, the entries end with the session.
    const until = monotonic() + this.calls.requestTimeout;
    while (this.#pending.size > 0 && monotonic() < until) {
      const stop = new AbortController();
      await Promise.race([Promise.allSettled(this.#pending), sleep(until - monotonic(), stop.signal)]);
      stop.abort();
    }
    this.#isLeft = true;
    this.end({ cause: "session-ended" });
  }

  /** A late copy of the call closes no later session of the name. */
  async #close(): Promise<void> {
    const query = { incarnation: this.incarnation };
    await this.calls.confirm({ method: "DELETE", target: target(sessionPath(this.name), query), copies: "harmless" });
  }

  #receive(report: RenewalReport): void {
    switch (report.kind) {
      case "failed":
        debug("session %s: renewal failed: %s", this.name, report.reason);
        this.metrics.renewed?.(this.name, false);
        this.lease.renewalFailed(report.reason);
        return;
      case "session-ended":
        return this.end({ cause: "session-ended" });
      case "renewed": {
        const { sent, answered, body } = report;
        const held = (body.waited_ms ?? 0) + (body.expires_in_ms ?? 0);
        // On a worker, the answer may have arrived while the event loop of this thread was blocked.
        const loss = this.lease.acknowledge({ countedFrom: sent, held }, answered);
        this.metrics.renewed?.(this.name, true);
        if (loss === undefined) this.#reconciliation.deliver(body, { sent, answered, held });
        // Later reports may wait on the port, so the timer compares the deadlines after it has read them.
        this.#arm();
      }
    }
  }

  #end(): void {
    debug("session %s is over", this.name);
    this.#isOver = true;
    this.#ending.abort(new LostError(this.lease.loss(now()) ?? { cause: "session-ended" }));
    this.#endPauses();
    this.#renewal.stop();
    clearTimeout(this.#timer);
    // The cluster may keep the session, because a node renews it for a waiting call.
    if (this.settings.isOwn && !this.#isClosing) this.#close().catch(() => {});
  }

  #arm(): void {
    clearTimeout(this.#timer);
    if (this.#users === 0 || this.#isOver) return;
    const limits = [...this.entries].map((entry) => (entry.stage === "leaving" ? Number.POSITIVE_INFINITY : entry.limits.deadline));
    const next = Math.min(this.lease.deadline, ...limits);
    this.#timer = setTimeout(() => this.check(), timerDelay(Math.min(next - now(), CHECK_EVERY)));
  }

  async #releaseUntilCertain(entries: readonly QueueEntry[], confirmed?: () => void): Promise<void> {
    const unuse = this.use();
    try {
      const call = this.#releaseCall(entries);
      if (call !== undefined && (await this.sendUntilCertain(call))) confirmed?.();
      this.#remove(entries);
    } finally {
      unuse();
    }
  }

  #releaseCall(entries: readonly QueueEntry[]) {
    for (const entry of entries) entry.stage = "leaving";
    const [first] = entries;
    return first && releaseCall(entries.map((entry) => entry.lock), this.name, first.owner, first.attempt, first.token);
  }

  #remove(entries: readonly QueueEntry[]): void {
    for (const entry of entries) this.entries.delete(entry);
  }
}
