/** Durations: milliseconds as a number, or a text with units. Pure. */
import { InvalidArgumentError } from "./errors.js";

/** A number of milliseconds, or a text with units: `"500ms"`, `"30s"`, `"1m30s"`, `"2h"`. */
export type Duration = number | string;

const UNITS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 };

/** The longest delay of a timer of Node. */
const TIMER_MAX = 2 ** 31 - 1;

/** Returns whole milliseconds. `what` names the option in the error. */
export function toMillis(duration: Duration, what: string): number {
  const millis = typeof duration === "number" ? duration : parse(duration);
  if (!Number.isFinite(millis) || millis < 0) {
    throw new InvalidArgumentError(`${what}: ${JSON.stringify(duration)} is no duration: use milliseconds or a text such as "30s"`);
  }
  return Math.trunc(millis);
}

/** As `toMillis`; an absent duration stays absent. */
export function toMillisIfSet(duration: Duration | undefined, what: string): number | undefined {
  return duration === undefined ? undefined : toMillis(duration, what);
}

function parse(text: string): number {
  if (!/^(\d+(ms|s|m|h))+$/.test(text)) return Number.NaN;
  let sum = 0;
  for (const [, count, unit] of text.matchAll(/(\d+)(ms|s|m|h)/g)) sum += Number(count) * (UNITS[unit ?? ""] ?? Number.NaN);
  return sum;
}

/** Returns the text of the HTTP API. */
export function apiDuration(millis: number): string {
  return `${Math.trunc(millis)}ms`;
}

/** Returns the delay for a timer that must not run before `millis` have passed, if a timer can wait so long. */
export function timerDelay(millis: number): number {
  return Math.min(Math.max(Math.ceil(millis), 0), TIMER_MAX);
}
