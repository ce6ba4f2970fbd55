/** The middleware of `examples/` in servers of Express, which the tests kill and pause. */
import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, afterEach, before, describe, test } from "node:test";
import { Client } from "holdfast";
import { Cluster, eventually, skip } from "./cluster.js";

const root = join(__dirname, "..");

describe("a middleware", { skip }, () => {
  let cluster: Cluster;
  let hf: Client;
  const servers: ChildProcess[] = [];

  before(async () => {
    cluster = await Cluster.start(32_750, 1);
    hf = new Client({ addresses: cluster.addresses });
  });
  after(async () => {
    await hf.close();
    await cluster.stop();
  });
  afterEach(() => servers.splice(0).forEach((server) => server.kill("SIGKILL")));

  /** Starts a server, and returns it with its address. */
  async function start(): Promise<[ChildProcess, string]> {
    const env = { ...process.env, HOLDFAST_ADDR: cluster.addresses.join(",") };
    const server = spawn(process.execPath, [join(root, "examples/express.mjs")], { env, stdio: ["ignore", "pipe", "inherit"] });
    servers.push(server);
    const [port] = (await once(createInterface({ input: server.stdout }), "line")) as [string];
    return [server, `http://127.0.0.1:${port}`];
  }

  /** Sends a request whose work takes `ms`, and returns status and text. */
  async function checkOut(server: string, cart: string, ms: number, signal?: AbortSignal): Promise<[number, string]> {
    const answer = await fetch(`${server}/carts/${cart}?ms=${ms}`, { method: "POST", ...(signal && { signal }) });
    return [answer.status, await answer.text()];
  }

  async function tokenOf(cart: string): Promise<number> {
    await eventually(async () => (await hf.lockState(`carts/${cart}`)).holders.length === 1, `a holder of ${cart}`);
    return (await hf.lockState(`carts/${cart}`)).holders[0]?.token ?? 0;
  }

  test("requests of two servers exclude each other", async () => {
    const [[, one], [, two]] = await Promise.all([start(), start()]);
    const first = checkOut(one, "a", 4_000);
    const token = await tokenOf("a");
    const [busy, text] = await checkOut(two, "a", 0);
    assert.equal(busy, 423);
    assert.match(text, /held by session "shop-/);
    assert.deepEqual(await first, [200, JSON.stringify({ token })]);
    assert.equal((await checkOut(two, "a", 0))[0], 200);
  });

  test("the signal ends the work at a loss", async () => {
    const [, server] = await start();
    const answer = checkOut(server, "b", 600_000);
    await tokenOf("b");
    await hf.forceRelease("carts/b", { reason: "maintenance" });
    assert.equal((await answer)[0], 503);
  });

  test("the lock is free when the caller leaves", async () => {
    const [, server] = await start();
    const leaving = new AbortController();
    const answer = checkOut(server, "c", 600_000, leaving.signal);
    await tokenOf("c");
    leaving.abort();
    await assert.rejects(answer, { name: "AbortError" });
    await (await hf.lock("carts/c", { wait: "20s" })).release();
  });

  test("a killed server frees its locks after the ttl", async () => {
    const [server, address] = await start();
    const answer = checkOut(address, "d", 600_000);
    const token = await tokenOf("d");
    server.kill("SIGKILL");
    await assert.rejects(answer);
    await hf.withLock("carts/d", { wait: "30s" }, (guard) => assert.ok(guard.token > token));
  });

  test("a paused server answers 503 when it continues", async () => {
    const [server, address] = await start();
    const answer = checkOut(address, "e", 600_000);
    const token = await tokenOf("e");
    server.kill("SIGSTOP");
    await hf.withLock("carts/e", { wait: "30s" }, async (guard) => {
      assert.ok(guard.token > token);
      server.kill("SIGCONT");
      assert.equal((await answer)[0], 503);
      guard.ensure();
    });
  });

  test("the README shows the handler", () => {
    const program = readFileSync(join(root, "examples/express.mjs"), "utf8");
    const handler = program.slice(program.indexOf("const checkOut"), program.indexOf("\nconst server"));
    assert.ok(readFileSync(join(root, "README.md"), "utf8").includes(handler));
  });
});
