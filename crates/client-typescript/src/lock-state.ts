/** Calls about a lock that need no guard. */
import { lockBody } from "./bodies.js";
import { get, type Copies } from "./call.js";
import type { Calls } from "./calls.js";
import { apiDuration, toMillisIfSet, type Duration } from "./duration.js";
import { toHolder, type Holder } from "./errors.js";
import { namedPath, target } from "./target.js";

export interface LockState {
  readonly lock: string;
  /** Empty for a free lock. A node lists only the first of many holders. */
  readonly holders: readonly Holder[];
  readonly holdersTotal: number;
  readonly waiters: number;
  readonly revision: number;
}

export interface ReleaseRequestOptions {
  readonly reason?: string | undefined;
  /** The time that the holders have; by default 30 s. */
  readonly deadline?: Duration | undefined;
  /** Whether the cluster ends the hold at the deadline. */
  readonly revoke?: boolean | undefined;
  /** Only the hold of this token. */
  readonly token?: number | undefined;
}

export async function lockState(calls: Calls, lock: string): Promise<LockState> {
  const body = lockBody(await calls.answer(get(namedPath("locks", lock))));
  const { holders, holders_total, waiters, revision } = body;
  return { lock: body.lock, holders: holders.map(toHolder), holdersTotal: holders_total, waiters, revision };
}

export async function forceRelease(calls: Calls, lock: string, reason: string, token: number | undefined): Promise<number> {
  const path = target(namedPath("force-releases", lock), { reason, token });
  return (await calls.json<{ ended: number }>({ method: "POST", target: path, copies: copiesOf(token) }, { ended: "integer" })).ended;
}

export async function requestRelease(calls: Calls, lock: string, options: ReleaseRequestOptions): Promise<number> {
  const { reason, revoke, token } = options;
  const deadline = toMillisIfSet(options.deadline, "deadline");
  const query = { reason, deadline: deadline === undefined ? undefined : apiDuration(deadline), revoke: revoke === true ? true : undefined, token };
  const path = target(namedPath("release-requests", lock), query);
  return (await calls.json<{ asked: number }>({ method: "POST", target: path, copies: copiesOf(token) }, { asked: "integer" })).asked;
}

/** Without a token, a repeated call would affect a holder that came after the first one. */
function copiesOf(token: number | undefined): Copies {
  return token === undefined ? "never" : "harmless";
}
