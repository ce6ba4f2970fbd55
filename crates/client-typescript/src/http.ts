/**
 * One request to one node over kept connections, without a retry.
 *
 * Bounds: one request on a connection at a time; an answer of `BODY_MAX` bytes; an idle connection is closed after
 * `IDLE_MAX`, or earlier if the header `Keep-Alive` of the node says so.
 */
import * as http from "node:http";
import * as https from "node:https";
import type { Socket } from "node:net";
import type { StopSignal } from "./abort.js";
import { AccessToken } from "./access-token.js";
import type { HttpAnswer } from "./answer.js";
import type { Connection } from "./connection.js";

/** The maximum time to open a connection. */
const CONNECT_TIMEOUT = 1_000;
/** A node closes an idle connection after 70 s. Without this limit, Node ignores the time in the header `Keep-Alive`. */
const IDLE_MAX = 60_000;
const BODY_MAX = 64 * 1_024 * 1_024;
const USER_AGENT = "holdfast-typescript/0.1";

export interface HttpRequest {
  readonly method: string;
  readonly url: string;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly body?: Buffer | undefined;
  /** The maximum time until the answer is complete; of a stream, until its head. */
  readonly timeout: number;
  readonly signal?: StopSignal | undefined;
  /** Called with the connection of the request. */
  readonly onSocket?: ((socket: Socket) => void) | undefined;
}

/** A request without an answer. */
export class SendError extends Error {
  constructor(
    reason: string,
    /** Whether the node may have received the request. */
    readonly mayBeDone: boolean,
  ) {
    super(reason);
  }
}

export class HttpClient {
  readonly accessToken: AccessToken;
  readonly #plain: http.Agent;
  readonly #secure: https.Agent;

  constructor(connection: Connection) {
    this.accessToken = new AccessToken(connection);
    const { ca, certificate, key } = connection;
    const kept = { keepAlive: true, timeout: IDLE_MAX, maxFreeSockets: 64, scheduling: "lifo" as const };
    this.#plain = new http.Agent(kept);
    const trust = { ...(ca === undefined ? {} : { ca }), ...(certificate === undefined ? {} : { cert: certificate, key }) };
    this.#secure = new https.Agent({ ...kept, ...trust } as https.AgentOptions);
  }

  /** Sends a request, and reads the whole answer. Rejects with a `SendError`. */
  async send(request: HttpRequest): Promise<HttpAnswer> {
    return await this.#start<HttpAnswer>(request, readAll);
  }

  /**
   * Sends a request, and returns a stream as soon as its head has arrived. Reads an unsuccessful answer whole. Rejects with
   * a `SendError`.
   */
  async open(request: HttpRequest): Promise<http.IncomingMessage | HttpAnswer> {
    return await this.#start<http.IncomingMessage | HttpAnswer>(request, (response, settle, fail) => {
      if (response.statusCode === 200) settle(response);
      else readAll(response, settle, fail);
    });
  }

  /** Closes idle connections. */
  close(): void {
    this.#plain.destroy();
    this.#secure.destroy();
  }

  #start<T>(
    request: HttpRequest,
    onResponse: (response: http.IncomingMessage, settle: (value: T) => void, fail: (reason: string) => void) => void,
  ): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      const { signal } = request;
      let isConnected = false;
      const outgoing = this.#request(request);
      const end = (): void => {
        clearTimeout(timer);
        clearTimeout(connectTimer);
        signal?.removeEventListener("abort", abort);
      };
      const fail = (reason: string, mayBeDone = isConnected): void => {
        end();
        outgoing.destroy();
        reject(new SendError(reason, mayBeDone));
      };
      const abort = (): void => fail("the call was cancelled");
      const timer = setTimeout(() => fail(`no answer within ${Math.round(request.timeout)} ms`), request.timeout);
      const connectTimer = setTimeout(() => {
        if (!isConnected) fail(`no connection within ${CONNECT_TIMEOUT} ms`, false);
      }, CONNECT_TIMEOUT);
      outgoing.on("socket", (socket) => {
        request.onSocket?.(socket);
        const event = socket.connecting ? (request.url.startsWith("https:") ? "secureConnect" : "connect") : undefined;
        if (event === undefined) isConnected = true;
        else socket.once(event, () => (isConnected = true));
      });
      outgoing.on("error", (error) => fail(error.message));
      outgoing.on("response", (response) => {
        response.on("error", (error) => fail(error.message));
        response.on("aborted", () => fail("the connection was closed during the answer"));
        const settle = (value: T): void => {
          end();
          resolve(value);
        };
        onResponse(response, settle, fail);
      });
      if (signal?.aborted) return abort();
      signal?.addEventListener("abort", abort);
      outgoing.end(request.body);
    });
  }

  #request({ method, url, headers, body }: HttpRequest): http.ClientRequest {
    const authorization = this.accessToken.header;
    const all = {
      "user-agent": USER_AGENT,
      ...(authorization === undefined ? {} : { authorization }),
      ...(body === undefined ? {} : { "content-length": String(body.length) }),
      ...headers,
    };
    if (url.startsWith("https:")) return https.request(url, { method, headers: all, agent: this.#secure });
    return http.request(url, { method, headers: all, agent: this.#plain });
  }
}

/** Reads the whole body. */
function readAll(response: http.IncomingMessage, settle: (answer: HttpAnswer) => void, fail: (reason: string) => void): void {
  const chunks: Buffer[] = [];
  let length = 0;
  response.on("data", (chunk: Buffer) => {
    length += chunk.length;
    if (length > BODY_MAX) return fail("the answer is too long");
    chunks.push(chunk);
  });
  response.on("end", () => settle({ ...headOf(response), body: Buffer.concat(chunks) }));
}

/** Returns the status and the headers, without the body. */
export function headOf(response: http.IncomingMessage): HttpAnswer {
  return { status: response.statusCode ?? 0, headers: response.headers, body: Buffer.alloc(0) };
}
