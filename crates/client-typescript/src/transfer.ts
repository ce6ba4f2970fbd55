/**
 * Transfers of a hold from one session to another: the sender's side and the receiver's side.
 *
 * The sender ends its hold first: from then on, each check of the guard reports the loss. The cluster may give the lock
 * to the receiver at any time after that. If the cluster certainly rejects the call, the hold continues.
 */
import { adopt } from "./acquire.js";
import { json, type HttpAnswer } from "./answer.js";
import { lockBody, sessionBody, type LockBody } from "./bodies.js";
import { get, type Delivery } from "./call.js";
import { WAIT_MAX } from "./calls.js";
import { monotonic, now } from "./clock.js";
import type { ErrorCode } from "./codes.js";
import {
  BusyError,
  InvalidArgumentError,
  isRejectedWith,
  isUncertain,
  isUnclear,
  LostError,
  OutcomeUnknownError,
  RejectedError,
  retryAt,
  type UnexpectedResponseError,
  type HoldfastError,
} from "./errors.js";
import type { HeldLock } from "./held-lock.js";
import { receiveRequest, type LockOptions } from "./lock-options.js";
import type { Session } from "./session.js";
import type { Sessions } from "./sessions.js";
import { sleep } from "./sleep.js";
import { checkedName, namedPath, sessionPath, target, waitQuery } from "./target.js";

/** The options of a receiver: the owner that the sender names, by default the session itself, and those of its hold. */
export type ReceiveOptions = Pick<LockOptions, "owner" | "progressTimeout" | "signal" | "ttl" | "wait">;

/** Returns the token of the receiver. */
export async function transfer(held: HeldLock, to: string, owner: string | undefined): Promise<number> {
  checkedName(to);
  held.ensure();
  const { session, entry } = held;
  if (entry.stage !== "held") throw new InvalidArgumentError("a change of the mode is in progress");
  if ([...session.entries].some((other) => other !== entry && other.covers(entry.lock) && other.owner === entry.owner)) {
    throw new InvalidArgumentError("the lock was entered again: release the other guards first");
  }
  entry.stage = "leaving";
  entry.isTransferred = true;
  const query = { session: session.name, owner: entry.owner, token: held.grant.token, to, to_owner: owner };
  const call = { method: "POST", target: target(namedPath("transfers", entry.lock), query), copies: "repeatable" } as const;
  const delivery = await session.calls.deliver(call);
  const result = "answer" in delivery.result ? tokenIn(delivery.result.answer) : delivery.result.error;
  if (typeof result === "number") {
    session.entries.delete(entry);
    held.left();
    return result;
  }
  if (await isKept(session, delivery, result)) {
    entry.isTransferred = false;
    entry.enterHold(held.grant.token, now());
    session.check();
    if (result instanceof LostError) throw new InvalidArgumentError(`the session ${to} is not open: the receiver opens it first`);
    throw result;
  }
  session.releaseInBackground([entry]);
  held.left();
  throw reason(delivery, result, held);
}

/** The token of the receiver. Another server may answer without one. */
function tokenIn(answer: HttpAnswer): number | UnexpectedResponseError {
  try {
    return json<{ token: number }>(answer, { token: "integer" }).token;
  } catch (error) {
    return error as UnexpectedResponseError;
  }
}

/** Whether the cluster certainly rejected the transfer, and the hold continues. */
async function isKept(session: Session, { inDoubt }: Delivery, error: HoldfastError): Promise<boolean> {
  if (inDoubt || isUnclear(error)) return false;
  if (!(error instanceof LostError)) return !isRejectedWith(error, "not-holder");
  // One of the two sessions has ended; a renewal shows whether it is this one.
  const renewal = { method: "POST", target: `${sessionPath(session.name)}/keepalive`, copies: "harmless" } as const;
  const calls = session.calls.withTimeout(Math.max(session.lease.deadline - now(), 0));
  return await calls.answer(renewal).then(sessionBody).then(() => true, () => false);
}

function reason({ inDoubt }: Delivery, error: HoldfastError, { lock, grant }: HeldLock): HoldfastError {
  // An earlier copy of the call may have succeeded, and the receiver's session may have ended since.
  if (inDoubt) return error instanceof RejectedError || error instanceof LostError ? new OutcomeUnknownError(error.message) : error;
  if (error instanceof LostError) return new LostError({ cause: error.lossCause }, lock, grant.token);
  return isRejectedWith(error, "not-holder") ? new LostError({ cause: "released-elsewhere" }, lock, grant.token) : error;
}

/** Waits for a hold that another session transfers to the session of this client. Never acquires the lock. */
export async function receive(sessions: Sessions, lock: string, options: ReceiveOptions): Promise<HeldLock> {
  const request = receiveRequest(lock, options);
  const until = request.wait === undefined ? Number.POSITIVE_INFINITY : monotonic() + request.wait;
  const session = await sessions.live(request.ttl, request.signal);
  const unuse = session.use();
  try {
    for (;;) {
      request.signal?.throwIfAborted();
      const body = lockBody(await session.wait((stop) => session.calls.answer(get(namedPath("locks", lock)), stop), request.signal));
      const token = tokenOf(body, session, request.owner);
      if (token !== undefined) {
        if ([...session.entries].some((entry) => entry.covers(lock) && entry.owner === request.owner)) {
          throw new InvalidArgumentError(`this program has a guard of ${lock} already`);
        }
        const [held] = await adopt(session, request, token).catch((error: unknown) => {
          if (error instanceof BusyError || isRejectedWith(error, "not-holder", "attempt-over")) return [];
          throw error;
        });
        if (held !== undefined) return held;
        // The hold has ended since the read, so the wait returns at once.
      }
      const wait = Math.trunc(Math.min(until - monotonic(), WAIT_MAX));
      if (wait <= 0) throw notTransferred(lock);
      await lockChange(session, lock, body.revision, wait, request.signal);
    }
  } finally {
    unuse();
  }
}

function tokenOf(body: LockBody, session: Session, owner: string | undefined): number | undefined {
  return body.holders.find((holder) => holder.session === session.name && holder.owner === owner)?.token;
}

/** Waits for a change of the lock after a revision. */
async function lockChange(session: Session, lock: string, since: number, wait: number, signal: AbortSignal | undefined): Promise<void> {
  const call = { ...get(target("/v1/watch", { path: `/locks/${lock}`, since, ...waitQuery(wait) })), wait };
  try {
    await session.wait((stop) => session.calls.json<{ revision: number }>(call, { revision: "integer" }, stop), signal);
  } catch (error) {
    // Without the changes since this revision, the caller reads the lock again.
    if (!isUncertain(error) && !isRejectedWith(error, "revision-compacted")) throw error;
    await session.wait((stop) => sleep(Math.min(retryAt(error) - monotonic(), wait), stop), signal);
  }
}

function notTransferred(lock: string): BusyError {
  const code = "not-yet" satisfies ErrorCode;
  return new BusyError({ problem: { title: "no transfer of the lock has arrived", status: 423, code, retryable: true, lock } });
}
