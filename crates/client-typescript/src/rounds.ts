/** The rounds of one call over the nodes, until one answers or the time is over. */
import { refuse, type HttpAnswer, type Outcome, type RetryAfter } from "./answer.js";
import { LinkedAbort } from "./abort.js";
import type { Budget, Call, Delivery, Route } from "./call.js";
import { monotonic, now } from "./clock.js";
import { OutcomeUnknownError, UnavailableError, UnexpectedResponseError, type HoldfastError } from "./errors.js";
import { isLate, type Nodes, type SendOptions } from "./nodes.js";
import { sleep } from "./sleep.js";

/** The first and the maximum pause between two rounds over all nodes. */
const PAUSE_MIN = 20;
const PAUSE_MAX = 500;

/** A request without an answer so far. */
interface InFlight {
  readonly node: number;
  /** The moment of sending on the clock of deadlines, and on the monotonic one. */
  readonly sent: number;
  readonly started: number;
  readonly outcome: Promise<{ readonly copy: InFlight; readonly outcome: Outcome }>;
}

export class Rounds {
  readonly #nodes: Nodes;
  readonly #call: Call;
  readonly #budget: Budget;
  readonly #route: Route;
  readonly #options: SendOptions;
  /** Ends the requests in flight when the call is over. */
  readonly #over: LinkedAbort;
  /** The nodes without a request in this round. */
  #untried: number[];
  #inFlight: InFlight[] = [];
  #isStarted = false;
  #startAt = monotonic();
  /** When each node may get the call again. */
  readonly #notBefore: number[];
  #pause = PAUSE_MIN;
  /** The last failure of each node. */
  readonly #failures = new Map<number, string>();
  /** The nodes whose last answer is from another server. */
  readonly #foreign = new Set<number>();
  /** Whether a request failed after the node may have received it. */
  #lostAnswer = false;
  #oldToken: HoldfastError | undefined;

  constructor(nodes: Nodes, call: Call, budget: Budget, route: Route, options: SendOptions) {
    this.#nodes = nodes;
    this.#call = call;
    this.#budget = budget;
    this.#route = route;
    this.#over = new LinkedAbort(options.signal);
    this.#options = options;
    this.#notBefore = Array.from({ length: nodes.states.count }, () => 0);
    const isIdleFirst = route === "elsewhere" || route === "parked";
    this.#untried = isIdleFirst ? nodes.states.orderOfIdle(monotonic()) : nodes.states.order(monotonic());
  }

