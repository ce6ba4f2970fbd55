/** The calls of durable holds, which have no session, no renewal and no end of their time. */
import { json } from "./answer.js";
import type { Calls } from "./calls.js";
import { monotonic } from "./clock.js";
import type { ErrorCode } from "./codes.js";
import { toMillisIfSet, type Duration } from "./duration.js";
import { BusyError, newestAttempt } from "./errors.js";
import { numberAfter } from "./numbers.js";
import { namedPath, target, waitQuery } from "./target.js";

export interface DurableHoldOptions {
  /** The name of the hold: another call of the owner returns the same token. */
  readonly owner: string;
  /** The reason, which others see. */
  readonly reason: string;
  /** The longest wait; absent: only a free lock. */
  readonly wait?: Duration | undefined;
}

/**
 * Repeats one attempt until its outcome is certain or the wait is over: nothing else ends its queue entry, whose grant needs a
 * caller. A late copy of the call acquires nothing after the release, because its attempt is then over.
 */
export async function holdDurably(calls: Calls, lock: string, options: DurableHoldOptions): Promise<number> {
  const { owner, reason } = options;
  const until = monotonic() + (toMillisIfSet(options.wait, "wait") ?? 0);
  const hold = async (attempt: bigint): Promise<number> => {
    const query = { hold: "durable", owner, reason, attempt };
    const call = (wait: number) =>
      ({ method: "PUT", target: target(namedPath("locks", lock), { ...query, ...waitQuery(wait) }), copies: "harmless" }) as const;
    for (;;) {
      try {
        return json<{ token: number }>(await calls.repeatUntil(until, () => true, call), { token: "integer" }).token;
      } catch (error) {
        // The HTTP API bounds the wait of one call.
        const isBounded = error instanceof BusyError && error.code === ("wait-timeout" satisfies ErrorCode);
        if (!isBounded || monotonic() >= until) throw error;
      }
    }
  };
  try {
    return await hold(numberAfter(0n));
  } catch (error) {
    const newest = newestAttempt(error);
    if (newest === undefined) throw error;
    // Another program of the owner has a clock that is ahead.
    return await hold(numberAfter(newest));
  }
}

export async function releaseDurable(calls: Calls, lock: string, owner: string, token: number): Promise<void> {
  await calls.confirm({ method: "DELETE", target: target(namedPath("locks", lock), { hold: "durable", owner, token }), copies: "harmless" });
}
