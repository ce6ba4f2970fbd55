/**
 * An abort signal that follows others until it is unlinked. `AbortSignal.any` leaves a record at each source for as long
 * as the source lives, and the sources here live as long as a session.
 */
export class LinkedAbort {
  readonly #controller = new AbortController();
  readonly #unlinks: (() => void)[] = [];

  constructor(...sources: readonly (AbortSignal | undefined)[]) {
    for (const source of sources) {
      if (source === undefined) continue;
      const follow = (): void => this.#controller.abort(source.reason);
      if (source.aborted) follow();
      source.addEventListener("abort", follow, { once: true });
      this.#unlinks.push(() => source.removeEventListener("abort", follow));
    }
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  abort(): void {
    this.#controller.abort();
  }

  /** Stops following the sources. */
  unlink(): void {
    for (const unlink of this.#unlinks.splice(0)) unlink();
  }
}
