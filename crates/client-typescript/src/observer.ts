/**
 * The changes of an election as server-sent events.
 *
 * When a node ends the stream, the observer sends the id of the last event to the next node. No event is therefore
 * delivered twice, and missing events are reported as a gap. Bounds: one stream, and one event of `EVENT_MAX` characters.
 */
import type { IncomingMessage } from "node:http";
import { refuse } from "./answer.js";
import { LinkedAbort, type StopSignal } from "./abort.js";
import type { LeaderBody } from "./bodies.js";
import { monotonic } from "./clock.js";
import { UnavailableError, UnexpectedResponseError } from "./errors.js";
import type { Sessions } from "./sessions.js";
import { sleep } from "./sleep.js";
import { EventParser, type ServerEvent } from "./sse.js";

/** A stream without bytes for this long is dead, because nodes write a comment at least every fifteen seconds. */
const SILENCE_MAX = 45_000;
/** The maximum time until a node sends the head of the stream. */
const HEAD_TIMEOUT = 6_000;
const EVENT_MAX = 64 * 1_024;
const PAUSE_MIN = 20;
const PAUSE_MAX = 500;

export interface Leader {
  readonly session: string;
  readonly token: number;
  /** The text that the leader published. */
  readonly value: string | undefined;
}

export type ElectionChange =
  | { readonly kind: "leader"; readonly leader: Leader; readonly revision: number }
  | { readonly kind: "vacant"; readonly revision: number }
  /** Changes up to this revision are missing; the present leader follows. */
  | { readonly kind: "gap"; readonly revision: number };

interface ElectionStream {
  readonly node: number;
  readonly response: IncomingMessage;
  readonly chunks: AsyncIterator<Buffer>;
  readonly parser: EventParser;
}

/**
 * An iterator: the present leader first, then each change. After an `UnavailableError`, `next` continues. A `LostError` is
 * the end of the client.
 */
export class Observer implements AsyncIterableIterator<ElectionChange> {
  readonly #sessions: Sessions;
  readonly #path: string;
  readonly #over = new AbortController();
  readonly #changes: ElectionChange[] = [];
  #stream: ElectionStream | undefined;
  /** The node of the last stream, which comes last for the next one. */
  #node: number | undefined;
  #lastId: string | undefined;
  #pause = PAUSE_MIN;

  /** @internal */
  constructor(sessions: Sessions, path: string) {
    this.#sessions = sessions;
    this.#path = path;
  }

  async next(): Promise<IteratorResult<ElectionChange, undefined>> {
    try {
      await this.#sessions.wait((stop) => this.#fill(stop), this.#over.signal);
    } catch (error) {
      if (this.#over.signal.aborted) return { done: true, value: undefined };
      throw error;
    }
    this.#pause = PAUSE_MIN;
    const value = this.#changes.shift();
    return value === undefined ? { done: true, value } : { done: false, value };
  }

  async return(): Promise<IteratorResult<ElectionChange, undefined>> {
    this.#over.abort();
    this.#leave();
    return { done: true, value: undefined };
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  /** Reads until there is a change. */
  async #fill(stop: StopSignal): Promise<void> {
    while (this.#changes.length === 0) {
      stop.throwIfAborted();
      this.#stream ??= await this.#open(stop);
      await this.#read(this.#stream, stop);
    }
  }

  /** Opens the stream at the next node that accepts it within the request timeout. */
  async #open(stop: StopSignal): Promise<ElectionStream> {
    const { nodes, requestTimeout } = this.#sessions.calls;
    const until = monotonic() + requestTimeout;
    const headers = { accept: "text/event-stream", ...(this.#lastId === undefined ? {} : { "last-event-id": this.#lastId }) };
    const notBefore = Array.from({ length: nodes.states.count }, () => 0);
    for (;;) {
      let reason = "";
      /** The reasons of the addresses where another server answered. */
      const pages: string[] = [];
      const order = nodes.states.order(monotonic());
      const others = order.filter((node) => node !== this.#node);
      for (const node of [...others, ...order.filter((node) => node === this.#node)]) {
        if ((notBefore[node] ?? 0) > monotonic()) continue;
        const response = await nodes.openAt(node, this.#path, headers, HEAD_TIMEOUT, stop);
        stop.throwIfAborted();
        if (!("kind" in response)) {
          this.#node = node;
          return { node, response, chunks: response[Symbol.asyncIterator]() as AsyncIterator<Buffer>, parser: new EventParser() };
        }
        if (response.kind === "rejected") throw response.error;
        if (response.kind === "old-token") reason = response.error.message;
        if (response.kind === "success" || response.kind === "old-token") continue;
        reason = response.reason;
        if (response.kind === "foreign") pages.push(reason);
        if ("retryAfter" in response) refuse(notBefore, node, response.retryAfter, monotonic());
      }
      // After a node has opened a stream, a page may be that of a proxy in front of a node that restarts.
      if (this.#node === undefined && pages.length === order.length) throw new UnexpectedResponseError(pages.join("; "));
      const pause = Math.min(...notBefore) - monotonic();
      if (monotonic() + Math.max(pause, 0) >= until) throw new UnavailableError(reason);
      await this.#wait(stop, pause);
    }
  }

  /** Reads the next bytes of the stream. At its end, or if the node is silent, the next stream is at another node. */
  async #read({ node, chunks, parser }: ElectionStream, stop: StopSignal): Promise<void> {
    const over = new LinkedAbort(stop);
    const ended = { done: true, value: undefined } as const;
    const silent = this.#sessions.calls.nodes.silence(node, over).then(() => ended);
    // The sleep also ends when the observer or the client does.
    const late = sleep(SILENCE_MAX, over).then(() => ended);
    const chunk = await Promise.race([chunks.next().catch(() => ended), silent, late]);
    over.unlink();
    over.abort();
    if (chunk.done || parser.pending > EVENT_MAX) {
      this.#leave();
      await this.#wait(stop);
      return;
    }
    for (const event of parser.push(chunk.value)) this.#receive(event);
  }

  #receive(event: ServerEvent): void {
    this.#lastId = event.id ?? this.#lastId;
    if (event.name === "reconnect") return this.#leave();
    if (!["leader", "vacant", "gap"].includes(event.name)) return;
    const body = parse(event);
    if (event.name === "gap") this.#changes.push({ kind: "gap", revision: body.until ?? 0 });
    else if (body.leader) this.#changes.push({ kind: "leader", leader: toLeader(body.leader), revision: body.revision ?? 0 });
    else this.#changes.push({ kind: "vacant", revision: body.revision ?? 0 });
  }

  #leave(): void {
    this.#stream?.response.destroy();
    this.#stream = undefined;
  }

  async #wait(stop: StopSignal, atLeast = 0): Promise<void> {
    await sleep(Math.max(this.#pause, atLeast), stop);
    this.#pause = Math.min(this.#pause * 2, PAUSE_MAX);
  }
}

export function toLeader({ session, token, value }: LeaderBody): Leader {
  return { session, token, value };
}

function parse(event: ServerEvent): { leader?: LeaderBody | null; revision?: number; until?: number } {
  try {
    return JSON.parse(event.data) as { leader?: LeaderBody | null; revision?: number; until?: number };
  } catch {
    throw new UnexpectedResponseError(`an event ${event.name} that is no JSON`);
  }
}
