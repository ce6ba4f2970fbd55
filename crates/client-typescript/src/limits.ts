/**
 * The limits of a hold besides its session: a progress timeout, `max_hold`, and the deadline of a release request that
 * revokes. Pure. An exceeded limit stays exceeded.
 */
import { deadlineOf } from "./lease.js";
import type { Loss } from "./loss.js";

export class HoldLimits {
  readonly #progressTimeout: number | undefined;
  #maxHoldUntil: number | undefined;
  #progressUntil: number | undefined;
  #revoked: { readonly until: number; readonly reason: string | undefined } | undefined;
  #lost: Loss | undefined;

  /** Creates the limits of a hold that begins now. */
  constructor(now: number, progressTimeout?: number) {
    this.#progressTimeout = progressTimeout;
    this.#progressUntil = progressTimeout === undefined ? undefined : now + progressTimeout;
  }

  get hasMaxHold(): boolean {
    return this.#maxHoldUntil !== undefined;
  }

  /**
   * Ends the hold after the requested `maxHold`, or at the end in the grant if that is sooner. The cluster counts both from
   * `countedFrom` or later. A hold may have an end that its guard did not request, e.g. that of its former holder. The
   * earliest end stays.
   */
  endWithin(maxHold: number | undefined, endsIn: number | undefined, countedFrom: number): void {
    const never = Number.POSITIVE_INFINITY;
    // The node that counted the remaining time may have been behind.
    const held = Math.min(maxHold ?? never, endsIn ?? never);
    if (held < never) this.#maxHoldUntil = Math.min(this.#maxHoldUntil ?? never, deadlineOf({ countedFrom, held }));
  }

  /** The nearest limit; infinity without limits. */
  get deadline(): number {
    const never = Number.POSITIVE_INFINITY;
    return Math.min(this.#progressUntil ?? never, this.#maxHoldUntil ?? never, this.#revoked?.until ?? never);
  }

  /** Returns the loss if a limit is exceeded; it is final. */
  loss(now: number): Loss | undefined {
    this.#lost ??= this.#exceeded(now);
    return this.#lost;
  }

  /** Moves the progress deadline, unless a limit is exceeded. */
  reportProgress(now: number): void {
    if (this.loss(now) === undefined && this.#progressTimeout !== undefined) {
      this.#progressUntil = now + this.#progressTimeout;
    }
  }

  /** Ends the hold at `until`, or at an earlier deadline of another request. */
  revoke(until: number, reason: string | undefined): void {
    if (this.#revoked === undefined || until < this.#revoked.until) this.#revoked = { until, reason };
  }

  /** Marks the hold as lost; the first loss stays. */
  lose(loss: Loss, now: number): void {
    this.#lost = this.loss(now) ?? loss;
  }

  #exceeded(now: number): Loss | undefined {
    const isOver = (until: number | undefined): boolean => until !== undefined && now >= until;
    if (isOver(this.#progressUntil)) return { cause: "stalled" };
    if (isOver(this.#maxHoldUntil)) return { cause: "max-hold-exceeded" };
    if (isOver(this.#revoked?.until)) return { cause: "revoked", reason: this.#revoked?.reason };
    return undefined;
  }
}
