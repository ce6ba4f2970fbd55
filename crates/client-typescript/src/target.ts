/** Paths and queries of the HTTP API, and the names in them. Pure. */
import { apiDuration } from "./duration.js";
import { InvalidArgumentError } from "./errors.js";
import type { Parameter } from "./parameters.js";

export type QueryValue = string | number | bigint | boolean | undefined;
/** The parameters of a call, and the labels of a session. */
export type Query = Readonly<Partial<Record<Parameter | `label.${string}`, QueryValue | readonly string[]>>>;

/** Returns path and query. Absent values are left out; a list repeats its parameter. */
export function target(path: string, query: Query = {}): string {
  const pairs: string[] = [];
  for (const [name, value] of Object.entries(query)) {
    const values: readonly QueryValue[] = Array.isArray(value) ? value : [value as QueryValue];
    for (const one of values) if (one !== undefined) pairs.push(`${name}=${escape(String(one))}`);
  }
  return pairs.length === 0 ? path : `${path}?${pairs.join("&")}`;
}

/** Adds the query of one call to a target that may have a query. */
export function withQuery(base: string, query: Query): string {
  const added = target("", query);
  return base + (base.includes("?") ? added.replace("?", "&") : added);
}

/** Returns the parameters `label.KEY`. */
export function labelQuery(labels: Readonly<Record<string, string>>): Record<`label.${string}`, string> {
  return Object.fromEntries(Object.entries(labels).map(([key, value]) => [`label.${escape(key)}`, value]));
}

/** Returns `wait=…`; nothing for zero. */
export function waitQuery(wait: number): { wait?: string } {
  return wait > 0 ? { wait: apiDuration(wait) } : {};
}

/** Returns `/v1/KIND/NAME` for a name that may contain `/`. */
export function namedPath(kind: string, name: string): string {
  return `/v1/${kind}/${checkedName(name).split("/").map(escape).join("/")}`;
}

/** Returns `/v1/tree/PATH`; the root is `/v1/tree`. */
export function treePath(path: string): string {
  const below = path.replace(/^\//, "");
  return below === "" ? "/v1/tree" : namedPath("tree", below);
}

export function sessionPath(session: string): string {
  return `/v1/sessions/${escape(session)}`;
}

/** Checks the rules that a URL could hide: the cluster checks the rest. */
export function checkedName(name: string): string {
  const bytes = Buffer.byteLength(name);
  if (bytes === 0 || bytes > 1_023) throw new InvalidArgumentError(`the name "${name}" has ${bytes} bytes: use 1 to 512`);
  for (const part of name.split("/")) {
    if (part === "" || part === "." || part === "..") {
      throw new InvalidArgumentError(`the name "${name}" has the component "${part}": use names between the slashes`);
    }
  }
  return name;
}

/** Encodes every byte except letters, digits and `-._~`. */
function escape(text: string): string {
  try {
    return encodeURIComponent(text).replace(/[!'()*]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`);
  } catch {
    throw new InvalidArgumentError(`${JSON.stringify(text)} is no valid Unicode text`);
  }
}
