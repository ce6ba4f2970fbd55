/** A call of the HTTP API, its time limits and its result. Pure. */
import type { HttpAnswer } from "./answer.js";
import type { HoldfastError } from "./errors.js";

/**
 * The effect of a second copy of a call at another node.
 *
 * - `harmless`: none, however late the copy arrives: a read, or a call that names an attempt, a token, an incarnation or
 *   a request number. Two nodes may have the call at the same time.
 * - `repeatable`: a repeated call changes nothing, but a late copy may undo the change of another caller. Another node
 *   gets the call only after a lost answer.
 * - `never`: a second copy has another effect, so the call is not repeated after a lost answer.
 */
export type Copies = "harmless" | "repeatable" | "never";

export interface Call {
  readonly method: "GET" | "PUT" | "POST" | "DELETE";
  /** Path and query. */
  readonly target: string;
  readonly copies: Copies;
  /** The time that the node should wait. */
  readonly wait?: number | undefined;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly body?: Buffer | undefined;
}

/**
 * The nodes that get the requests of a call, and when.
 *
 * - `copied`: the answer is due at once and copies are harmless, so the next node gets a copy if this one is late.
 * - `alone`: one node has the call as long as it answers pings.
 * - `elsewhere`: as `alone`, first at a node where no call of this client waits.
 * - `parked`: one node holds the call, a keepalive, without pings and at a node where no call of this client waits.
 */
export type Route = "copied" | "alone" | "elsewhere" | "parked";

/** The time limits of a call, on the monotonic clock. */
export interface Budget {
  /** The maximum time of one request. */
  readonly perNode: number;
  /** No request starts after this moment. */
  readonly startUntil: number;
  /** No request lasts beyond this moment. */
  readonly until: number;
}

/** The result of a call. */
export interface Delivery {
  /** The answer, or the error. */
  readonly result: { readonly answer: HttpAnswer; readonly sent: number } | { readonly error: HoldfastError };
  /** Whether a request without an answer may still take effect later. */
  readonly inDoubt: boolean;
}

export function get(target: string): Call {
  return { method: "GET", target, copies: "harmless" };
}
