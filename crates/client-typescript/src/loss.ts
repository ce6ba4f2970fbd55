/** Why a held lock was lost. Pure. */

/** The causes of a loss; the same words in every client of holdfast. */
export type LossCause =
  | "not-renewed"
  | "session-ended"
  | "released-elsewhere"
  | "force-released"
  | "revoked"
  | "transferred"
  | "stalled"
  | "max-hold-exceeded";

export interface Loss {
  readonly cause: LossCause;
  /** The reason of an operator or of a release request, or the error of the last renewal. */
  readonly reason?: string | undefined;
}

const TEXTS: Readonly<Record<LossCause, string>> = {
  "not-renewed": "no renewal was acknowledged before the deadline",
  "session-ended": "the session has ended",
  "released-elsewhere": "the session no longer holds the lock",
  "force-released": "an operator force-released the lock",
  revoked: "the lock was not released by the deadline of a release request",
  transferred: "the lock was transferred to another session",
  stalled: "no progress was reported in time, so the lock was released",
  "max-hold-exceeded": "the lock was held for its max_hold, and was released",
};

export function lossText(loss: Loss): string {
  return TEXTS[loss.cause] + (loss.reason === undefined ? "" : ` (${loss.reason})`);
}

/** Whether the client ended the hold while the cluster would keep it, so that the client must release it. */
export function isEndedByClient(cause: LossCause): boolean {
  return cause === "stalled" || cause === "max-hold-exceeded" || cause === "revoked";
}

/** Returns the cause for a `lost` event of the cluster. */
export function causeOfEvent(cause: string | undefined, hasMaxHold: boolean): LossCause {
  switch (cause) {
    case "force-released":
    case "revoked":
      return cause;
    case "handed-over":
      return "transferred";
    case "session-closed":
    case "session-expired":
      return "session-ended";
    case "max-hold":
      return hasMaxHold ? "max-hold-exceeded" : "released-elsewhere";
    default:
      return "released-elsewhere";
  }
}
