/**
 * The client's entry in the queue of one lock: waiting, held, or about to be released.
 *
 * A guard and the renewal of its session share the entry. Its attempt and its owner name it in the cluster, so each
 * guard releases only its hold.
 */
import type { GrantBody, HoldBody } from "./bodies.js";
import { LostError } from "./errors.js";
import type { Lease } from "./lease.js";
import { HoldLimits } from "./limits.js";
import type { Loss } from "./loss.js";
import { isSameRequest, revokedAt, type ReleaseRequest } from "./release-request.js";

/** `converting`: held, with a pending change of its mode, which may change the token. */
export type EntryStage = "waiting" | "held" | "converting" | "leaving";

/** Returns the sharded lock of the shard `stock/3`; "" for a name without a slash. */
export function shardedLockOf(lock: string): string {
  return lock.slice(0, Math.max(lock.lastIndexOf("/"), 0));
}

export class QueueEntry {
  stage: EntryStage = "waiting";
  /** The token of the hold; 0 before the grant. */
  token = 0;
  /** The token before the last upgrade; 0 without one. An event may precede the upgrade. */
  #formerToken = 0;
  /** The moment of the grant on the clock of deadlines. */
  heldSince = Number.POSITIVE_INFINITY;
  limits = new HoldLimits(0);
  releaseRequest: ReleaseRequest | undefined;
  /** Repeats the acquire or the change at another node, because a renewal listed the grant. */
  onGrantedElsewhere: (() => void) | undefined;
  /** The number of the hold, which an upgrade keeps. */
  ticket: number | undefined;
  /** Called with the new token when another guard or program of the owner has upgraded the hold. */
  onUpgraded: ((token: number) => void) | undefined;
  /** Called once with the loss of the hold. */
  onLost: ((error: LostError) => void) | undefined;
  readonly requestListeners = new Set<(request: ReleaseRequest) => void>();
  /** Set before the call that transfers the hold. */
  isTransferred = false;
  #lost: LostError | undefined;

  constructor(
    /** The name of the lock; of a sharded lock, the shard `stock/3` once it is granted. */
    public lock: string,
    /** Undefined stands for the session itself. */
    readonly owner: string | undefined,
    /** 0 for a hold that another session transferred. */
    public attempt: bigint,
    private isAnyShard = false,
  ) {}

  grantedAs(lock: string): void {
    if (this.isAnyShard) this.lock = lock;
    this.isAnyShard = false;
  }

  /** Whether this entry is for the lock, or may be granted as the lock. */
  covers(lock: string): boolean {
    return this.lock === lock || (this.isAnyShard && shardedLockOf(lock) === this.lock);
  }

  /** Whether this entry holds the lock, and the token is its present one or the one before the last upgrade. */
  holds(lock: string, token: number): boolean {
    const isToken = this.token === token || this.#formerToken === token;
    return isToken && this.covers(lock) && (this.stage === "held" || this.stage === "converting");
  }

  /** Whether a grant of the lock may be for this entry. */
  awaits(lock: string): boolean {
    return this.covers(lock) && (this.stage === "waiting" || this.stage === "converting");
  }

  /** Continues the hold with this ticket under the token of an upgrade. Returns false if this entry has another hold. */
  followUpgrade(hold: HoldBody, now: number): boolean {
    if (!this.#isHold(hold)) return false;
    if (this.stage === "held" && hold.token > this.token) {
      this.enterHold(hold.token, now);
      this.onUpgraded?.(hold.token);
    }
    return true;
  }

  /** Whether a change is in progress, and the cluster lists its hold with a later token. */
  awaitsUpgrade(hold: HoldBody): boolean {
    return this.stage === "converting" && this.#isHold(hold) && hold.token > this.token;
  }

  /** Whether an event is of this hold, which its ticket names or, without a ticket, its token. */
  gets(event: HoldBody): boolean {
    if (!event.ticket) return this.holds(event.lock, event.token);
    return this.#isHold(event) && (this.stage === "held" || this.stage === "converting");
  }

  #isHold({ lock, ticket }: HoldBody): boolean {
    return Boolean(ticket) && ticket === this.ticket && this.covers(lock);
  }

  /** Enters the hold of a grant. The times of the grant count from `countedFrom`. */
  granted(grant: GrantBody, maxHold: number | undefined, countedFrom: number, now: number): void {
    this.ticket = grant.ticket;
    this.limits.endWithin(maxHold, grant.ends_in_ms, countedFrom);
    this.enterHold(grant.token, now);
  }

  enterHold(token: number, heldSince: number): void {
    this.stage = "held";
    if (token !== this.token) this.#formerToken = this.token;
    this.token = token;
    this.heldSince = heldSince;
  }

  /** Compares the clock with the deadlines. Returns the loss, which stays. */
  check(lease: Lease, now: number): LostError | undefined {
    if (this.#lost === undefined && (this.stage === "held" || this.stage === "converting")) {
      const loss = this.limits.loss(now) ?? lease.loss(now);
      if (loss !== undefined) this.#lose(loss);
    }
    return this.#lost;
  }

  /** Marks the hold as lost; the first loss stays. */
  lose(loss: Loss, lease: Lease, now: number): void {
    if (this.check(lease, now) === undefined && this.stage !== "leaving") this.#lose(loss);
  }

  /** Stores a release request. A request that revokes ends the hold at its deadline, which counts from `countedFrom`. */
  requestRelease(request: ReleaseRequest, countedFrom: number): void {
    if (request.revoke) this.limits.revoke(revokedAt(request, countedFrom), request.reason);
    this.releaseRequest = request;
    for (const listener of this.requestListeners) listener(request);
  }

  /** As `requestRelease`, unless the request is known. */
  requestReleaseIfNew(request: ReleaseRequest, countedFrom: number): void {
    if (!isSameRequest(this.releaseRequest, request)) this.requestRelease(request, countedFrom);
  }

  #lose(loss: Loss): void {
    this.#lost = new LostError(loss, this.lock, this.token);
    this.onLost?.(this.#lost);
  }
}
