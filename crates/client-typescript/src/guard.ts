/** A held lock of the caller. Only a grant creates a guard, and a lost guard stays lost. */
import { checkEnd } from "./answer.js";
import { answerOf } from "./calls.js";
import { now } from "./clock.js";
import { InvalidArgumentError, type LostError } from "./errors.js";
import { releaseAll, type HeldLock } from "./held-lock.js";
import type { Mode } from "./lock-options.js";
import { ModeChange } from "./mode-change.js";
import type { ReleaseRequest } from "./release-request.js";
import { toMillis, type Duration } from "./duration.js";
import { namedPath, target } from "./target.js";
import { transfer } from "./transfer.js";

/** A held lock, renewed in the background until `release` or the loss. An unreleased guard keeps the process alive. */
export class Guard {
  readonly #held: HeldLock;

  /** @internal */
  constructor(held: HeldLock) {
    this.#held = held;
  }

  /** The name of the lock; of a sharded lock, the name of the shard: `stock/3`. */
  get lock(): string {
    return this.#held.lock;
  }

  /** The name of the session that holds the lock. */
  get session(): string {
    return this.#held.session.name;
  }

  /** The fencing token to send with every write under the lock. An upgrade replaces it in every guard of the hold. */
  get token(): number {
    return this.#held.grant.token;
  }

  /** The smallest token that was valid at the grant: the floor of a shared holder or of a permit. */
  get minValidToken(): number {
    return this.#held.grant.min_valid_token;
  }

  get mode(): Mode {
    return this.#held.grant.mode;
  }

  /** The number of permits; 1 unless the lock is a semaphore. */
  get permits(): number {
    return this.#held.grant.permits ?? 1;
  }

  /** A slot for each permit, below the limit. No other holder has the same slot at the same time. */
  get slots(): readonly number[] {
    return this.#held.grant.slots ?? [];
  }

  /** The number of the shard; undefined unless the lock is sharded. */
  get shard(): number | undefined {
    return this.#held.grant.shard;
  }

  /** Aborted at the loss, with the `LostError` as its reason. Pass it to `fetch`, `pg` and child processes. */
  get signal(): AbortSignal {
    return this.#held.signal;
  }

  /** The loss, or undefined while the lock is certainly held. Compares the clock with the deadline. */
  get lost(): LostError | undefined {
    return this.#held.lost;
  }

  /** The latest release request. */
  get releaseRequested(): ReleaseRequest | undefined {
    return this.#held.entry.releaseRequest;
  }

  /** Throws a `LostError` unless the lock is certainly still held. Call it right before each write. */
  ensure(): void {
    this.#held.ensure();
  }

  /** Returns the milliseconds for which the lock is certain without another renewal; 0 if it is lost. */
  remaining(): number {
    return this.#held.remaining;
  }

  /** Calls the listener for the latest release request and each later one. Returns a function that ends this. */
  onReleaseRequested(listener: (request: ReleaseRequest) => void): () => void {
    const { requestListeners, releaseRequest } = this.#held.entry;
    requestListeners.add(listener);
    if (releaseRequest !== undefined) queueMicrotask(() => requestListeners.has(listener) && listener(releaseRequest));
    return () => requestListeners.delete(listener);
  }

  /** Reports progress of the work, for a lock with a `progressTimeout`. Throws if the lock is lost. */
  reportProgress(): void {
    this.ensure();
    this.#held.entry.limits.reportProgress(now());
    this.#held.session.check();
  }

  /**
   * Returns the header that a fenced HTTP service expects. A holder beside others also sends its floor. The header has no
   * resource if the name of the lock has other characters than printable ASCII, because HTTP libraries reject them.
   */
  headers(): { "Fencing-Token": string } {
    const resource = /^[ -~]*$/.test(this.lock) ? `; resource="${this.lock.replace(/["\\]/g, "\\$&")}"` : "";
    const floor = this.minValidToken === this.token ? "" : `; floor=${this.minValidToken}`;
    return { "Fencing-Token": `${this.token}${resource}${floor}` };
  }

  /** Becomes exclusive when the shared holders have left, with a new token. Requires the mode `upgradable`. */
  async upgrade(options: { readonly wait?: Duration | undefined } = {}): Promise<void> {
    const wait = options.wait === undefined ? Number.POSITIVE_INFINITY : toMillis(options.wait, "wait");
    await ModeChange.upgrade(this.#held, wait);
  }

  /** Changes to a weaker mode at once, with the same token. */
  async downgrade(mode: "shared" | "upgradable" = "shared"): Promise<void> {
    await ModeChange.downgrade(this.#held, mode);
  }

  /**
   * Transfers the lock to another open session, and returns the receiver's token. No waiter is granted in between. The
   * receiver is `owner` within that session, or the session itself. Stop the work first: once the call starts, `ensure`
   * throws. If the cluster certainly rejects the call, the guard still holds the lock.
   */
  async transfer(to: string, options: { readonly owner?: string | undefined } = {}): Promise<number> {
    return await transfer(this.#held, to, options.owner);
  }

  /** Gives back some permits of a semaphore, from the highest slot down. At least one permit stays. */
  async releasePermits(permits: number): Promise<void> {
    this.ensure();
    const left = this.permits - permits;
    if (left < 1) throw new InvalidArgumentError("permits: a guard keeps at least one permit, release the guard to give back all");
    const { session, entry, grant } = this.#held;
    const query = { session: session.name, owner: entry.owner, token: grant.token, permits };
    await session.numberedCalls.send(async (request) => {
      const path = target(namedPath("locks", entry.lock), { ...query, request });
      // The cluster may grant the other slots before its answer arrives.
      this.#held.grant = { ...grant, permits: left, slots: grant.slots?.slice(0, left) ?? [] };
      const delivery = await session.deliverAt({ method: "DELETE", target: path, copies: "harmless" }, "copied");
      if ("error" in delivery.result && !delivery.inDoubt) this.#held.grant = grant;
      checkEnd(answerOf(delivery).answer);
    });
  }

  /** Releases the lock. Throws a `LostError` if it was lost before. A repeated call does nothing. */
  async release(): Promise<void> {
    await releaseAll([this.#held]);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release();
  }
}

/** Several locks that were granted together. Each has a separate token and a separate loss. */
export class MultiGuard {
  /** One guard for each lock, in the order of the acquire. */
  readonly guards: readonly Guard[];
  /** Aborted at the first loss, with the `LostError` as its reason. */
  readonly signal: AbortSignal;
  readonly #held: readonly HeldLock[];

  /** @internal */
  constructor(held: readonly HeldLock[]) {
    this.#held = held;
    this.guards = held.map((lock) => new Guard(lock));
    this.signal = AbortSignal.any(held.map((lock) => lock.signal));
  }

  get session(): string {
    return this.#held[0]?.session.name ?? "";
  }

  /** The token of each lock. */
  get tokens(): ReadonlyMap<string, number> {
    return new Map(this.guards.map((guard) => [guard.lock, guard.token]));
  }

  /** The first loss, or undefined while all locks are certainly held. */
  get lost(): LostError | undefined {
    return this.guards.map((guard) => guard.lost).find((lost) => lost !== undefined);
  }

  /** Throws a `LostError` unless all locks are certainly still held. */
  ensure(): void {
    for (const guard of this.guards) guard.ensure();
  }

  /** Returns the milliseconds for which all locks are certain without another renewal. */
  remaining(): number {
    return Math.min(...this.guards.map((guard) => guard.remaining()));
  }

  /** Releases all locks. Throws a `LostError` if one of them was lost before. */
  async release(): Promise<void> {
    await releaseAll(this.#held);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release();
  }
}
