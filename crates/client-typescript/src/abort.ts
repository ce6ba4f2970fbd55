/**
 * Signals that end calls within the client. An `AbortController` makes an event, and an error with a stack, for each call
 * that ends.
 */

/** What a call needs of an `AbortSignal`. */
export interface StopSignal {
  readonly aborted: boolean;
  readonly reason: unknown;
  throwIfAborted(): void;
  addEventListener(event: "abort", listener: () => void): void;
  removeEventListener(event: "abort", listener: () => void): void;
}

const ENDED = new Error("the call has ended");

/**
 * A signal that follows others until it is unlinked. `AbortSignal.any` leaves a record at each source for as long as the
 * source lives, and the sources here live as long as a session.
 */
export class LinkedAbort implements StopSignal {
  readonly #listeners = new Set<() => void>();
  readonly #unlinks: (() => void)[] = [];
  #aborted = false;
  #reason: unknown;

  constructor(...sources: readonly (StopSignal | undefined)[]) {
    for (const source of sources) {
      if (source === undefined) continue;
      const follow = (): void => this.abort(source.reason);
      if (source.aborted) follow();
      source.addEventListener("abort", follow);
      this.#unlinks.push(() => source.removeEventListener("abort", follow));
    }
  }

  get aborted(): boolean {
    return this.#aborted;
  }

  get reason(): unknown {
    return this.#reason;
  }

  throwIfAborted(): void {
    if (this.#aborted) throw this.#reason;
  }

  /** Calls each listener once; the first reason stays. */
  abort(reason: unknown = ENDED): void {
    if (this.#aborted) return;
    this.#aborted = true;
    this.#reason = reason;
    for (const listener of this.#listeners) listener();
    this.#listeners.clear();
  }

  addEventListener(_event: "abort", listener: () => void): void {
    this.#listeners.add(listener);
  }

  removeEventListener(_event: "abort", listener: () => void): void {
    this.#listeners.delete(listener);
  }

  /** Stops following the sources. */
  unlink(): void {
    for (const unlink of this.#unlinks.splice(0)) unlink();
  }
}

/** Rejects with the reason of the signal if it is aborted before the end of the work, which continues. */
export async function unlessAborted<T>(work: Promise<T>, signal: StopSignal | undefined): Promise<T> {
  if (signal === undefined) return await work;
  let abort = (): void => {};
  const aborted = new Promise<never>((_, reject) => (abort = () => reject(signal.reason)));
  if (signal.aborted) abort();
  signal.addEventListener("abort", abort);
  try {
    return await Promise.race([work, aborted]);
  } finally {
    signal.removeEventListener("abort", abort);
  }
}
