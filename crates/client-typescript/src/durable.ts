/** The calls of durable holds, which have no session, no renewal and no end of their time. */
import type { Calls } from "./calls.js";
import { toMillisIfSet, type Duration } from "./duration.js";
import { newestAttempt } from "./errors.js";
import { numberAfter } from "./numbers.js";
import { namedPath, target, waitQuery } from "./target.js";

export interface DurableHoldOptions {
  /** The name of the hold: another call of the owner returns the same token. */
  readonly owner: string;
  /** The reason, which others see. */
  readonly reason: string;
  /** The longest wait, up to 5 minutes; absent: only a free lock. */
  readonly wait?: Duration | undefined;
}

/** A late copy of the call acquires nothing after the release, because its attempt is then over. */
export async function holdDurably(calls: Calls, lock: string, options: DurableHoldOptions): Promise<number> {
  const { owner, reason } = options;
  const wait = toMillisIfSet(options.wait, "wait") ?? 0;
  const hold = async (after: bigint) => {
    const query = { hold: "durable", owner, reason, attempt: numberAfter(after), ...waitQuery(wait) };
    const call = { method: "PUT", target: target(namedPath("locks", lock), query), copies: "harmless", wait } as const;
    return (await calls.json<{ token: number }>(call, { token: "integer" })).token;
  };
  try {
    return await hold(0n);
  } catch (error) {
    const newest = newestAttempt(error);
    if (newest === undefined) throw error;
    // Another program of the owner has a clock that is ahead.
    return await hold(newest);
  }
}

export async function releaseDurable(calls: Calls, lock: string, owner: string, token: number): Promise<void> {
  await calls.confirm({ method: "DELETE", target: target(namedPath("locks", lock), { hold: "durable", owner, token }), copies: "harmless" });
}
