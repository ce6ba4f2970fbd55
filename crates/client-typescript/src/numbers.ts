/**
 * Numbers and names that no earlier call has.
 *
 * A number must exceed those of all earlier attempts of its session, also of other processes. Microseconds since 1970
 * do, unless clocks disagree; the cluster then returns the newest number.
 */
import { randomBytes } from "node:crypto";

/** Returns the number that follows: larger than `after` and `newest`, at least the microseconds of `sinceEpochMs`. */
export function nextNumber(newest: bigint, after: bigint, sinceEpochMs: number): bigint {
  const candidates = [BigInt(Math.trunc(sinceEpochMs)) * 1_000n, after + 1n, newest + 1n];
  return candidates.reduce((a, b) => (a > b ? a : b));
}

let newest = 0n;

/** Returns a number larger than `after` and than every number that this thread returned before. */
export function numberAfter(after: bigint): bigint {
  newest = nextNumber(newest, after, Date.now());
  return newest;
}

/** Returns 64 random bits as 16 hexadecimal digits. */
export function randomName(): string {
  return randomBytes(8).toString("hex");
}
