/**
 * Calls with a request number, which the cluster executes once.
 *
 * A session remembers the answers to its last calls, and rejects calls up to the largest forgotten number. The client
 * therefore limits how far its calls run ahead of the oldest one in progress.
 */
import { newestRequest } from "./errors.js";
import { numberAfter } from "./numbers.js";

/** A session remembers the answers to 64 numbered calls, if the limits of the cluster are unchanged. */
const CALLS_MAX = 32;

interface StartedCall {
  isOver: boolean;
}

export class NumberedCalls {
  /** The calls from the oldest one in progress, in the order of their numbers. */
  readonly #started: StartedCall[] = [];
  readonly #waiting: (() => void)[] = [];

  /** Sends a call with a new number. Sends it once more with a larger number if that number is over. */
  async send<T>(send: (request: bigint) => Promise<T>): Promise<T> {
    try {
      return await this.#numbered(0n, send);
    } catch (error) {
      const newest = newestRequest(error);
      if (newest === undefined) throw error;
      return await this.#numbered(newest, send);
    }
  }

  async #numbered<T>(after: bigint, send: (request: bigint) => Promise<T>): Promise<T> {
    while (this.#started.length >= CALLS_MAX) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    const call = { isOver: false };
    this.#started.push(call);
    try {
      return await send(numberAfter(after));
    } finally {
      call.isOver = true;
      while (this.#started[0]?.isOver) this.#started.shift();
      for (const resume of this.#waiting.splice(0)) resume();
    }
  }
}
