/** A request to the holder of a lock to release it. Pure. */
import { deadlineOf } from "./lease.js";

export interface ReleaseRequest {
  /** The requester's reason. */
  readonly reason: string | undefined;
  /** The time that was left when the request arrived, in milliseconds. */
  readonly wantedInMs: number;
  /** Whether the cluster revokes the hold at the deadline. The guard is lost shortly before. */
  readonly revoke: boolean;
}

/** Returns the moment until which the cluster certainly does not revoke. It did not count from before `countedFrom`. */
export function revokedAt(request: ReleaseRequest, countedFrom: number): number {
  return deadlineOf({ countedFrom, held: request.wantedInMs });
}

export function isSameRequest(a: ReleaseRequest | undefined, b: ReleaseRequest): boolean {
  return a !== undefined && a.reason === b.reason && a.revoke === b.revoke;
}
