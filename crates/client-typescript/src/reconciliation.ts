/**
 * Delivers the events of a session's locks to its queue entries, and resolves every difference between the entries and
 * the holds that the cluster lists.
 *
 * A guard without a listed hold is lost, and the client never acquires it again. A listed hold for which an acquire waits
 * makes the acquire repeat its call at another node. A listed hold without an entry, such as the effect of a late copy,
 * is released.
 */
import { now } from "./clock.js";
import { lockBody, type EventBody, type HoldBody, type KeepaliveBody, type LockBody, type LockHolderBody, type ReleaseRequestBody } from "./bodies.js";
import { get } from "./call.js";
import type { Calls } from "./calls.js";
import { isRejectedWith } from "./errors.js";
import { causeOfEvent } from "./loss.js";
import { shardedLockOf, type QueueEntry } from "./queue-entry.js";
import type { ReleaseRequest } from "./release-request.js";
import type { Session } from "./session.js";
import { namedPath, target } from "./target.js";

/** A hold without a guard is examined after this time. It may be a grant whose answer is still in flight. */
const EXAMINE_DELAY = 500;
/** A read of one lock may take this part of the lease. */
const READ_PART = 8;
const GENERATED_OWNER = "g-";

/** Returns the owner of one guard. */
export function generatedOwner(random: string): string {
  return GENERATED_OWNER + random;
}

type EntriesOf = (hold: HoldName) => readonly QueueEntry[];

export class Reconciliation {
  /** When to examine a listed hold without a guard, by lock and token. */
  readonly #unguarded = new Map<string, number>();

  constructor(readonly session: Session) {}

  /**
   * Delivers the answer of a keepalive. `held` is the length of the lease. The work for `n` locks grows with `n`: it reads the
   * clock once, and compares a hold with the entries of its lock and its ticket only.
   */
  deliver(body: KeepaliveBody, { sent, answered, held }: { sent: number; answered: number; held: number }): void {
    const moment = now();
    const countedFrom = sent + (body.waited_ms ?? 0);
    const heldBefore = this.#heldBefore(sent);
    const entriesOf = this.#entriesByHold();
    for (const hold of body.holds) for (const entry of entriesOf(hold)) entry.followUpgrade(hold, moment);
    for (const event of body.events ?? []) this.#deliverEvent(event, entriesOf(event), countedFrom, answered);
    const calls = this.session.calls.withTimeout(held / READ_PART);
    if (body.gap !== undefined) for (const entry of heldBefore) void this.#readReleaseRequest(calls, entry);
    const holdsOf = byHold(body.holds);
    const isListed = (entry: QueueEntry): boolean => holdsOf(entry).some((hold) => entry.holds(hold.lock, hold.token) || entry.followUpgrade(hold, moment));
    for (const entry of this.#heldBefore(sent)) if (!isListed(entry)) void this.#verify(calls, entry);
    this.#examineUnguarded(calls, body.holds, entriesOf, held, moment);
  }

  /** Returns the present entries that may be for a hold. */
  #entriesByHold(): EntriesOf {
    const { entries } = this.session;
    const of = byHold([...entries]);
    return ({ lock, ticket }) => {
      const found = new Set([...of({ lock, ticket }), ...of({ lock: shardedLockOf(lock), ticket })]);
      return [...found].filter((entry) => entries.has(entry));
    };
  }

