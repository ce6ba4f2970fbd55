// A cluster of processes: `holdfast dev --commands`, and calls of its HTTP API.
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import http from "node:http";
import https from "node:https";
import net from "node:net";
import { createInterface } from "node:readline";

const START_MAX = 60_000;

/** Whether a port of this machine is free. */
function isFree(port) {
  return new Promise((resolve) => {
    const server = net.createServer();
    server.once("error", () => resolve(false));
    server.listen(port, "127.0.0.1", () => server.close(() => resolve(true)));
  });
}

/** A port such that all ports of `nodes` nodes are free. */
async function freePorts(nodes) {
  for (;;) {
    const port = 20_000 + 100 * Math.floor(Math.random() * 120);
    const all = Array.from({ length: nodes }, (_, node) => [0, 1, 2].map((i) => port + 10 * node + i)).flat();
    if ((await Promise.all(all.map(isFree))).every(Boolean)) return port;
  }
}

/** Calls `condition` until it returns a value that is neither `undefined` nor `false`. */
export async function until(what, condition, max = 10_000) {
  const end = Date.now() + max;
  for (;;) {
    let value, error;
    try {
      value = await condition();
    } catch (thrown) {
      error = thrown;
    }
    if (value !== undefined && value !== false) return value;
    if (Date.now() > end) throw new Error(`not within ${max} ms: ${what}${error ? `: ${error}` : ""}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

export class Cluster {
  /** Starts `nodes` nodes; with `secure`, every call needs TLS and an access token. */
  static async start({ nodes = 3, secure = true } = {}) {
    const port = await freePorts(nodes);
    const args = ["dev", "--commands", "--nodes", `${nodes}`, "--port", `${port}`, ...(secure ? ["--secure"] : [])];
    const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("HOLDFAST_")));
    const child = spawn(process.env.HOLDFAST_BIN, args, { env, stdio: ["pipe", "pipe", "inherit"] });
    process.once("exit", () => child.kill("SIGTERM"));
    const cluster = new Cluster(child, port, nodes, secure);
    await cluster.#ready();
    return cluster;
  }

  constructor(child, port, nodes, secure) {
    Object.assign(this, { child, port, nodes, secure, output: [] });
    this.ended = new Promise((resolve) => child.once("exit", resolve));
    this.agent = secure ? new https.Agent({ keepAlive: true }) : new http.Agent({ keepAlive: true });
  }

  #ready() {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`no cluster:\n${this.output.join("\n")}`)), START_MAX);
      this.ended.then(() => reject(new Error(`the cluster ended:\n${this.output.join("\n")}`)));
      createInterface({ input: this.child.stdout }).on("line", (line) => {
        this.output.push(line);
        const [, name, value] = line.match(/^export (\w+)=(.*)$/) ?? [];
        if (name === "HOLDFAST_CACERT") this.agent.options.ca = readFileSync((this.ca = value));
        if (name === "HOLDFAST_ACCESS_TOKEN_FILE") this.tokenFile = value;
        if (name === "HOLDFAST_ACCESS_TOKEN_FILE") this.token = readFileSync(value, "utf8").trim().split(" ").at(-1);
        if (line.startsWith("ready ")) {
          clearTimeout(timer);
          resolve();
        }
      });
    });
  }

  /** The certificate of the first node with its key, for a proxy. */
  serverFiles() {
    const read = (end) => readFileSync(this.ca.replace(/ca\.pem$/, `node-1.${end}`));
    return this.secure ? { cert: read("pem"), key: read("key") } : undefined;
  }

  /** The address of a node, as a browser opens it. */
  url(node = 1) {
    return `${this.secure ? "https" : "http"}://${this.host(node)}`;
  }

  host(node = 1) {
    return `127.0.0.1:${this.port + 10 * (node - 1)}`;
  }

  /** One call of the API, as the administrator unless `token` says otherwise. Returns status, headers, text and JSON. */
  call(method, path, { node = 1, token = this.token, headers = {}, body } = {}) {
    const all = { ...(token ? { authorization: `Bearer ${token}` } : {}), ...headers };
    const { request } = this.secure ? https : http;
    return new Promise((resolve, reject) => {
      const sent = request(this.url(node) + path, { method, agent: this.agent, headers: all }, (reply) => {
        const parts = [];
        reply.on("data", (part) => parts.push(part)).on("error", reject);
        reply.on("end", () => {
          const text = Buffer.concat(parts).toString();
          const json = (reply.headers["content-type"] ?? "").includes("json") ? JSON.parse(text) : undefined;
          resolve({ status: reply.statusCode, headers: reply.headers, text, json });
        });
      });
      sent.on("error", reject).end(body);
    });
  }

  /** The JSON of a call that succeeds. */
  async get(path, options) {
    return this.ok("GET", path, options);
  }

  async ok(method, path, options) {
    const reply = await this.call(method, path, options);
    if (reply.status >= 300) throw new Error(`${method} ${path}: ${reply.status} ${reply.text}`);
    return reply.json;
  }

  /** A session holds the lock or stands in its queue; labels are `{KEY: VALUE}`. */
  async acquire(lock, session, { labels = {}, ttl = "1h", node, ...more } = {}) {
    const query = new URLSearchParams({ session, attempt: "1", ttl, enqueue: "true", ...more });
    for (const [key, value] of Object.entries(labels)) query.set(`label.${key}`, value);
    return this.ok("PUT", `/v1/locks/${path(lock)}?${query}`, { node });
  }

  async release(lock, session) {
    return this.ok("DELETE", `/v1/locks/${path(lock)}?session=${encodeURIComponent(session)}&attempt=1`);
  }

  lock(name, options) {
    return this.get(`/v1/locks/${path(name)}`, options);
  }

  /** An access token of a subject with one role. */
  async tokenOf(subject, role) {
    await this.ok("PUT", `/v1/auth/subjects/${subject}?role=${role}`);
    return (await this.ok("POST", `/v1/auth/tokens?subject=${subject}&ttl=1h`)).token;
  }

  leader(options) {
    return until("a leader", async () => (await this.get("/v1/cluster", options)).leader || undefined);
  }

  /** A command of `holdfast dev`: `kill 1`, `pause 1`, `restart 1`. */
  command(line) {
    this.child.stdin.write(`${line}\n`);
  }

  async stop() {
    this.agent.destroy();
    if (this.child.exitCode === null) this.child.kill("SIGTERM");
    await this.ended;
  }
}

/** A name as part of a path. */
export function path(name) {
  return name.split("/").map(encodeURIComponent).join("/");
}
