/**
 * Sends a call to the nodes until one answers or the call's time is over.
 *
 * A call with harmless copies goes to the next node after a third of a second without an answer; the first answer counts.
 * Any other call is at one node at a time. Bounds: one request in flight at each node for each call, and one ping at
 * each node.
 */
import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { LinkedAbort, type StopSignal } from "./abort.js";
import { classify, isUnauthenticated, namesNode, numberHeader, type HttpAnswer, type Outcome } from "./answer.js";
import type { Budget, Call, Delivery, Route } from "./call.js";
import { monotonic } from "./clock.js";
import type { Connection } from "./connection.js";
import { headOf, HttpClient, SendError } from "./http.js";
import { COPY_AFTER, NodeStates } from "./node-states.js";
import { Rounds } from "./rounds.js";
import { sleep } from "./sleep.js";

/** A node that holds a call is pinged after this time, then after twice the time, up to `PING_MAX`. */
const PING_FIRST = 400;
const PING_MAX = 15_000;
/** The maximum time of the answer to a ping. */
const PING_TIMEOUT = 600;
/** The cheapest call: a node answers it without the cluster and without a credential. */
const PING = "/livez";

export interface SendOptions {
  readonly signal?: StopSignal | undefined;
  readonly onSocket?: ((socket: Socket) => void) | undefined;
}

export class Nodes {
  readonly states: NodeStates;
  readonly http: HttpClient;
  readonly #bases: readonly string[];
  /** Whether a node has accepted a call, and with it the access token. */
  #accepted = false;
  /** The ping in flight at each node. */
  readonly #pings = new Map<number, Promise<boolean>>();

  constructor(connection: Connection) {
    this.http = new HttpClient(connection);
    this.#bases = connection.bases;
    this.states = new NodeStates(connection.bases.length, Math.random());
  }

  /** Sends a call to the nodes until one answers. Rejects only if `signal` is aborted, with its reason. */
  async send(call: Call, budget: Budget, route: Route, options: SendOptions = {}): Promise<Delivery> {
    return await new Rounds(this, call, budget, route, options).run();
  }

  base(node: number): string {
    return this.#bases[node] ?? "";
  }

  /** Whether a node rejected a token that was accepted before, and whose file may have another one now. */
  mayGetToken(error: unknown): boolean {
    if (!isUnauthenticated(error) || !this.#accepted || !this.http.accessToken.mayChange) return false;
    this.http.accessToken.readAgain();
    return true;
  }

  /** Sends a call to one node. */
  async attempt(call: Call, node: number, timeout: number, options: SendOptions): Promise<Outcome> {
    const { method, target, headers, body } = call;
    try {
      const answer = await this.http.send({ method, url: this.base(node) + target, headers, body, timeout, ...options });
      return this.#received(node, answer);
    } catch (error) {
      if (!options.signal?.aborted) this.states.rest(node, monotonic());
      return notSent(this.base(node), error);
    }
  }

  /** As `attempt`, for a call that the node may hold for long. */
  async attemptWhileAlive(call: Call, node: number, timeout: number, options: SendOptions): Promise<Outcome> {
    this.states.addWaiting(node, 1);
    try {
      return await this.#whileAlive(node, options.signal, (stop) => this.attempt(call, node, timeout, { ...options, signal: stop }));
    } finally {
      this.states.addWaiting(node, -1);
    }
  }

  /** Sends a request. Gives up when the node answers no ping. */
  async #whileAlive<T>(node: number, signal: StopSignal | undefined, send: (stop: StopSignal) => Promise<T>): Promise<T | Outcome> {
    const stop = new LinkedAbort(signal);
    try {
      const silence = this.silence(node, stop).then((): Outcome => {
        return { kind: "may-be-done", reason: `${this.base(node)}: the node stopped answering` };
      });
      return await Promise.race([send(stop), silence]);
    } finally {
      stop.unlink();
      stop.abort();
    }
  }

  /** Resolves when a node does not answer a ping; never, if there is no other node or `stop` is aborted. */
  async silence(node: number, stop: StopSignal): Promise<void> {
    let interval = PING_FIRST;
    while (this.states.count > 1) {
      await sleep(interval, stop);
      if (stop.aborted) break;
      if (!this.states.answeredWithin(node, interval, monotonic()) && !(await this.#isAlive(node))) {
        if (stop.aborted) break;
        this.states.rest(node, monotonic());
        return;
      }
      interval = Math.min(interval * 2, PING_MAX);
    }
    await new Promise<never>(() => {});
  }

  /** Opens a stream at one node. Gives up when the node answers no ping. */
  async openAt(node: number, target: string, headers: Record<string, string>, timeout: number, signal: StopSignal): Promise<IncomingMessage | Outcome> {
    return await this.#whileAlive(node, signal, (stop) => this.#openAt(node, target, headers, timeout, stop));
  }

  async #openAt(node: number, target: string, headers: Record<string, string>, timeout: number, signal: StopSignal): Promise<IncomingMessage | Outcome> {
    try {
      const url = this.base(node) + target;
      const opened = await this.http.open({ method: "GET", url, headers, timeout, signal });
      if ("status" in opened) return this.#received(node, opened);
      // The answer is judged without its body, which is the stream.
      const outcome = this.#received(node, headOf(opened));
      if (outcome.kind !== "foreign") return opened;
      opened.destroy();
      return outcome;
    } catch (error) {
      if (!signal.aborted) this.states.rest(node, monotonic());
      return notSent(this.base(node), error);
    }
  }

  close(): void {
    this.http.close();
  }

  /** Whether a node answers a ping. Calls that ask at the same time share one ping. */
  async #isAlive(node: number): Promise<boolean> {
    const ping = this.#pings.get(node) ?? this.#ping(node).finally(() => this.#pings.delete(node));
    this.#pings.set(node, ping);
    return await ping;
  }

  async #ping(node: number): Promise<boolean> {
    try {
      await this.http.send({ method: "GET", url: this.base(node) + PING, timeout: PING_TIMEOUT });
      this.states.answered(node, monotonic());
      return true;
    } catch {
      return false;
    }
  }

  #learn(node: number, answer: HttpAnswer): void {
    const id = numberHeader(answer, "holdfast-node");
    this.states.answered(node, monotonic(), id, numberHeader(answer, "holdfast-leader"));
    if (answer.status < 300 && namesNode(answer)) this.#accepted = true;
  }

  #received(node: number, answer: HttpAnswer): Outcome {
    const outcome = classify(this.base(node), answer);
    if (outcome.kind === "foreign") this.states.rest(node, monotonic());
    else this.#learn(node, answer);
    if (outcome.kind !== "rejected" || !this.mayGetToken(outcome.error)) return outcome;
    return { kind: "old-token", error: outcome.error };
  }
}

/** Whether a node that answers late should rest, because another node answered a copy of the call. */
export function isLate(sentFor: number): boolean {
  return sentFor >= COPY_AFTER;
}

function notSent(base: string, error: unknown): Outcome {
  const reason = `${base}: ${error instanceof Error ? error.message : String(error)}`;
  return { kind: error instanceof SendError && !error.mayBeDone ? "not-done" : "may-be-done", reason };
}