  #deliverEvent(event: EventBody, entries: readonly QueueEntry[], countedFrom: number, answered: number): void {
    const { lease } = this.session;
    for (const entry of entries.filter((entry) => entry.gets(event))) {
      if (event.kind === "release-requested") {
        entry.requestRelease(releaseRequestOf({ ...event, wanted_in_ms: event.wanted_in_ms ?? 0 }), countedFrom);
      } else if (event.kind === "lost" && entry.stage === "held") {
        // A guard with a pending change gets the result from the call that changes it.
        const cause = causeOfEvent(event.cause, entry.limits.hasMaxHold);
        const reason = event.reason ?? (cause === "revoked" ? entry.releaseRequest?.reason : undefined);
        entry.lose({ cause, reason }, lease, answered);
      }
    }
  }

  /** The entries that held their lock when a keepalive was sent. */
  #heldBefore(sent: number): QueueEntry[] {
    return [...this.session.entries].filter((entry) => entry.stage === "held" && entry.heldSince < sent);
  }

  /** Reads an open release request from the lock after a gap in the events. */
  async #readReleaseRequest(calls: Calls, entry: QueueEntry): Promise<void> {
    const sent = now();
    const body = await this.#read(calls, entry.lock);
    const request = body?.holders.find((holder) => this.#isHold(holder, entry.token))?.release_request;
    if (request !== undefined) entry.requestReleaseIfNew(releaseRequestOf(request), sent);
  }

  /** Reads the lock of an entry that a keepalive did not list: the node that renewed may be behind the grant. */
  async #verify(calls: Calls, entry: QueueEntry): Promise<void> {
    const { token } = entry;
    const isHolder = await this.#isHolder(calls, entry.lock, token);
    if (!isHolder && entry.stage === "held" && entry.token === token) {
      this.session.drain();
      entry.lose({ cause: "released-elsewhere" }, this.session.lease, now());
    }
  }

  /** Whether the session holds the lock under this token. If no node answers, the lease decides. */
  async #isHolder(calls: Calls, lock: string, token: number): Promise<boolean> {
    const body = await this.#read(calls, lock);
    if (body === undefined || body.holders.some((holder) => this.#isHold(holder, token))) return true;
    if (body.holders_total <= body.holders.length) return false;
    // A node lists only the first of many holders, so the token identifies the hold.
    const check = calls.answer(get(target(namedPath("fence", lock), { token })));
    return await check.then(() => true, (error: unknown) => !isRejectedWith(error, "stale-token"));
  }

  #examineUnguarded(calls: Calls, listed: readonly HoldBody[], entriesOf: EntriesOf, held: number, moment: number): void {
    const keyOf = ({ lock, token }: HoldBody): string => `${token} ${lock}`;
    const keys = new Set(listed.map(keyOf));
    for (const key of this.#unguarded.keys()) if (!keys.has(key)) this.#unguarded.delete(key);
    for (const hold of listed) {
      const entries = entriesOf(hold);
      const changing = entries.filter((entry) => entry.awaitsUpgrade(hold));
      const awaiting = changing.length > 0 ? changing : entries.filter((entry) => entry.awaits(hold.lock));
      const isKnown = changing.length === 0 && entries.some((entry) => entry.holds(hold.lock, hold.token));
      // Other clients may use a session that the caller named.
      if (isKnown || (awaiting.length === 0 && !this.session.settings.isOwn)) {
        this.#unguarded.delete(keyOf(hold));
      } else if (this.#isDue(keyOf(hold), held / 3, moment)) {
        if (awaiting.length === 0) void this.#releaseStray(calls, hold);
        for (const entry of awaiting) entry.onGrantedElsewhere?.();
      }
    }
  }

  /** Whether a hold without a guard has been listed for long enough. The next examination is due `againAfter` later. */
  #isDue(key: string, againAfter: number, moment: number): boolean {
    const examineAt = this.#unguarded.get(key);
    if (examineAt !== undefined && moment >= examineAt) {
      this.#unguarded.set(key, moment + againAfter);
      return true;
    }
    if (examineAt === undefined) this.#unguarded.set(key, moment + EXAMINE_DELAY);
    this.session.reportWithin(EXAMINE_DELAY);
    return false;
  }

  /** Releases a hold without a guard, if its owner was generated for a guard. */
  async #releaseStray(calls: Calls, { lock, token }: HoldBody): Promise<void> {
    const body = await this.#read(calls, lock);
    const holder = body?.holders.find((holder) => this.#isHold(holder, token));
    const owner = holder?.owner;
    if (owner === undefined || !owner.startsWith(GENERATED_OWNER)) return;
    if ([...this.session.entries].some((entry) => entry.covers(lock) && entry.owner === owner)) return;
    const query = { session: this.session.name, owner, token };
    // If no node answers, the next examination finds the hold again.
    await calls.confirm({ method: "DELETE", target: target(namedPath("locks", lock), query), copies: "harmless" }).catch(() => {});
  }

  #isHold(holder: LockHolderBody, token: number): boolean {
    return holder.session === this.session.name && holder.token === token;
  }

  async #read(calls: Calls, lock: string): Promise<LockBody | undefined> {
    return await calls.answer(get(namedPath("locks", lock))).then(lockBody).catch(() => undefined);
  }
}

function releaseRequestOf({ reason, wanted_in_ms, revoke }: ReleaseRequestBody): ReleaseRequest {
  return { reason, wantedInMs: wanted_in_ms, revoke: revoke ?? false };
}

/** Names a hold. The ticket is absent for an acquire that waits. */
interface HoldName {
  readonly lock: string;
  readonly ticket?: number | undefined;
}

/** Returns what may be for a hold: what has its ticket, and what has none. Without the ticket of the hold, that is all. */
function byHold<T extends HoldName>(all: readonly T[]): (hold: HoldName) => readonly T[] {
  const groups = new Map<string, T[]>();
  const group = (lock: string, ticket = 0): T[] => {
    const key = `${ticket} ${lock}`;
    const known = groups.get(key) ?? [];
    if (known.length === 0) groups.set(key, known);
    return known;
  };
  for (const one of all) group(one.lock, one.ticket).push(one);
  return ({ lock, ticket }) => (ticket ? [...group(lock, ticket), ...group(lock)] : all);
}
