/**
 * One held lock: its grant, its deadline and its loss. Every query compares the clock with the deadline, so a process
 * that was paused sees the loss before any timer has run. A lost lock stays lost.
 */
import type { GrantBody } from "./bodies.js";
import { monotonic, now } from "./clock.js";
import { isRejectedWith, LostError } from "./errors.js";
import { isEndedByClient } from "./loss.js";
import { debug } from "./metrics.js";
import type { QueueEntry } from "./queue-entry.js";
import type { Session } from "./session.js";

export class HeldLock {
  readonly #lost = new AbortController();
  readonly #since = monotonic();
  /** Ends the use of the session. */
  readonly #unuse: () => void;

  constructor(
    readonly session: Session,
    readonly entry: QueueEntry,
    public grant: GrantBody,
    unuse: () => void,
  ) {
    let isUsed = true;
    this.#unuse = () => {
      if (isUsed) unuse();
      isUsed = false;
    };
    entry.onLost = (error) => this.#onLost(error);
    entry.onUpgraded = (token) => (this.grant = { ...this.grant, token });
  }

  get lock(): string {
    return this.entry.lock;
  }

  /** Aborted at the loss, with the `LostError` as its reason. */
  get signal(): AbortSignal {
    return this.#lost.signal;
  }

  /** The loss; undefined while the lock is certainly held. */
  get lost(): LostError | undefined {
    this.session.drain();
    const lost = this.entry.check(this.session.lease, now());
    if (lost !== undefined || this.entry.stage !== "leaving") return lost;
    return new LostError({ cause: this.entry.isTransferred ? "transferred" : "released-elsewhere" }, this.lock, this.grant.token);
  }

  ensure(): void {
    const { lost } = this;
    if (lost !== undefined) throw lost;
  }

  /** Marks the hold as lost, because the cluster no longer has it. Returns the first loss, which stays. */
  gone(): LostError {
    const cause = "released-elsewhere";
    this.entry.lose({ cause }, this.session.lease, now());
    return this.lost ?? new LostError({ cause }, this.lock, this.entry.token);
  }

  /** Milliseconds until the deadline; 0 if the lock is lost. */
  get remaining(): number {
    if (this.lost !== undefined) return 0;
    return Math.max(Math.min(this.entry.limits.deadline, this.session.lease.deadline) - now(), 0);
  }

  /** Counts a release that the cluster has confirmed. */
  countRelease(): void {
    this.session.metrics.released?.(this.lock, Math.round(monotonic() - this.#since));
  }

  /** Ends the use of the session. */
  left(): void {
    this.#unuse();
  }

  #onLost(error: LostError): void {
    debug("lock %s of session %s is lost: %s", this.lock, this.session.name, error.lossCause);
    // The close of the client is no loss for the program.
    if (!this.session.isClosing) this.session.metrics.lost?.(this.lock, error.lossCause);
    if (isEndedByClient(error.lossCause)) this.session.releaseInBackground([this.entry]);
    else this.session.entries.delete(this.entry);
    this.#unuse();
    this.#lost.abort(error);
  }
}

/**
 * Releases lost locks in the background, once, if the cluster may keep them: those that the clock has lost, while another
 * program renews the session, and those of which the cluster lists no hold with the token of the guard.
 */
function releaseLate(held: readonly HeldLock[]): void {
  const isKept = ({ lost }: HeldLock): boolean => lost?.lossCause === "not-renewed" || lost?.lossCause === "released-elsewhere";
  const late = held.filter((lock) => lock.entry.stage !== "leaving" && isKept(lock));
  const [first] = late;
  if (first?.session.mayRelease) first.session.releaseInBackground(late.map(({ entry }) => entry));
}

/** Releases locks of one acquire with one call. Throws the loss if one of them was lost before. */
export async function releaseAll(held: readonly HeldLock[]): Promise<void> {
  const lost = held.map((lock) => lock.lost).find((loss) => loss !== undefined);
  releaseLate(held);
  const left = held.filter((lock) => lock.lost === undefined);
  const [first] = left;
  if (first === undefined) {
    if (lost !== undefined && held.some((lock) => lock.entry.stage !== "leaving" || lock.signal.aborted)) throw lost;
    return;
  }
  try {
    await first.session.release(left.map((lock) => lock.entry), () => left.forEach((lock) => lock.countRelease()));
  } catch (error) {
    if (!isRejectedWith(error, "not-holder", "attempt-over")) throw error;
    throw lost ?? new LostError({ cause: "released-elsewhere" }, error.problem.lock ?? first.lock);
  } finally {
    for (const lock of left) lock.left();
  }
  if (lost !== undefined) throw lost;
}