  async run(): Promise<Delivery> {
    try {
      for (;;) {
        this.#options.signal?.throwIfAborted();
        if (this.#mayStart() && monotonic() >= this.#nextStart()) this.#start();
        const finished = await this.#next();
        if (finished === "start") continue;
        const result = finished === undefined ? { error: this.#error() } : this.#settle(finished.copy, finished.outcome);
        if (result !== undefined) return { result, inDoubt: this.#lostAnswer || this.#inFlight.length > 0 };
      }
    } finally {
      this.#over.unlink();
      this.#over.abort();
    }
  }

  /** Waits for the next outcome, or until the next request may start; undefined if there is neither. */
  async #next(): Promise<{ copy: InFlight; outcome: Outcome } | "start" | undefined> {
    const events: Promise<{ copy: InFlight; outcome: Outcome } | "start">[] = this.#inFlight.map(({ outcome }) => outcome);
    if (!this.#mayStart()) return events.length === 0 ? undefined : await Promise.race(events);
    const stop = new LinkedAbort(this.#over);
    events.push(sleep(this.#nextStart() - monotonic(), stop).then(() => "start" as const));
    try {
      return await Promise.race(events);
    } finally {
      stop.unlink();
      stop.abort();
    }
  }

  #settle(copy: InFlight, outcome: Outcome): Delivery["result"] | undefined {
    this.#options.signal?.throwIfAborted();
    this.#inFlight = this.#inFlight.filter((other) => other !== copy);
    switch (outcome.kind) {
      case "success":
        return this.#won(copy, outcome.answer);
      case "rejected":
        this.#won(copy);
        return { error: outcome.error };
      case "old-token":
        this.#oldToken = outcome.error;
        this.#failed(copy.node, outcome.error.message);
        return undefined;
      case "foreign":
        this.#lostAnswer = true;
        this.#failed(copy.node, outcome.reason);
        this.#foreign.add(copy.node);
        if (this.#foreign.size < this.#nodes.states.count && this.#call.copies !== "never") return undefined;
        return { error: new UnexpectedResponseError(this.#reason) };
      case "may-be-done":
      case "not-done":
        this.#lostAnswer ||= outcome.kind === "may-be-done";
        if (outcome.retryAfter) this.#refused(copy.node, outcome.retryAfter);
        this.#failed(copy.node, outcome.reason);
        return undefined;
    }
  }

  /** Records when the node may get the call again. Until then it comes last in each call. */
  #refused(node: number, retryAfter: RetryAfter): void {
    refuse(this.#notBefore, node, retryAfter, monotonic());
    this.#notBefore.forEach((until, other) => this.#nodes.states.restUntil(other, until));
  }

  /** When the first of these nodes may get the call again. */
  #retryAt(nodes: readonly number[]): number {
    return Math.min(...nodes.map((node) => this.#notBefore[node] ?? 0));
  }

  #nextStart(): number {
    return Math.max(this.#startAt, this.#retryAt(this.#untried));
  }

  #mayStart(): boolean {
    const hasTime = !this.#isStarted || Math.max(monotonic(), this.#retryAt(this.#untried)) < this.#budget.startUntil;
    const mayCopy = this.#inFlight.length === 0 || this.#route === "copied";
    const mayRepeat = !this.#lostAnswer || this.#call.copies !== "never";
    return hasTime && mayCopy && mayRepeat && this.#untried.length > 0;
  }

  /** Sends the request to the next node that may get it. */
  #start(): void {
    const moment = monotonic();
    const node = this.#untried.find((untried) => (this.#notBefore[untried] ?? 0) <= moment);
    if (node === undefined) return;
    this.#untried = this.#untried.filter((untried) => untried !== node);
    if (this.#inFlight.length > 0) this.#nodes.states.copied();
    const timeout = Math.max(Math.min(this.#budget.perNode, this.#budget.until - monotonic()), 1);
    const options = { ...this.#options, signal: this.#over };
    const isPinged = this.#route === "alone" || this.#route === "elsewhere";
    // The clock is read before the request is sent: every deadline in the answer counts from here or later.
    const [sent, started] = [now(), monotonic()];
    const attempt = isPinged
      ? this.#nodes.attemptWhileAlive(this.#call, node, timeout, options)
      : this.#nodes.attempt(this.#call, node, timeout, options);
    const copy: InFlight = { node, sent, started, outcome: attempt.then((outcome) => ({ copy, outcome })) };
    this.#inFlight.push(copy);
    this.#isStarted = true;
    this.#startAt = monotonic() + this.#nodes.states.copyAfter;
  }

  /** Schedules the next request after one that failed. */
  #failed(node: number, reason: string): void {
    // At the end of the time, an earlier answer explains more than a request that had no time left.
    const isLast = monotonic() >= this.#budget.startUntil;
    this.#foreign.delete(node);
    this.#failures.set(node, isLast ? (this.#failures.get(node) ?? reason) : reason);
    this.#startAt = monotonic();
    if (this.#retryAt(this.#untried) <= this.#startAt) return;
    const waits = (other: number): boolean => this.#inFlight.some((copy) => copy.node === other);
    this.#untried = this.#nodes.states.order(monotonic()).filter((other) => !waits(other));
    this.#startAt = Math.min(this.#startAt + this.#pause, this.#budget.startUntil);
    this.#pause = Math.min(this.#pause * 2, PAUSE_MAX);
  }

  /** Prefers the node that answered to those that have not. */
  #won(winner: InFlight, answer?: HttpAnswer): { answer: HttpAnswer; sent: number } | undefined {
    const states = this.#nodes.states;
    for (const late of this.#inFlight) if (isLate(monotonic() - late.started)) states.rest(late.node, monotonic());
    if (this.#inFlight.length === 0) states.answeredAlone();
    if (this.#route !== "parked") states.prefer(winner.node);
    return answer && { answer, sent: winner.sent };
  }

  get #reason(): string {
    return [...this.#failures.values()].join("; ") || "no node was tried";
  }

  /** The error of a call without an answer. */
  #error(): HoldfastError {
    const reason = this.#reason;
    const at = Math.min(...this.#notBefore);
    // A read changes nothing, so a lost answer leaves no doubt.
    if (this.#lostAnswer && this.#call.method !== "GET") return new OutcomeUnknownError(reason, at);
    return this.#oldToken ?? new UnavailableError(reason, at);
  }
}
