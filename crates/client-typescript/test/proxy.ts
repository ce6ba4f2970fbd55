/** A server in front of a node that can answer falsely, or lose answers after the node has executed the calls. */
import { once } from "node:events";
import { createServer, request, type Server } from "node:http";
import type { AddressInfo } from "node:net";

export class Proxy {
  /** Loses the answers of the next calls that match. */
  lose: { readonly pattern: RegExp; times: number } = { pattern: /^$/, times: 0 };
  /** Answers every call with 200 and this body. */
  falseBody: string | undefined;
  /** Every call, as `METHOD TARGET`. */
  readonly calls: string[] = [];
  readonly #server: Server;

  private constructor(upstream: string) {
    const [hostname, port] = upstream.split(":");
    this.#server = createServer((incoming, outgoing) => {
      const { method, url, headers } = incoming;
      const call = `${method} ${url}`;
      this.calls.push(call);
      if (this.falseBody !== undefined) return void outgoing.end(this.falseBody);
      const forwarded = request({ hostname, port, method, path: url, headers }, (answer) => {
        if (this.lose.times > 0 && this.lose.pattern.test(call)) {
          this.lose.times -= 1;
          answer.resume();
          incoming.socket.destroy();
          return;
        }
        outgoing.writeHead(answer.statusCode ?? 500, answer.headers);
        answer.pipe(outgoing);
      });
      forwarded.on("error", () => incoming.socket.destroy());
      outgoing.on("close", () => forwarded.destroy());
      incoming.pipe(forwarded);
    });
  }

  static async start(upstream: string): Promise<Proxy> {
    const proxy = new Proxy(upstream);
    proxy.#server.listen(0, "127.0.0.1");
    await once(proxy.#server, "listening");
    return proxy;
  }

  get address(): string {
    return `127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  stop(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }
}
