/** The bodies of the HTTP API that this client reads: only the fields that it uses. */
import { json, withFields, type Fields, type HttpAnswer } from "./answer.js";
import type { HolderFields } from "./errors.js";

export interface HoldBody {
  readonly lock: string;
  readonly token: number;
  readonly ticket?: number;
}

export interface SessionBody {
  readonly session: string;
  readonly incarnation: number;
  readonly ttl_ms: number;
  readonly expires_in_ms?: number;
  readonly holds: readonly HoldBody[];
  readonly revision?: number;
}

export interface EventBody {
  readonly kind: "granted" | "lost" | "release-requested";
  readonly lock: string;
  readonly ticket?: number;
  readonly token: number;
  readonly cause?: string;
  readonly reason?: string;
  readonly wanted_in_ms?: number;
  readonly revoke?: boolean;
}

/** The answer to a keepalive; the fields of events only if the call was parked. */
export interface KeepaliveBody extends SessionBody {
  readonly waited_ms?: number;
  readonly events?: readonly EventBody[];
  readonly gap?: { readonly until: number };
}

export interface GrantBody {
  readonly lock: string;
  readonly mode: "exclusive" | "shared" | "upgradable";
  readonly token: number;
  /** Stays the same while the hold continues: an upgrade replaces only the token. */
  readonly ticket?: number;
  readonly min_valid_token: number;
  readonly session: string;
  readonly expires_in_ms?: number;
  readonly waited_ms: number;
  readonly permits?: number;
  readonly slots?: readonly number[];
  readonly shard?: number;
  readonly ends_in_ms?: number;
}

export interface ReleaseRequestBody {
  readonly reason?: string;
  readonly wanted_in_ms: number;
  readonly revoke?: boolean;
}

export interface LockHolderBody extends HolderFields {
  readonly mode: "exclusive" | "shared" | "upgradable";
  readonly permits?: number;
  readonly release_request?: ReleaseRequestBody;
}

export interface LockBody {
  readonly lock: string;
  readonly mode: string;
  readonly held: boolean;
  readonly holders: readonly LockHolderBody[];
  readonly holders_total: number;
  readonly waiters: number;
  readonly queue: readonly { readonly session: string; readonly owner?: string }[];
  readonly revision: number;
}

export interface LeaderBody {
  readonly session: string;
  readonly owner?: string;
  readonly token: number;
  readonly value?: string;
}

/** Reads the body of a session. Another JSON document is no answer of a node. */
export function sessionBody<T extends SessionBody>(answer: HttpAnswer): T {
  return json<SessionBody>(answer, { incarnation: "integer", holds: "array" }) as T;
}

/** Reads the state of a lock. */
export function lockBody(answer: HttpAnswer): LockBody {
  return json<LockBody>(answer, { holders: "array" });
}

const GRANT: Fields<GrantBody> = { lock: "string", token: "integer", waited_ms: "integer" };

/** Reads a grant. A hold without a token would not be a hold. */
export function grantBody(answer: HttpAnswer): GrantBody {
  return json(answer, GRANT);
}

/** Reads the grants of a multi-lock. */
export function grantBodies(answer: HttpAnswer): readonly GrantBody[] {
  return json<{ grants: readonly unknown[] }>(answer, { grants: "array" }).grants.map((grant) => withFields(grant, GRANT));
}
