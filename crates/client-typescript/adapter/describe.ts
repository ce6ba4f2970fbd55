/**
 * Describes this client for the table of names. The compiler compares the lists with the types of the client: an option or a
 * metric that is missing here, or that has another type, is an error.
 */
import * as holdfast from "holdfast";
import type { ClientOptions, Duration, LockOptions, LossCause, Metrics } from "holdfast";
import { KINDS } from "./protocol.js";

type Equal<A, B> = [A, B] extends [B, A] ? true : false;

/** The word of the table for the type of an option. */
type Word<T> =
  Equal<T, Duration> extends true ? "duration"
  : Equal<T, number> extends true ? "integer"
  : Equal<T, boolean> extends true ? "flag"
  : Equal<T, readonly string[] | string> extends true ? "texts"
  : Equal<T, Metrics> extends true ? "metrics"
  : Equal<T, AbortSignal> extends true ? "signal"
  : T extends string ? "text"
  : "map";
type Words<Options> = { readonly [Name in keyof Options]-?: Word<Exclude<Options[Name], undefined>> };

const CLIENT: Words<ClientOptions> = {
  addresses: "texts",
  ttl: "duration",
  sessionPrefix: "text",
  session: "text",
  labels: "map",
  requestTimeout: "duration",
  ca: "text",
  certificate: "text",
  key: "text",
  accessToken: "text",
  accessTokenFile: "text",
  metrics: "metrics",
  worker: "flag",
};

const LOCK: Words<LockOptions> = {
  wait: "duration",
  mode: "text",
  permits: "integer",
  limit: "integer",
  priority: "integer",
  owner: "text",
  reentrant: "flag",
  queueMax: "integer",
  maxHold: "duration",
  minHold: "duration",
  value: "text",
  progressTimeout: "duration",
  ttl: "duration",
  shards: "integer",
  shard: "integer",
  signal: "signal",
};

const CAUSES: Readonly<Record<LossCause, object>> = {
  "not-renewed": {},
  "session-ended": {},
  "released-elsewhere": {},
  "force-released": {},
  revoked: {},
  transferred: {},
  stalled: {},
  "max-hold-exceeded": {},
};

/** The word for the type of an argument of a metric: a number is a duration. */
type ArgumentWord<T> =
  Equal<T, number> extends true ? "duration"
  : Equal<T, boolean> extends true ? "flag"
  : T extends string ? "text"
  : "error";
type ArgumentWords<Arguments extends readonly unknown[]> = { readonly [Index in keyof Arguments]: ArgumentWord<Arguments[Index]> };

const METRICS: { readonly [Name in keyof Metrics]-?: { arguments: ArgumentWords<Parameters<NonNullable<Metrics[Name]>>> } } = {
  acquired: { arguments: ["text", "duration"] },
  acquireFailed: { arguments: ["text", "error"] },
  released: { arguments: ["text", "duration"] },
  lost: { arguments: ["text", "text"] },
  renewed: { arguments: ["text", "flag"] },
};

type Named = Record<string, object>;

function withDefaults(words: Readonly<Record<string, string>>, defaults: Readonly<Record<string, unknown>>): Named {
  const described = Object.entries(words).map(([name, type]) => [name, { type, default: defaults[name] ?? null }] as const);
  return Object.fromEntries(described);
}

function errors(): Named {
  const { HoldfastError } = holdfast;
  const isError = (exported: unknown): exported is { prototype: object } =>
    typeof exported === "function" && exported.prototype instanceof HoldfastError;
  const kindOf = (type: unknown): string | undefined => KINDS.find(([known]) => known === type)?.[1];
  const found = Object.entries(holdfast).filter(([, exported]) => isError(exported));
  return Object.fromEntries(found.map(([name, type]) => [name, { kind: kindOf(type) }]));
}

function members(): Named {
  const names = Object.getOwnPropertyNames(holdfast.Guard.prototype).filter((name) => name !== "constructor");
  return Object.fromEntries(names.map((name) => [name, {}]));
}

export function describe(): Record<string, Named> {
  return {
    client_options: withDefaults(CLIENT, holdfast.DEFAULTS),
    lock_options: withDefaults(LOCK, {}),
    errors: errors(),
    loss_causes: CAUSES as Named,
    guard_members: members(),
    metrics: METRICS,
  };
}
