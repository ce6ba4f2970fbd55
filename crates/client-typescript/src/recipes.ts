/** Latches and counters. Every change has a request number, so a late copy of a call has no effect. */
import { bigField, checkEnd, json, type HttpAnswer } from "./answer.js";
import { get } from "./call.js";
import { monotonic } from "./clock.js";
import { toMillisIfSet, type Duration } from "./duration.js";
import { BusyError, UnexpectedResponseError } from "./errors.js";
import { sendOnce } from "./once.js";
import type { Sessions } from "./sessions.js";
import { namedPath, target, waitQuery } from "./target.js";

export interface WaitOptions {
  /** The longest wait. By default without bound. */
  readonly wait?: Duration | undefined;
  /** Cancels the wait, which then rejects with the reason of the signal. */
  readonly signal?: AbortSignal | undefined;
}

/** Returns the end of a wait on the monotonic clock. */
export function waitUntil(wait: Duration | undefined): number {
  const millis = toMillisIfSet(wait, "wait");
  return millis === undefined ? Number.POSITIVE_INFINITY : monotonic() + millis;
}

/** A latch counts down once for each key, and opens at zero. */
export class Latch {
  readonly #sessions: Sessions;
  readonly #path: string;

  /** @internal */
  constructor(
    sessions: Sessions,
    readonly name: string,
  ) {
    this.#sessions = sessions;
    this.#path = namedPath("latches", name);
  }

  /** Creates the latch, unless one with the same count exists. */
  async create(count: number): Promise<void> {
    leftOf(await sendOnce(this.#sessions, { method: "PUT", target: target(this.#path, { count }) }));
  }

  /** Counts the key, unless it was counted before. Returns the count that is left. */
  async countDown(key: string): Promise<number> {
    return leftOf(await sendOnce(this.#sessions, { method: "POST", target: target(this.#path, { key }) }));
  }

  /** Waits until the latch is open. Fails with `BusyError` if it is not in time. */
  async wait(options: WaitOptions = {}): Promise<void> {
    const until = waitUntil(options.wait);
    const call = (wait: number) => get(target(this.#path, waitQuery(wait)));
    for (;;) {
      try {
        leftOf(await this.#sessions.wait((stop) => this.#sessions.calls.repeatUntil(until, () => true, call, stop), options.signal));
        return;
      } catch (error) {
        if (!(error instanceof BusyError) || monotonic() >= until) throw error;
      }
    }
  }

  /** Deletes the latch. Callers that wait for it get a `RejectedError`. */
  async delete(): Promise<void> {
    checkEnd(await sendOnce(this.#sessions, { method: "DELETE", target: this.#path }));
  }
}

function leftOf(answer: HttpAnswer): number {
  return json<{ left: number }>(answer, { left: "integer" }).left;
}

/** The value of a counter, and the version for a conditional change. */
export interface CounterState {
  readonly value: bigint;
  readonly version: number;
}

/** A signed number of 64 bits that many callers change. */
export class Counter {
  readonly #sessions: Sessions;
  readonly #path: string;

  /** @internal */
  constructor(
    sessions: Sessions,
    readonly name: string,
  ) {
    this.#sessions = sessions;
    this.#path = namedPath("counters", name);
  }

  /** Returns the value; a new counter is 0. */
  async get(): Promise<CounterState> {
    return stateOf(await this.#sessions.calls.answer(get(this.#path)));
  }

  /** Adds the amount exactly once. */
  async add(amount: bigint | number): Promise<CounterState> {
    return stateOf(await sendOnce(this.#sessions, { method: "POST", target: target(this.#path, { add: BigInt(amount) }) }));
  }

  /** Replaces the value; with `version` only if the counter has this version. */
  async set(value: bigint | number, options: { readonly version?: number | undefined } = {}): Promise<CounterState> {
    const headers: Record<string, string> = options.version === undefined ? {} : { "if-match": `"${options.version}"` };
    return stateOf(await sendOnce(this.#sessions, { method: "PUT", target: target(this.#path, { value: BigInt(value) }), headers }));
  }

  /** Deletes the counter, which is then 0 again. */
  async delete(): Promise<void> {
    checkEnd(await sendOnce(this.#sessions, { method: "DELETE", target: this.#path }));
  }
}

function stateOf(answer: HttpAnswer): CounterState {
  const value = bigField(answer.body.toString("utf8"), "value");
  if (value === undefined) throw new UnexpectedResponseError("a counter without a value");
  return { value, version: json<{ version: number }>(answer, { version: "integer" }).version };
}
