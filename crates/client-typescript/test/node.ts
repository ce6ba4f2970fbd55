/** A local server that plays the node of a test. */
import { once } from "node:events";
import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { Client, type ClientOptions } from "holdfast";

const SESSION = { session: "s", incarnation: 7, expires_in_ms: 30_000, holds: [] };

export const EXPIRED = { code: "session-expired", title: "The session has ended" };

export function grant(more: object = {}) {
  return { lock: "a", mode: "exclusive", token: 5, min_valid_token: 5, session: "s", waited_ms: 0, expires_in_ms: 30_000, ...more };
}

/**
 * Answers a request with a body, and with the status and the headers of the response; undefined leaves it without an
 * answer.
 */
export type Answer = (method: string, url: string, response: ServerResponse) => object | undefined;

/** Runs a test with the address of a server. */
export async function withServer(listener: RequestListener, run: (address: string) => Promise<void>): Promise<void> {
  const server = createServer(listener).listen(0, "127.0.0.1");
  await once(server, "listening");
  try {
    await run(`127.0.0.1:${(server.address() as AddressInfo).port}`);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

/** Runs a test with a client of a node that answers as `answer`. `sent` has the method and the target of each request. */
export async function withNode(
  answer: Answer,
  run: (client: Client, sent: readonly string[], address: string) => Promise<void>,
  options: ClientOptions = {},
): Promise<void> {
  const sent: string[] = [];
  const listener = (request: IncomingMessage, response: ServerResponse): void => {
    const { method = "", url = "" } = request;
    if (url.includes("/keepalive")) return;
    sent.push(`${method} ${url}`);
    const body = url.startsWith("/v1/sessions/") ? SESSION : answer(method, url, response);
    if (method === "DELETE" && response.statusCode === 200) response.statusCode = 204;
    if (body !== undefined) response.writeHead(response.statusCode, { "content-type": "application/json" }).end(JSON.stringify(body));
  };
  await withServer(listener, async (address) => {
    const client = new Client({ ...options, addresses: [address, ...(options.addresses ?? [])] });
    await run(client, sent, address).finally(() => client.close());
  });
}
