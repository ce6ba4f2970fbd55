/**
 * The clock of all deadlines: milliseconds that include the time for which the machine was suspended.
 *
 * Node reaches only a monotonic clock that stands still during a suspension, and the uptime of the machine, which
 * continues but has a resolution of 10 ms on Linux. The clock is the monotonic one plus the suspensions that the uptime
 * shows. It never runs back. All threads of a client share its state.
 */
import { uptime } from "node:os";

/** The uptime at the start less the monotonic clock at the start, and the suspensions since. */
export type ClockState = Float64Array;

/** A difference between the two clocks that is no suspension: it covers the resolution of the uptime. */
const NOISE = 40;
/** Added to a suspension, so that the clock is never behind. */
const RESOLUTION = 10;

export function newClockState(monotonic: number, up: number): ClockState {
  const state = new Float64Array(new SharedArrayBuffer(16));
  state[0] = up - monotonic;
  return state;
}

/** Returns the time, and records a suspension since the last call. Pure but for `state`. */
export function advance(state: ClockState, monotonic: number, up: number): number {
  const suspended = up - monotonic - (state[0] ?? 0);
  if (suspended > (state[1] ?? 0) + NOISE) state[1] = suspended + RESOLUTION;
  return monotonic + (state[1] ?? 0);
}

let shared = newClockState(monotonic(), uptime() * 1_000);

/** Returns the state, for another thread. */
export function sharedClock(): ClockState {
  return shared;
}

/** Continues the clock of another thread. */
export function adoptClock(state: ClockState): void {
  shared = state;
}

/** Returns milliseconds on the clock that all threads of this process share. */
export function now(): number {
  return advance(shared, monotonic(), uptime() * 1_000);
}

/** Returns milliseconds on the monotonic clock, for time limits of calls. */
export function monotonic(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}
