/** Elections: candidates with a value, of which one leads. The election NAME is the lock `elections/NAME`. */
import { acquire } from "./acquire.js";
import { grantBody, type LeaderBody } from "./bodies.js";
import { get, type Delivery } from "./call.js";
import { now } from "./clock.js";
import { isRejectedWith, newestAttempt } from "./errors.js";
import { Guard } from "./guard.js";
import type { HeldLock } from "./held-lock.js";
import { changeCall, lockRequest, type LockOptions } from "./lock-options.js";
import { numberAfter, randomName } from "./numbers.js";
import { Observer, toLeader, type Leader } from "./observer.js";
import { generatedOwner } from "./reconciliation.js";
import type { Sessions } from "./sessions.js";
import { namedPath } from "./target.js";

export type CampaignOptions = Pick<LockOptions, "wait" | "ttl" | "owner" | "priority" | "maxHold" | "progressTimeout" | "signal">;

export class Election {
  readonly #sessions: Sessions;

  /** @internal */
  constructor(
    sessions: Sessions,
    readonly name: string,
  ) {
    this.#sessions = sessions;
  }

  /** Campaigns with a value that every client can read, and resolves when this candidate leads. */
  async campaign(value: string, options: CampaignOptions = {}): Promise<Leadership> {
    const lock = `elections/${this.name}`;
    const request = lockRequest([lock], { ...options, ...(value === "" ? {} : { value }) }, generatedOwner(randomName()));
    const [held] = await acquire(this.#sessions, request);
    if (held === undefined) throw new TypeError("an acquire returns one lock for each name");
    return new Leadership(held);
  }

  /** Returns the leader, if there is one. */
  async leader(): Promise<Leader | undefined> {
    const call = get(namedPath("elections", this.name));
    const { leader } = await this.#sessions.calls.json<{ election: string; leader?: LeaderBody | null }>(call, { election: "string" });
    return leader ? toLeader(leader) : undefined;
  }

  /** Observes the present leader and each change: `for await (const change of election.observe())`. */
  observe(): Observer {
    return new Observer(this.#sessions, namedPath("elections", this.name));
  }
}

/** The guard of a leader. */
export class Leadership extends Guard {
  readonly #leading: HeldLock;

  /** @internal */
  constructor(held: HeldLock) {
    super(held);
    this.#leading = held;
  }

  /** Replaces the published value under the same token. Throws a `LostError` if the cluster no longer has the hold. */
  async proclaim(value: string): Promise<void> {
    const { session, entry } = this.#leading;
    const send = async (after: bigint): Promise<Delivery> => {
      const call = changeCall(entry.lock, session, entry.owner, entry.attempt, numberAfter(after), { value }, 0);
      return await session.deliverAt(call, "copied");
    };
    this.ensure();
    let { result } = await send(entry.attempt);
    const newest = "error" in result ? newestAttempt(result.error) : undefined;
    // Another program of the session has a larger number.
    if (newest !== undefined) ({ result } = await send(newest));
    if ("error" in result) throw isRejectedWith(result.error, "not-holder", "attempt-over") ? this.#leading.gone() : result.error;
    const grant = grantBody(result.answer);
    if (grant.token !== this.token && !entry.followUpgrade(grant, now())) throw this.#leading.gone();
    session.acknowledge({ countedFrom: result.sent + grant.waited_ms, held: grant.expires_in_ms ?? 0 });
  }

  /** Ends the leadership. The next candidate leads in the same step. */
  async resign(): Promise<void> {
    await this.release();
  }
}
