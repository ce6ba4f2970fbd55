/**
 * The measurements of a client for OpenTelemetry.
 *
 * No metric has the name of a lock as an attribute, because a program can have any number of locks.
 */
import type { Metrics } from "./metrics.js";

/** An attribute of a measurement. */
type Attributes = Record<string, string | boolean>;

/** The part of OpenTelemetry's `Meter` that the adapter uses. */
export interface OpenTelemetryMeter {
  createCounter(name: string, options: { description: string }): { add(value: number, attributes?: Attributes): void };
  createHistogram(name: string, options: { description: string; unit: string }): { record(value: number, attributes?: Attributes): void };
}

/** Returns the `metrics` of a client: `new Client({ metrics: openTelemetryMetrics(metrics.getMeter("shop")) })`. */
export function openTelemetryMetrics(meter: OpenTelemetryMeter): Metrics {
  const seconds = (name: string, description: string) => meter.createHistogram(`holdfast.client.${name}`, { description, unit: "s" });
  const counter = (name: string, description: string) => meter.createCounter(`holdfast.client.${name}`, { description });
  const acquire = seconds("acquire", "Time from the call to the grant of a lock");
  const hold = seconds("hold", "Time from the grant of a lock to its release");
  const failures = counter("acquire.failures", "Acquires that ended without a grant");
  const losses = counter("losses", "Held locks that were lost");
  const renewals = counter("renewals", "Renewals of sessions");
  return {
    acquired: (_lock, waitedMs) => acquire.record(waitedMs / 1_000),
    acquireFailed: (_lock, error) => failures.add(1, { error: kindOf(error) }),
    released: (_lock, heldMs) => hold.record(heldMs / 1_000),
    lost: (_lock, cause) => losses.add(1, { cause }),
    renewed: (_session, acknowledged) => renewals.add(1, { acknowledged }),
  };
}

/** Returns e.g. `outcome-unknown` for `OutcomeUnknownError`. */
function kindOf(error: unknown): string {
  const name = error instanceof Error ? error.name : "unknown";
  return name.replace(/Error$/, "").replace(/(?<=.)(?=[A-Z])/g, "-").toLowerCase();
}
