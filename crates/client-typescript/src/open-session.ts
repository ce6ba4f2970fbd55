/** An open session of a client, which is renewed until `close`. A sender needs its name to transfer a lock to it. */
import { LostError } from "./errors.js";
import type { Session } from "./session.js";

export class OpenSession {
  readonly #session: Session;
  readonly #unuse: () => void;

  /** @internal */
  constructor(session: Session) {
    this.#session = session;
    this.#unuse = session.use();
  }

  get name(): string {
    return this.#session.name;
  }

  /** Throws a `LostError` unless the session certainly lives. */
  ensure(): void {
    const loss = this.#session.loss();
    if (loss !== undefined) throw new LostError(loss);
  }

  /** Ends this use of the session, which guards of the client may still use. */
  close(): void {
    this.#unuse();
  }

  [Symbol.dispose](): void {
    this.close();
  }
}
