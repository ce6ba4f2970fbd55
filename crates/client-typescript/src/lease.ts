/**
 * The time that a session certainly lives. Pure: every moment and every random number is an argument.
 *
 * A deadline counts from the sending of the last acknowledged renewal, because the cluster starts to count later. A
 * margin covers clocks that run at different rates. A deadline that has passed stays passed: a later acknowledgement
 * does not restore the session, since the work may have stopped.
 */
import type { Loss } from "./loss.js";

/** Two clocks may differ by this part of the time that they measure. */
const RATE = 0.01;
/** Subtracted for the time between reading a clock and acting on it. */
const SAFETY = 5;
/** The longest time to park a keepalive. A node drops the events of a session that sends no poll for two minutes. */
const PARK_MAX = 45_000;

/** An acknowledged renewal: the cluster keeps the session for `held` from `countedFrom` or later. */
export interface Acknowledged {
  readonly countedFrom: number;
  readonly held: number;
}

/** Returns the moment until which something certainly lasts that the cluster keeps for `held` from `countedFrom`. */
export function deadlineOf({ countedFrom, held }: Acknowledged): number {
  return countedFrom + Math.max(held - held * RATE - SAFETY, 0);
}

/** Returns how long to park a keepalive: a sixth of the lease, less up to a tenth of that by `random` (0 to 1). */
export function parkTime(held: number, random: number): number {
  return Math.min(Math.trunc((held / 6) * (1 - random / 10)), PARK_MAX);
}

/** Returns the pause before a plain renewal: a third of the lease, less up to a tenth of that by `random` (0 to 1). */
export function renewalPause(held: number, random: number): number {
  return Math.trunc((held / 3) * (1 - random / 10));
}

export class Lease {
  #deadline: number;
  #held: number;
  #ended: Loss | undefined;
  #failure: string | undefined;

  constructor(acknowledged: Acknowledged) {
    this.#deadline = deadlineOf(acknowledged);
    this.#held = acknowledged.held;
  }

  /** The length of the lease in the last acknowledgement. */
  get held(): number {
    return this.#held;
  }

  get deadline(): number {
    return this.#deadline;
  }

  /** Returns the loss if the session is over; it is final. */
  loss(now: number): Loss | undefined {
    if (this.#ended === undefined && now >= this.#deadline) {
      this.#ended = { cause: "not-renewed", reason: this.#failure ?? "no renewal was answered" };
    }
    return this.#ended;
  }

  /** Extends the lease, unless its deadline has passed. Returns the loss if the session is over. */
  acknowledge(acknowledged: Acknowledged, now: number): Loss | undefined {
    if (this.loss(now) === undefined) {
      this.#deadline = Math.max(this.#deadline, deadlineOf(acknowledged));
      this.#held = acknowledged.held;
      this.#failure = undefined;
    }
    return this.loss(now);
  }

  /** Stores the error of a renewal, which a later loss reports. */
  renewalFailed(reason: string): void {
    this.#failure = reason;
  }

  /** Ends the session; the first loss stays. */
  end(loss: Loss, now: number): void {
    this.#ended = this.loss(now) ?? loss;
  }
}
