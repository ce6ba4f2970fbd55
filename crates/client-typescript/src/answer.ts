/** The answer of a node, and what an unsuccessful one means for its call. Pure. */
import type { ErrorCode } from "./codes.js";
import { BusyError, HoldfastError, LostError, RejectedError, UnexpectedResponseError, type Problem, type Rejection } from "./errors.js";

export interface HttpAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: Buffer;
}

/** The outcome of a request at one node. */
export type Outcome =
  | { readonly kind: "success"; readonly answer: HttpAnswer }
  /** Another node would return the same. */
  | { readonly kind: "rejected"; readonly error: HoldfastError }
  /** The node certainly did not execute the request. */
  | { readonly kind: "not-done"; readonly reason: string; readonly retryAfter?: RetryAfter }
  /** The node did not accept the access token, whose file may have another one later. */
  | { readonly kind: "old-token"; readonly error: HoldfastError }
  /** Another server answered in the place of a node. It may have passed the request on to one. */
  | { readonly kind: "foreign"; readonly reason: string }
  | { readonly kind: "may-be-done"; readonly reason: string; readonly retryAfter?: RetryAfter };

/** The time in which the call must not be repeated, from the header `Retry-After`. */
export interface RetryAfter {
  readonly millis: number;
  /** Whether the limit is one of the caller, so no node must get the call. Otherwise it is this node only. */
  readonly isOfCaller: boolean;
}

/** Limits the header: a proxy must not delay a release for hours. Nodes send at most 5 s. */
const RETRY_AFTER_MAX = 60_000;
/** The beginning of the fact `bound` for a quota of the caller, which another node would count for the same call. */
const CALLS_PER_SECOND = "calls_per_second";

const UNKNOWN: readonly string[] = ["outcome-unknown", "internal"] satisfies readonly ErrorCode[];
const UNAUTHENTICATED: readonly string[] = ["token-expired", "unauthenticated"] satisfies readonly ErrorCode[];
const BUSY: readonly string[] = ["lock-busy", "lock-in-cooldown", "wait-timeout", "not-yet"] satisfies readonly ErrorCode[];

/** Classifies an answer. `base` is the address of the node. */
export function classify(base: string, answer: HttpAnswer): Outcome {
  if (answer.status >= 200 && answer.status < 300) {
    return isOfNode(answer) ? { kind: "success", answer } : { kind: "foreign", reason: `${base} answered ${answer.status} without the fields of a node` };
  }
  const rejection = rejectionOf(answer);
  const retryAfter = retryAfterOf(answer, rejection?.problem);
  if (rejection === undefined) {
    const reason = `${base} answered ${answer.status} without a problem document`;
    if (answer.status >= 500) return { kind: "may-be-done", reason, retryAfter };
    return namesNode(answer) ? { kind: "rejected", error: new UnexpectedResponseError(reason) } : { kind: "foreign", reason };
  }
  const { code, title, retryable } = rejection.problem;
  const reason = `${base}: ${code}: ${title}`;
  if (BUSY.includes(code)) return { kind: "rejected", error: new BusyError(rejection) };
  if (code === ("session-expired" satisfies ErrorCode)) return { kind: "rejected", error: new LostError({ cause: "session-ended" }) };
  // Nodes reject calls with 4xx. A document with 5xx that is not retryable is `internal`, or from another server.
  if (UNKNOWN.includes(code) || (answer.status >= 500 && !retryable)) return { kind: "may-be-done", reason, retryAfter };
  if (retryable) return { kind: "not-done", reason, retryAfter };
  return { kind: "rejected", error: new RejectedError(rejection) };
}

/**
 * Whether a successful answer is from a node, which answers with its id, with fields, with events or with 204. Another
 * server, e.g. a proxy, may answer with a page or with `{}`.
 */
function isOfNode(answer: HttpAnswer): boolean {
  const hasEvents = header(answer, "content-type")?.startsWith("text/event-stream");
  if (namesNode(answer) || hasEvents || answer.status === 204) return true;
  const body = parsed(answer.body.toString("utf8"));
  return typeof body === "object" && body !== null && !Array.isArray(body) && Object.keys(body).length > 0;
}

export function namesNode(answer: HttpAnswer): boolean {
  return header(answer, "holdfast-node") !== undefined;
}

function retryAfterOf(answer: HttpAnswer, problem: Problem | undefined): RetryAfter {
  const isRefusal = answer.status === 429 || answer.status === 503;
  const seconds = isRefusal ? (numberHeader(answer, "retry-after") ?? 0) : 0;
  const isOfCaller = String(problem?.bound).startsWith(CALLS_PER_SECOND);
  return { millis: Math.min(seconds * 1_000, RETRY_AFTER_MAX), isOfCaller };
}

/** Records in `notBefore` when the node, or each node, may get the call again. */
export function refuse(notBefore: number[], node: number, { millis, isOfCaller }: RetryAfter, now: number): void {
  notBefore.forEach((known, other) => {
    if (isOfCaller || other === node) notBefore[other] = Math.max(known, now + millis);
  });
}

/** The types of the fields that a body must have. */
export type Fields<T> = { readonly [name in keyof T]?: "integer" | "string" | "boolean" | "array" };

/** Parses the body as a JSON object with these fields: another server may answer with a page, or with `{}`. */
export function json<T extends object>(answer: HttpAnswer, fields: Fields<T>): T {
  return withFields(parsed(answer.body.toString("utf8")), fields);
}

export function withFields<T extends object>(body: unknown, fields: Fields<T>): T {
  if (typeof body !== "object" || body === null || Array.isArray(body)) throw new UnexpectedResponseError("a body that is no JSON object");
  for (const [name, type] of Object.entries(fields)) {
    const value: unknown = (body as Record<string, unknown>)[name];
    const found = Number.isSafeInteger(value) ? "integer" : Array.isArray(value) ? "array" : typeof value;
    if (found !== type) throw new UnexpectedResponseError(`no ${name} in the body`);
  }
  return body as T;
}

/** Throws unless a node confirms an end: with 204, or with `left` for a double barrier. */
export function checkEnd(answer: HttpAnswer): void {
  if (answer.status !== 204) json<{ left: boolean }>(answer, { left: "boolean" });
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

export function header(answer: HttpAnswer, name: string): string | undefined {
  const value = answer.headers[name];
  return Array.isArray(value) ? value[0] : value;
}

/** Returns the number in a header; undefined for `none`. */
export function numberHeader(answer: HttpAnswer, name: string): number | undefined {
  const text = header(answer, name);
  return text !== undefined && /^\d+$/.test(text) ? Number(text) : undefined;
}

/** Reads a whole number that may exceed 2^53 from JSON text. Quotes within JSON strings are escaped, so none matches. */
export function bigField(text: string, name: string): bigint | undefined {
  const found = new RegExp(`"${name}":(-?\\d+)`).exec(text)?.[1];
  return found === undefined ? undefined : BigInt(found);
}

export function isUnauthenticated(error: unknown): boolean {
  return error instanceof RejectedError && UNAUTHENTICATED.includes(error.problem.code);
}

function rejectionOf(answer: HttpAnswer): Rejection | undefined {
  const text = answer.body.toString("utf8");
  const problem = parsed(text) as Problem | null | undefined;
  if (typeof problem?.code !== "string" || typeof problem.title !== "string") return undefined;
  return {
    problem,
    requestId: header(answer, "holdfast-request-id"),
    newestAttempt: bigField(text, "newest_attempt"),
    newestRequest: bigField(text, "newest_request"),
  };
}
