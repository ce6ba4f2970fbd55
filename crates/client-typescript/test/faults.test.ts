/** Losses and failures: dead, frozen and restarted nodes, a blocked event loop and a paused process. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, afterEach, before, describe, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import type { Worker } from "node:worker_threads";
import { Client, HoldfastError, LostError, UnavailableError, type ClientOptions } from "holdfast";
import { Cluster, skip } from "./cluster.js";

describe("with faults", { skip }, () => {
  let cluster: Cluster;
  const clients: Client[] = [];

  before(async () => {
    cluster = await Cluster.start(32_200);
    await cluster.settled();
  });
  after(async () => {
    await Promise.allSettled(clients.map((client) => client.close()));
    await cluster.stop();
  });

  afterEach(async () => {
    process.removeAllListeners("worker");
    await Promise.all([1, 2, 3].map((node) => cluster.command(`resume ${node}`)));
    await cluster.settled();
  });

  function client(options: ClientOptions = {}): Client {
    const created = new Client({ addresses: cluster.addresses, ttl: "10s", ...options });
    clients.push(created);
    return created;
  }

  test("a lock is held and acquired while the leader dies", async () => {
    const [a, b] = [client(), client()];
    const held = await a.lock("leader-dies");
    const waiting = b.lock("leader-dies");
    await sleep(300);
    const leader = await cluster.leader();
    await cluster.command(`kill ${leader}`);
    await sleep(12_000);
    held.ensure();
    await held.release();
    const next = await waiting;
    assert.ok(next.token > held.token);
    await next.release();
    await cluster.command(`restart ${leader}`);
  });

  test("a frozen node delays no call by more than two seconds, and takes no lock", async () => {
    const [a, b] = [client(), client()];
    const held = await a.lock("frozen");
    const waiting = b.lock("frozen");
    await sleep(600);
    const follower = ((await cluster.leader()) % 3) + 1;
    await cluster.command(`pause ${follower}`);
    const start = Date.now();
    await (await a.lock("frozen-other")).release();
    const took = Date.now() - start;
    assert.ok(took < 2_000, `${took} ms`);
    await sleep(12_000);
    held.ensure();
    await held.release();
    await (await waiting).release();
  });

  test("a frozen leader takes no lock, and a waiter behind it is granted", async () => {
    const [a, b] = [client(), client()];
    const held = await a.lock("frozen-leader");
    const waiting = b.lock("frozen-leader");
    await sleep(600);
    const leader = await cluster.leader();
    await cluster.command(`pause ${leader}`);
    await sleep(12_000);
    held.ensure();
    await held.release();
    await (await waiting).release();
  });

  test("a blocked event loop loses the lock, and sees it before anything else runs", async () => {
    const a = client({ ttl: "1s" });
    const guard = await a.lock("blocked");
    block(1_500);
    assert.throws(() => guard.ensure(), (error) => error instanceof LostError && error.lossCause === "not-renewed");
    assert.ok(guard.signal.aborted);
  });

  test("with a worker thread, a blocked event loop keeps the lock and sees a loss", async () => {
    const a = client({ ttl: "3s", worker: true });
    const guard = await a.lock("worker");
    block(6_000);
    guard.ensure();
    const forced = spawn(process.execPath, ["-e", `setTimeout(() => fetch("http://${cluster.addresses[0]}/v1/force-releases/worker?reason=x", {method: "POST"}), 300)`]);
    const until = Date.now() + 20_000;
    while (guard.lost === undefined && Date.now() < until); // no event of this thread is handled meanwhile
    assert.equal(guard.lost?.lossCause, "force-released");
    if (forced.exitCode === null) await once(forced, "exit");
  });

  for (const isUsed of [true, false]) {
    test(`another worker thread renews after the end of one (with a lock: ${isUsed})`, async () => {
      const [threads, a] = await withFirstThread({ ttl: "2s", worker: true });
      const guard = await a.lock("thread-ends");
      if (!isUsed) await guard.release();
      await threads.shift()?.terminate();
      const [same, other] = [await a.lock("thread-ends-same"), await a.lock("thread-ends-other", { ttl: "1s" })];
      await sleep(4_000);
      for (const lock of isUsed ? [guard, same, other] : [same, other]) lock.ensure();
      assert.equal(threads.length, 1, "one thread for one that ended");
      await client().forceRelease("thread-ends-same", { reason: "maintenance" });
      await aborted(same.signal);
      await a.close();
    });
  }

  test("without a worker thread, locks are lost in time, and calls fail with the reason", async () => {
    const renewed: boolean[] = [];
    const [threads, a] = await withFirstThread({ ttl: "2s", worker: true, metrics: { renewed: (_, isAcknowledged) => renewed.push(isAcknowledged) } });
    const guard = await a.lock("no-thread");
    const kill = (thread: Worker): unknown => thread.terminate();
    process.on("worker", kill);
    try {
      await threads[0]?.terminate();
      await assert.rejects(a.lock("no-thread-other", { ttl: "1s" }), (error) => error instanceof UnavailableError && /renewal thread ended/.test(error.message));
      await aborted(guard.signal);
      assert.equal(guard.lost?.lossCause, "not-renewed");
      assert.match(guard.lost?.reason ?? "", /renewal thread ended/);
      assert.ok(renewed.includes(false));
    } finally {
      process.off("worker", kill);
    }
    const next = await a.lock("no-thread", { wait: "10s" });
    await sleep(3_000);
    next.ensure();
  });

  /** Returns a client of a cluster, and the threads that its process has started since. */
  async function withFirstThread(options: ClientOptions): Promise<[Worker[], Client]> {
    const threads: Worker[] = [];
    process.on("worker", (thread) => threads.push(thread));
    const created = client(options);
    await (await created.lock("thread")).release();
    return [threads, created];
  }

  for (const args of [[], ["--no-worker"]]) {
    test(`a process that is paused for longer than its time-to-live reports the loss when it resumes ${args.join("")}`, async () => {
      const adapter = spawn(process.execPath, [join(__dirname, "adapter.js"), ...args], { stdio: ["pipe", "pipe", "inherit"] });
      const lines = createInterface({ input: adapter.stdout })[Symbol.asyncIterator]();
      const answer = async (): Promise<Record<string, unknown>> => JSON.parse((await lines.next()).value ?? "{}") as Record<string, unknown>;
      const ask = (request: Record<string, unknown>): boolean => adapter.stdin.write(`${JSON.stringify(request)}\n`);
      ask({ id: 1, do: "client", name: "c", addresses: cluster.addresses, ttl_ms: 2_000 });
      await answer();
      ask({ id: 2, do: "acquire", client: "c", lock: "paused", guard: "g" });
      const { token } = (await answer())["ok"] as { token: number };
      adapter.kill("SIGSTOP");
      const next = await client().lock("paused", { wait: "10s" });
      assert.ok(next.token > token);
      ask({ id: 3, do: "ensure", guard: "g" });
      adapter.kill("SIGCONT");
      const seen = [await answer(), await answer()];
      assert.ok(seen.some((line) => line["event"] === "lost" && line["token"] === token));
      assert.ok(seen.some((line) => (line["error"] as { kind?: string } | undefined)?.kind === "lost"));
      await next.release();
      ask({ id: 4, do: "shutdown" });
      await once(adapter, "exit");
    });
  }

  test("without a majority, a hold is lost in time and an acquire is unavailable", async () => {
    const a = client({ ttl: "2s", requestTimeout: "1s" });
    const guard = await a.lock("cut");
    const start = Date.now();
    await Promise.all([1, 2, 3].map((node) => cluster.command(`pause ${node}`)));
    await aborted(guard.signal);
    const took = Date.now() - start;
    assert.ok(took < 2_500, `${took} ms`);
    assert.equal(guard.lost?.lossCause, "not-renewed");
    await assert.rejects(a.lock("cut", { wait: 0 }), (error) => error instanceof UnavailableError || (error instanceof HoldfastError && error.retryable));
    await Promise.all([1, 2, 3].map((node) => cluster.command(`resume ${node}`)));
    const again = await client().lock("cut", { wait: "20s" });
    assert.ok(again.token > guard.token);
    await again.release();
  });

  test("all nodes restart, and a waiter keeps its place", async () => {
    const [a, b] = [client({ ttl: "30s" }), client({ ttl: "30s" })];
    const held = await a.lock("restart");
    const waiting = b.lock("restart");
    await sleep(300);
    for (const command of ["kill", "restart"]) for (const node of [1, 2, 3]) await cluster.command(`${command} ${node}`);
    await sleep(4_000);
    held.ensure();
    await held.release();
    const next = await waiting;
    assert.ok(next.token > held.token);
    await next.release();
  });
});

/** Waits for the loss, whose event may precede the answer of the call that causes it. */
async function aborted(signal: AbortSignal): Promise<void> {
  if (!signal.aborted) await once(signal, "abort");
}

function block(millis: number): void {
  const until = Date.now() + millis;
  while (Date.now() < until);
}
