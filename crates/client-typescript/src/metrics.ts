/** What a client reports to the program: counts, and lines for debugging. A token is in neither. */
import { debuglog } from "node:util";
import type { LossCause } from "./loss.js";

/**
 * Receives the events that a program counts, once for each lock of an acquire. Every method is optional. The client only
 * logs an error in one.
 */
export interface Metrics {
  /** A lock was granted after this wait. */
  acquired?(lock: string, waitedMs: number): void;
  /** An acquire failed. */
  acquireFailed?(lock: string, error: unknown): void;
  /** The cluster has confirmed that a guard released its lock. */
  released?(lock: string, heldMs: number): void;
  /** A held lock was lost. */
  lost?(lock: string, cause: LossCause): void;
  /** A renewal of a session was acknowledged, or failed. */
  renewed?(session: string, acknowledged: boolean): void;
}

/** Writes to stderr if the environment variable `NODE_DEBUG` contains `holdfast`. */
export const debug = debuglog("holdfast");

/** Returns the metrics of the program. An error in them must not end the call that they measure, or lose a granted lock. */
export function guarded(metrics: Metrics): Metrics {
  const measure = (report: () => void): void => {
    try {
      report();
    } catch (error) {
      debug("the metrics of the program failed: %s", error);
    }
  };
  return {
    acquired: (lock, waitedMs) => measure(() => metrics.acquired?.(lock, waitedMs)),
    acquireFailed: (lock, error) => measure(() => metrics.acquireFailed?.(lock, error)),
    released: (lock, heldMs) => measure(() => metrics.released?.(lock, heldMs)),
    lost: (lock, cause) => measure(() => metrics.lost?.(lock, cause)),
    renewed: (session, acknowledged) => measure(() => metrics.renewed?.(session, acknowledged)),
  };
}
