/** The bodies of the HTTP API that this client reads: only the fields that it uses. */
import { json, type HttpAnswer } from "./answer.js";
import { UnexpectedResponseError, type HolderFields } from "./errors.js";

export interface HoldBody {
  readonly lock: string;
  readonly token: number;
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
  const body = json<T>(answer);
  if (!Number.isSafeInteger(body.incarnation) || !Array.isArray(body.holds)) throw new UnexpectedResponseError("no session in the body");
  return body;
}

/** Reads the state of a lock. */
export function lockBody(answer: HttpAnswer): LockBody {
  const body = json<LockBody>(answer);
  if (!Array.isArray(body.holders)) throw new UnexpectedResponseError("no lock in the body");
  return body;
}

/** Reads a grant. A hold without a token would not be a hold. */
export function grantBody(answer: HttpAnswer): GrantBody {
  return checkedGrant(json<GrantBody>(answer));
}

/** Reads the grants of a multi-lock. */
export function grantBodies(answer: HttpAnswer): readonly GrantBody[] {
  const grants = json<{ grants?: readonly GrantBody[] }>(answer).grants;
  if (!Array.isArray(grants)) throw new UnexpectedResponseError("no grants in the body");
  return grants.map(checkedGrant);
}

function checkedGrant(grant: GrantBody): GrantBody {
  const isGrant = Number.isSafeInteger(grant.token) && Number.isSafeInteger(grant.waited_ms) && typeof grant.lock === "string";
  if (!isGrant) throw new UnexpectedResponseError("no grant in the body");
  return grant;
}
