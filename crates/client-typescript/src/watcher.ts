/**
 * The changes of the tree in order, by long polls. The watcher continues from its revision at any node, so it misses no
 * change; if the cluster no longer has some, it reports a gap.
 */
import { get } from "./call.js";
import { isRejectedWith, UnavailableError } from "./errors.js";
import type { Sessions } from "./sessions.js";
import { target, waitQuery } from "./target.js";

/** The time that one long poll waits for a change. */
const WAIT = 20_000;

export type TreeChange =
  | { readonly kind: "created" | "changed" | "deleted" | "granted" | "lost"; readonly path: string; readonly revision: number }
  /** Changes up to this revision are missing: read the state again. */
  | { readonly kind: "gap"; readonly revision: number };

interface WatchBody {
  readonly events: readonly Exclude<TreeChange, { readonly kind: "gap" }>[];
  readonly revision: number;
}

/**
 * An iterator of changes. After an `UnavailableError`, another call of `next` continues from the same point. A `LostError`
 * is the end of the client.
 */
export class Watcher implements AsyncIterableIterator<TreeChange> {
  readonly #sessions: Sessions;
  readonly #query: { readonly prefix: string } | { readonly path: string };
  readonly #over = new AbortController();
  #since: number | undefined;
  #changes: TreeChange[] = [];
  /** Whether a node has answered. */
  #isAnswered = false;

  /** @internal */
  constructor(sessions: Sessions, query: { readonly prefix: string } | { readonly path: string }, since: number | undefined) {
    this.#sessions = sessions;
    this.#query = query;
    this.#since = since;
  }

  /** Fixes the beginning of the watch: later changes are reported. */
  async start(): Promise<void> {
    this.#since ??= (await this.#poll(0)).revision;
  }

  async next(): Promise<IteratorResult<TreeChange, undefined>> {
    try {
      await this.start();
      while (this.#changes.length === 0) await this.#fill();
    } catch (error) {
      if (this.#over.signal.aborted) return { done: true, value: undefined };
      throw error;
    }
    const value = this.#changes.shift();
    return value === undefined ? { done: true, value } : { done: false, value };
  }

  async return(): Promise<IteratorResult<TreeChange, undefined>> {
    this.#over.abort();
    return { done: true, value: undefined };
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async #fill(): Promise<void> {
    try {
      const body = await this.#poll(WAIT);
      this.#changes = [...body.events];
      this.#since = Math.max(this.#since ?? 0, body.revision);
    } catch (error) {
      if (!isRejectedWith(error, "revision-compacted")) throw error;
      const restartFrom = error.problem["restart_from"];
      if (typeof restartFrom !== "number") throw new UnavailableError("the changes are gone");
      this.#since = restartFrom;
      this.#changes = [{ kind: "gap", revision: restartFrom }];
    }
  }

  async #poll(wait: number): Promise<WatchBody> {
    const query = { ...this.#query, since: this.#since, wait: "0s", ...waitQuery(wait) };
    const call = { ...get(target("/v1/watch", query)), wait };
    const { calls } = this.#sessions;
    const body = await this.#sessions.wait(async (stop) => {
      const read = (): Promise<WatchBody> => calls.json<WatchBody>(call, { events: "array", revision: "integer" }, stop);
      return await (this.#isAnswered ? calls.repeatPages(read, stop) : read());
    }, this.#over.signal);
    this.#isAnswered = true;
    return body;
  }
}
