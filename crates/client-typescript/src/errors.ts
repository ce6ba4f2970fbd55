/** Errors of calls, grouped by the caller's next action. */
import type { ErrorCode } from "./codes.js";
import { lossText, type Loss, type LossCause } from "./loss.js";

/** A holder of a lock, as the cluster describes it. */
export interface Holder {
  readonly session: string;
  readonly owner?: string | undefined;
  readonly token: number;
  readonly heldForMs: number;
  readonly labels: Readonly<Record<string, string>>;
}

/** An RFC 9457 problem document of a node. */
export interface Problem {
  readonly title: string;
  readonly status: number;
  readonly code: string;
  readonly retryable: boolean;
  readonly detail?: string;
  readonly hint?: string;
  readonly lock?: string;
  readonly holder?: HolderFields;
  readonly waiters?: number;
  readonly [fact: string]: unknown;
}

/** @internal */
export interface HolderFields {
  readonly session: string;
  readonly owner?: string;
  readonly token: number;
  readonly held_for_ms?: number;
  readonly labels?: Readonly<Record<string, string>>;
}

/** @internal A problem document with its request id, and with the numbers that exceed 2^53. */
export interface Rejection {
  readonly problem: Problem;
  readonly requestId?: string | undefined;
  readonly newestAttempt?: bigint | undefined;
  readonly newestRequest?: bigint | undefined;
}

/** The base of all errors of this client. */
export class HoldfastError extends Error {
  override readonly name: string = "HoldfastError";
  /** The stable code of the problem document, if a node returned one. */
  readonly code: string | undefined;
  /** The advice of the node. It names HTTP parameters. */
  readonly hint: string | undefined;
  /** The id of the call in the log of the node. */
  readonly requestId: string | undefined;
  /** Whether the same call may succeed later. */
  readonly retryable: boolean;

  constructor(message: string, retryable: boolean, rejection?: Rejection, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.code = rejection?.problem.code;
    this.hint = rejection?.problem.hint;
    this.requestId = rejection?.requestId;
    this.retryable = retryable;
  }
}

/** Another client holds the lock, or the awaited event has not happened. Wait longer, or try again later. */
export class BusyError extends HoldfastError {
  override readonly name = "BusyError";
  readonly holder: Holder | undefined;
  readonly waiters: number | undefined;

  constructor(rejection: Rejection) {
    super(busyText(rejection.problem), true, rejection);
    const { holder, waiters } = rejection.problem;
    this.holder = holder && toHolder(holder);
    this.waiters = waiters;
  }
}

/** Another client may hold the lock. Stop the work under it. */
export class LostError extends HoldfastError {
  override readonly name = "LostError";
  readonly lossCause: LossCause;
  /** The reason of an operator or of a release request, or the error of the last renewal. */
  readonly reason: string | undefined;
  readonly lock: string | undefined;
  readonly token: number | undefined;

  constructor(loss: Loss, lock?: string, token?: number, cause?: unknown) {
    super(lock === undefined ? lossText(loss) : `lock "${lock}" is lost: ${lossText(loss)}`, false, undefined, cause);
    this.lossCause = loss.cause;
    this.reason = loss.reason;
    this.lock = lock;
    this.token = token;
  }
}

/** No node executed the call within the request timeout. The same call is safe later. */
export class UnavailableError extends HoldfastError {
  override readonly name = "UnavailableError";

  /** `retryAt` is the moment on the monotonic clock from which on the nodes accept the call again. */
  constructor(
    reason: string,
    /** @internal */
    readonly retryAt = 0,
  ) {
    super(`no node answered the call in time: ${reason}`, true);
  }
}

/** The call may have taken effect. Read the state before you repeat it. The client gives up an acquire by itself. */
export class OutcomeUnknownError extends HoldfastError {
  override readonly name = "OutcomeUnknownError";

  /** `retryAt` is the moment on the monotonic clock from which on the nodes accept the call again. */
  constructor(
    readonly reason: string,
    /** @internal */
    readonly retryAt = 0,
  ) {
    super(`the outcome of the call is unknown: ${reason}`, true);
  }
}

/** The cluster rejected the call. Change it. */
export class RejectedError extends HoldfastError {
  override readonly name = "RejectedError";
  readonly detail: string | undefined;
  readonly problem: Problem;
  /** @internal */
  readonly rejection: Rejection;

  constructor(rejection: Rejection) {
    super(rejectionText(rejection.problem), rejection.problem.retryable, rejection);
    this.detail = rejection.problem.detail;
    this.problem = rejection.problem;
    this.rejection = rejection;
  }
}

/** The answer is not from a holdfast node. Check the addresses. */
export class UnexpectedResponseError extends HoldfastError {
  override readonly name = "UnexpectedResponseError";

  constructor(reason: string) {
    super(`the answer is not from a holdfast node, check the address: ${reason}`, false);
  }
}

/** A name, a duration or another argument is invalid; nothing was sent. Change it. */
export class InvalidArgumentError extends HoldfastError {
  override readonly name = "InvalidArgumentError";

  constructor(message: string) {
    super(message, false);
  }
}

/** @internal Whether the call may have to be repeated. */
export function isUncertain(error: unknown): error is UnavailableError | OutcomeUnknownError {
  return error instanceof UnavailableError || error instanceof OutcomeUnknownError;
}

/** @internal Whether the outcome of the call is uncertain, or another server has answered it. */
export function isUnclear(error: unknown): boolean {
  return isUncertain(error) || error instanceof UnexpectedResponseError;
}

/** @internal When the call that failed may be sent again, on the monotonic clock: nodes may have sent `Retry-After`. */
export function retryAt(error: unknown): number {
  return isUncertain(error) ? error.retryAt : 0;
}

/** @internal Whether the cluster rejected the call with this code. */
export function isRejectedWith(error: unknown, ...codes: readonly ErrorCode[]): error is RejectedError {
  return error instanceof RejectedError && codes.some((code) => code === error.problem.code);
}

/** @internal The newest attempt of the session, if the call was rejected because the attempt of the call is over. */
export function newestAttempt(error: unknown): bigint | undefined {
  return isRejectedWith(error, "attempt-over") ? error.rejection.newestAttempt : undefined;
}

/** @internal The newest request number of the session, if the call was rejected because the number of the call is over. */
export function newestRequest(error: unknown): bigint | undefined {
  return isRejectedWith(error, "request-over") ? error.rejection.newestRequest : undefined;
}

/** @internal */
export function toHolder(holder: HolderFields): Holder {
  const { session, owner, token, held_for_ms, labels } = holder;
  return { session, owner, token, heldForMs: held_for_ms ?? 0, labels: labels ?? {} };
}

/** Names the lock, its holder and its queue, or the event that has not happened. */
function busyText(problem: Problem): string {
  const { lock, holder, waiters } = problem;
  if (lock === undefined || holder === undefined) return rejectionText(problem);
  const seconds = ((holder.held_for_ms ?? 0) / 1_000).toFixed(1);
  const queue = waiters ? `, ${waiters} ${waiters === 1 ? "waiter" : "waiters"}` : "";
  return `lock "${lock}" is held by session "${holder.session}" for ${seconds}s${queue}`;
}

function rejectionText({ title, detail, lock }: Problem): string {
  const cause = detail === undefined || detail === "" ? title : `${title}: ${detail}`;
  return lock === undefined || cause.includes(lock) ? cause : `lock "${lock}": ${cause}`;
}
