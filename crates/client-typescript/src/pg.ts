/**
 * Fenced transactions on PostgreSQL through the driver `pg`.
 *
 * A transaction raises the mark first, then reads, then writes. The mark stays locked until the transaction ends, and
 * the next holder waits for it: do no long work inside. `holdfast fence init --postgres` installs the functions.
 */
import { InvalidArgumentError, type LostError } from "./errors.js";

/** SQLSTATEs of the fence functions. */
const STALE = "FN001";
const MISSING_TOKEN = "FN002";
const UNSAFE_SNAPSHOT = "FN003";

const RAISE =
  "SELECT fence_check_shared($1::text, $2::bigint, $3::bigint, $4::text), " +
  "set_config('fence.resource', $1::text, true), set_config('fence.token', $2::bigint::text, true), " +
  "set_config('fence.floor', $3::bigint::text, true), set_config('fence.holder', coalesce($4::text, ''), true)";

/** A connection of `pg`: a `Client`, or a client of a `Pool`. */
export interface PgConnection {
  query(text: string, values?: unknown[]): Promise<unknown>;
}

/** The part of a guard that fences a write. A `Guard` has it. */
export interface FencedHold {
  readonly lock: string;
  readonly token: number;
  readonly session: string;
  readonly mode: string;
  readonly slots: readonly number[];
  readonly minValidToken: number;
  readonly lost: LostError | undefined;
}

/** Why the database rejected a write. */
export type FenceFailure = "stale" | "missing-token" | "unsafe-snapshot" | "rolled-back";

/** The database rejected the transaction, which has no effect. After `stale`, stop and discard what was read. */
export class FenceError extends Error {
  override readonly name = "FenceError";

  constructor(
    readonly failure: FenceFailure,
    message: string,
    /** The newest token that the resource has accepted, after `stale`. */
    readonly newest: number | undefined,
    cause: unknown,
  ) {
    super(message, { cause });
  }
}

/**
 * Runs `work` in a transaction at `READ COMMITTED` that raises the mark of the resource before its first read. Tables with
 * the fence trigger accept its writes. Commits after the work, and rolls back after an error.
 */
export async function fenced<C extends PgConnection, T>(connection: C, resource: string, hold: FencedHold, work: (connection: C) => Promise<T>): Promise<T> {
  if (resource === "") throw new InvalidArgumentError("resource: name the resource whose mark the transaction raises");
  if (hold.lost !== undefined) throw hold.lost;
  if ("totalCount" in connection) throw new InvalidArgumentError("connection: a Pool runs each query on any connection: pass a client of pool.connect()");
  await connection.query("BEGIN ISOLATION LEVEL READ COMMITTED");
  try {
    await raise(connection, resource, hold);
    const result = await work(connection);
    const committed = (await connection.query("COMMIT")) as { readonly command?: unknown } | undefined;
    if (committed?.command !== "ROLLBACK") return result;
    // PostgreSQL answers so if the work caught the error of a statement.
    throw new FenceError("rolled-back", "a statement of the transaction failed, so it was rolled back", undefined, undefined);
  } catch (error) {
    // The error of the rollback would hide the first one; the database rolls back when the connection ends.
    await connection.query("ROLLBACK").catch(() => {});
    throw toFenceError(error);
  }
}

/**
 * Raises the mark inside a transaction of the caller. It must be the first statement: earlier reads are not protected.
 * A slot of the guard, such as `pool#3`, has one holder at a time, so its mark rises to the whole token. Without a
 * transaction, and through a `Pool`, it fails.
 */
export async function raiseMark(connection: PgConnection, resource: string, hold: FencedHold): Promise<void> {
  await raise(connection, resource, hold);
  // The settings of the mark end with its transaction.
  const answer = await connection.query("SELECT nullif(current_setting('fence.token', true), '') AS token");
  // Some wrappers of the driver return the rows alone.
  const rows = (Array.isArray(answer) ? answer : (answer as { readonly rows?: unknown } | undefined)?.rows) as readonly { token?: unknown }[] | undefined;
  if (rows?.[0]?.token !== null) return;
  throw new InvalidArgumentError("connection: no transaction is open: send BEGIN first. The mark and the writes need the same one");
}

async function raise(connection: PgConnection, resource: string, hold: FencedHold): Promise<void> {
  // Other holders may be present, so their older tokens stay valid down to the floor.
  const isOwnSlot = hold.slots.some((slot) => resource === `${hold.lock}#${slot}`);
  const isAlone = isOwnSlot || (hold.mode === "exclusive" && hold.slots.length === 0);
  const floor = isAlone ? hold.token : hold.minValidToken;
  try {
    await connection.query(RAISE, [resource, hold.token, floor, hold.session]);
  } catch (error) {
    throw toFenceError(error);
  }
}

function toFenceError(error: unknown): unknown {
  if (!(error instanceof Error) || error instanceof FenceError) return error;
  const { code, detail } = error as Error & { code?: unknown; detail?: unknown };
  switch (code) {
    case STALE:
      return new FenceError("stale", error.message, newestIn(detail), error);
    case MISSING_TOKEN:
      return new FenceError("missing-token", error.message, undefined, error);
    case UNSAFE_SNAPSHOT:
      return new FenceError("unsafe-snapshot", error.message, undefined, error);
    default:
      return error;
  }
}

/** Reads the facts of a stale token from the JSON in the detail. */
function newestIn(detail: unknown): number | undefined {
  try {
    const { newest } = JSON.parse(String(detail)) as { newest?: unknown };
    return typeof newest === "number" ? newest : undefined;
  } catch {
    return undefined;
  }
}
