/** The time limits of each call, and the calls that repeat themselves. */
import type { StopSignal } from "./abort.js";
import { checkEnd, json as parse, type Fields, type HttpAnswer } from "./answer.js";
import type { Budget, Call, Delivery, Route } from "./call.js";
import { monotonic } from "./clock.js";
import { isUncertain, newestRequest, OutcomeUnknownError, retryAt, UnavailableError, UnexpectedResponseError } from "./errors.js";
import type { Nodes, SendOptions } from "./nodes.js";
import { sleep } from "./sleep.js";

/** The minimum time that one node gets for a call. */
const PER_NODE_MIN = 100;
/** The maximum time that one node gets for a call that does not wait. */
const PER_NODE = 6_000;
/** The maximum time that one node holds a waiting call. A node that loses power does not close the connection. */
const PER_NODE_WAITING = 45_000;
/** The longest wait of one call of the HTTP API. */
export const WAIT_MAX = 300_000;
/** The pause between two reads of an observer that another server answers. */
const PAGE_PAUSE = 200;
/** The time in which the client looks for a node that accepts a parked keepalive. */
const PARK_WITHIN = 50;

export class Calls {
  constructor(
    readonly nodes: Nodes,
    readonly requestTimeout: number,
  ) {}

  /** As this, with another limit for the search of a node that answers. */
  withTimeout(requestTimeout: number): Calls {
    return new Calls(this.nodes, requestTimeout);
  }

  /** Sends a call within the request timeout, plus the wait of the call. */
  async deliver(call: Call, signal?: StopSignal): Promise<Delivery> {
    const isCopied = call.copies === "harmless" && (call.wait ?? 0) === 0;
    return await this.deliverAt(call, isCopied ? "copied" : "alone", signal);
  }

  async deliverAt(call: Call, route: Route, signal?: StopSignal): Promise<Delivery> {
    const delivery = await this.nodes.send(call, this.#budget(call.wait ?? 0), route, { signal });
    return settled(delivery, delivery.inDoubt);
  }

  /** Sends a call, and returns its answer. Rejects with a `HoldfastError`. */
  async answer(call: Call, signal?: StopSignal): Promise<HttpAnswer> {
    return answerOf(await this.deliver(call, signal)).answer;
  }

  /** Sends a call that ends something. */
  async confirm(call: Call): Promise<void> {
    checkEnd(await this.answer(call));
  }

  /** Sends a call, and parses its answer as JSON with these fields. */
  async json<T extends object>(call: Call, fields: Fields<T>, signal?: StopSignal): Promise<T> {
    return parse<T>(await this.answer(call, signal), fields);
  }

  /** Repeats a waiting call until a node answers it, `until` passes or `isNeeded` returns false. */
  async repeatUntil(until: number, isNeeded: () => boolean, call: (wait: number) => Call, signal?: StopSignal): Promise<HttpAnswer> {
    let wasInDoubt = false;
    for (;;) {
      const wait = Math.trunc(Math.min(Math.max(until - monotonic(), 0), WAIT_MAX));
      const delivery = await this.deliver({ ...call(wait), wait }, signal);
      wasInDoubt ||= delivery.inDoubt;
      const { result } = settled(delivery, wasInDoubt);
      if ("answer" in result) return result.answer;
      const { error } = result;
      if (!isUncertain(error) || Math.max(monotonic(), error.retryAt) >= until || !isNeeded()) throw error;
      await untilRetry(error, signal);
    }
  }

  /**
   * Repeats a read of an observer, within the request timeout, while another server answers it. After a node has answered the
   * observer, that server may be a proxy in front of a node that restarts.
   */
  async repeatPages<T>(read: () => Promise<T>, stop: StopSignal): Promise<T> {
    for (let until: number | undefined; ; ) {
      try {
        return await read();
      } catch (error) {
        if (!(error instanceof UnexpectedResponseError)) throw error;
        until ??= monotonic() + this.requestTimeout;
        if (monotonic() + PAGE_PAUSE >= until) throw new UnavailableError(error.message);
        await sleep(PAGE_PAUSE, stop);
      }
    }
  }

  #budget(wait: number): Budget {
    const now = monotonic();
    if (wait === 0) {
      const startUntil = now + Math.max(this.requestTimeout - PER_NODE_MIN, 0);
      return { perNode: PER_NODE, startUntil, until: startUntil + PER_NODE_MIN };
    }
    const perNode = Math.min(wait + Math.min(PER_NODE, this.requestTimeout), PER_NODE_WAITING);
    const startUntil = now + this.requestTimeout;
    return { perNode, startUntil, until: startUntil + perNode };
  }
}

/** Renews a session within `left`. One node may take a quarter of it, so that time is left for other nodes. */
export async function keepAlive(nodes: Nodes, call: Call, left: number, options: SendOptions): Promise<Delivery> {
  const until = monotonic() + Math.max(left, PER_NODE_MIN);
  const perNode = Math.min(Math.max(left / 4, PER_NODE_MIN), PER_NODE);
  return await nodes.send(call, { perNode, startUntil: until - PER_NODE_MIN, until }, "copied", options);
}

/** Renews a session with a call that one node holds for `wait`. A node may answer late by a sixth of `left`. */
export async function park(nodes: Nodes, call: Call, wait: number, left: number, options: SendOptions): Promise<Delivery> {
  const perNode = wait + Math.min(Math.max(left / 6, PER_NODE_MIN), PER_NODE);
  const startUntil = monotonic() + PARK_WITHIN;
  return await nodes.send(call, { perNode, startUntil, until: startUntil + perNode }, "parked", options);
}

/** Returns the answer of a delivery, or throws its error. */
export function answerOf({ result }: Delivery): { readonly answer: HttpAnswer; readonly sent: number } {
  if ("error" in result) throw result.error;
  return result;
}

/** Waits until the call that failed may be sent again, or until `stop` is aborted. */
export async function untilRetry(error: unknown, stop?: StopSignal): Promise<void> {
  const pause = retryAt(error) - monotonic();
  if (pause > 0) await sleep(pause, stop);
}

/** If the call is in doubt, an earlier copy may have been executed although this one was rejected as over. */
function settled(delivery: Delivery, inDoubt: boolean): Delivery {
  if (!inDoubt || !("error" in delivery.result) || newestRequest(delivery.result.error) === undefined) return delivery;
  const error = new OutcomeUnknownError("the session no longer remembers the first answer, so read the state");
  return { ...delivery, result: { error } };
}
