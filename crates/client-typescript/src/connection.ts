/** How a client reaches the nodes: addresses, TLS and credentials. Plain data, which also goes to the worker thread. */
import { readFileSync } from "node:fs";
import { InvalidArgumentError } from "./errors.js";

/** The node of a client that names none. */
export const DEFAULT_ADDRESS = "127.0.0.1:7400";

export interface ConnectionOptions {
  /** The nodes: `host:port` or URLs. By default `HOLDFAST_ADDR`, otherwise `127.0.0.1:7400`. */
  readonly addresses?: readonly string[] | string | undefined;
  /** The certificate authority of the nodes: the path of a PEM file, or its content. */
  readonly ca?: string | undefined;
  /** The client certificate: the path of a PEM file, or its content. */
  readonly certificate?: string | undefined;
  /** The key of the client certificate: the path of a PEM file, or its content. */
  readonly key?: string | undefined;
  /** The access token of every call. */
  readonly accessToken?: string | undefined;
  /** A file with the access token, which is read again when a node rejects the token. */
  readonly accessTokenFile?: string | undefined;
}

export interface Connection {
  /** URLs without a path. */
  readonly bases: readonly string[];
  readonly ca: string | undefined;
  readonly certificate: string | undefined;
  readonly key: string | undefined;
  readonly accessToken: string | undefined;
  readonly accessTokenFile: string | undefined;
}

/** Checks the options, and reads the certificates. */
export function connectionOf(options: ConnectionOptions): Connection {
  const { accessToken, accessTokenFile } = options;
  const ca = pem(options.ca, "ca");
  const certificate = pem(options.certificate, "certificate");
  const key = pem(options.key, "key");
  if ((certificate === undefined) !== (key === undefined)) {
    throw new InvalidArgumentError("certificate and key: set both or neither");
  }
  if (accessToken !== undefined && accessTokenFile !== undefined) {
    throw new InvalidArgumentError("accessToken and accessTokenFile: set one of them");
  }
  const scheme = ca === undefined && certificate === undefined ? "http" : "https";
  const bases = addressList(options.addresses).map((address) => baseUrl(address, scheme));
  return { bases, ca, certificate, key, accessToken, accessTokenFile };
}

function addressList(addresses: readonly string[] | string | undefined): readonly string[] {
  const given = addresses ?? process.env["HOLDFAST_ADDR"] ?? DEFAULT_ADDRESS;
  const list = typeof given === "string" ? given.split(",").map((address) => address.trim()) : given;
  if (list.length === 0) throw new InvalidArgumentError("addresses: name at least one node");
  return list;
}

function baseUrl(address: string, scheme: string): string {
  try {
    const url = new URL(/^https?:\/\//.test(address) ? address : `${scheme}://${address}`);
    if (url.host === "" || url.pathname !== "/" || url.search !== "" || url.username !== "") throw new Error("more than host and port");
    return url.origin;
  } catch {
    // The text before the last `@` may have a password.
    throw new InvalidArgumentError(`addresses: "${address.slice(address.lastIndexOf("@") + 1)}" is no address: use host:port`);
  }
}

function pem(given: string | undefined, what: string): string | undefined {
  if (given === undefined || given.includes("-----BEGIN")) return given;
  try {
    return readFileSync(given, "utf8");
  } catch (error) {
    // The message of the error has the text, which may be a key.
    const code = String((error as NodeJS.ErrnoException).code);
    throw new InvalidArgumentError(`${what}: cannot read the file (${code}): set the path of a PEM file, or its content`);
  }
}
