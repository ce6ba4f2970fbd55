/** The tree of znodes: read, write, compare-and-set and delete. */
import { checkEnd, header, json, numberHeader } from "./answer.js";
import { get } from "./call.js";
import { isRejectedWith, UnexpectedResponseError } from "./errors.js";
import { sendOnce } from "./once.js";
import type { Sessions } from "./sessions.js";
import { target, treePath } from "./target.js";

export interface Znode {
  readonly path: string;
  readonly data: Buffer;
  /** The number of changes of the data. */
  readonly version: number;
  readonly isEphemeral: boolean;
}

export interface PutOptions {
  /** Replaces only this version. -1 only creates the znode. */
  readonly version?: number | undefined;
  /** Creates missing parents. By default `true`. */
  readonly parents?: boolean | undefined;
}

export class Tree {
  readonly #sessions: Sessions;

  /** @internal */
  constructor(sessions: Sessions) {
    this.#sessions = sessions;
  }

  /** Returns a znode; undefined if it does not exist. */
  async get(path: string): Promise<Znode | undefined> {
    const answer = await this.#sessions.calls.answer(get(treePath(path))).catch((error: unknown) => {
      if (isRejectedWith(error, "not-found")) return undefined;
      throw error;
    });
    if (answer === undefined) return undefined;
    const version = numberHeader(answer, "holdfast-version") ?? etagVersion(header(answer, "etag"));
    if (version === undefined) throw new UnexpectedResponseError("a znode without a version");
    return { path, data: answer.body, version, isEphemeral: header(answer, "holdfast-kind") === "ephemeral" };
  }

  /** Writes a znode once, and returns its version. Another version is a `RejectedError` with `version-mismatch`. */
  async put(path: string, data: string | Uint8Array, options: PutOptions = {}): Promise<number> {
    const { version, parents = true } = options;
    const headers: Record<string, string> = {};
    if (version === -1) headers["if-none-match"] = "*";
    else if (version !== undefined) headers["if-match"] = `"${version}"`;
    const isCreated = version === undefined || version === -1;
    const call = { method: "PUT", target: target(treePath(path), { parents: parents && isCreated ? true : undefined }), headers } as const;
    const answer = await sendOnce(this.#sessions, { ...call, body: Buffer.from(data) });
    return json<{ version: number }>(answer, { version: "integer" }).version;
  }

  /** Deletes a znode once; with `version` only that version. */
  async delete(path: string, options: { readonly version?: number | undefined; readonly recursive?: boolean | undefined } = {}): Promise<void> {
    const { version, recursive } = options;
    const headers: Record<string, string> = version === undefined ? {} : { "if-match": `"${version}"` };
    checkEnd(await sendOnce(this.#sessions, { method: "DELETE", target: target(treePath(path), { recursive: recursive ? true : undefined }), headers }));
  }
}

function etagVersion(etag: string | undefined): number | undefined {
  const version = /^"(\d+)"$/.exec(etag ?? "")?.[1];
  return version === undefined ? undefined : Number(version);
}
