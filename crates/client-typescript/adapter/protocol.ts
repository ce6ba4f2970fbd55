/** The words of the adapter: requests, and the errors of their answers. Pure. */
import {
  BusyError,
  HoldfastError,
  InvalidArgumentError,
  LostError,
  OutcomeUnknownError,
  RejectedError,
  UnavailableError,
  UnexpectedResponseError,
} from "holdfast";

/** A request: the name of an operation, and its fields. */
export interface Request {
  readonly id: number;
  readonly do: string;
  readonly [field: string]: unknown;
}

export class UnsupportedError extends Error {}
export class CancelledError extends Error {}

export const KINDS = [
  [BusyError, "busy"],
  [LostError, "lost"],
  [UnavailableError, "unavailable"],
  [OutcomeUnknownError, "outcome-unknown"],
  [RejectedError, "rejected"],
  [UnexpectedResponseError, "unexpected-response"],
  [InvalidArgumentError, "invalid-argument"],
  [CancelledError, "cancelled"],
  [UnsupportedError, "unsupported"],
] as const;

/** Returns the error of an answer. A wrong request is an invalid argument. */
export function errorBody(error: unknown): Record<string, unknown> {
  const kind = KINDS.find(([type]) => error instanceof type)?.[1] ?? "invalid-argument";
  const message = error instanceof Error ? error.message : String(error);
  if (!(error instanceof HoldfastError)) return { kind, message };
  const { code, hint, requestId, retryable } = error;
  const cause = error instanceof LostError ? error.lossCause : undefined;
  return { kind, code, hint, request_id: requestId, retryable, message, cause };
}

/** Reads the fields of a request. */
export class Fields {
  constructor(readonly request: Request) {}

  text(name: string): string {
    const value = this.optionalText(name);
    if (value === undefined) throw new InvalidArgumentError(`${this.request.do} needs ${name}`);
    return value;
  }

  optionalText(name: string): string | undefined {
    return this.#field(name, "string") as string | undefined;
  }

  number(name: string): number {
    const value = this.optionalNumber(name);
    if (value === undefined) throw new InvalidArgumentError(`${this.request.do} needs ${name}`);
    return value;
  }

  optionalNumber(name: string): number | undefined {
    return this.#field(name, "number") as number | undefined;
  }

  optionalFlag(name: string): boolean | undefined {
    return this.#field(name, "boolean") as boolean | undefined;
  }

  texts(name: string): string[] {
    const value = this.request[name];
    if (!Array.isArray(value) || !value.every((one) => typeof one === "string")) {
      throw new InvalidArgumentError(`${this.request.do} needs the list ${name}`);
    }
    return value as string[];
  }

  labels(): Record<string, string> | undefined {
    return this.request["labels"] as Record<string, string> | undefined;
  }

  #field(name: string, type: string): unknown {
    const value = this.request[name] ?? undefined;
    if (value !== undefined && typeof value !== type) throw new InvalidArgumentError(`${name} is no ${type}`);
    return value;
  }
}

const CLIENT = ["addresses", "ttl_ms", "session", "session_prefix", "labels", "request_timeout_ms", "ca", "certificate", "key", "access_token", "access_token_file"];
const ACQUIRE = ["mode", "permits", "limit", "priority", "owner", "reentrant", "queue_max", "max_hold_ms", "min_hold_ms", "value", "progress_timeout_ms", "ttl_ms", "shards", "shard"];

/** The fields of every operation that has more than names. */
const OPTIONS: Readonly<Record<string, readonly string[]>> = { client: ["name", ...CLIENT], acquire: ["client", "lock", "guard", "wait_ms", ...ACQUIRE] };

/** Refuses an option that the operation does not have. */
export function checkFields(request: Request): void {
  const known = OPTIONS[request.do];
  const unknown = known && Object.keys(request).find((field) => !["id", "do", ...known].includes(field));
  if (unknown !== undefined) throw new InvalidArgumentError(`${request.do} has no option ${unknown}`);
}
