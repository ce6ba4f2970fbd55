/** Locks, sessions and recipes against a real cluster. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { BusyError, Client, InvalidArgumentError, LostError, RejectedError, type ClientOptions, type ElectionChange, type Guard, type Metrics } from "holdfast";
import { Cluster, eventually, skip } from "./cluster.js";

/** Reads the mode without narrowing its type. */
const modeOf = (guard: Guard): string => guard.mode;

describe("against a cluster of three nodes", { skip }, () => {
  let cluster: Cluster;
  const clients: Client[] = [];

  before(async () => {
    cluster = await Cluster.start(32_100);
    await cluster.settled();
  });
  after(async () => {
    await Promise.all(clients.map((client) => client.close()));
    await cluster.stop();
  });

  function client(options: ClientOptions = {}): Client {
    const created = new Client({ addresses: cluster.addresses, ttl: "10s", ...options });
    clients.push(created);
    return created;
  }

  test("a durable hold outlasts its client", async () => {
    const freeze = { owner: "carol", reason: "moving to v2" };
    const a = client();
    const token = await a.holdDurably("freeze", freeze);
    await a.close();
    const b = client();
    assert.equal(await b.holdDurably("freeze", freeze), token, "the owner names the hold");
    await assert.rejects(b.holdDurably("freeze", { owner: "dave", reason: "a freeze", wait: "100ms" }), BusyError);
    await b.releaseDurable("freeze", { owner: "carol", token: token + 1 });
    await assert.rejects(b.tryLock("freeze"), BusyError);
    await b.releaseDurable("freeze", { owner: "carol", token });
    await b.releaseDurable("freeze", { owner: "carol", token });
    const guard = await b.tryLock("freeze");
    assert.ok(guard.token > token);
    await guard.release();
  });

  test("two guards of one client exclude each other, and tokens grow", async () => {
    const a = client();
    const first = await a.lock("exclude");
    await assert.rejects(a.tryLock("exclude"), (error) => error instanceof BusyError && error.holder?.token === first.token);
    await assert.rejects(a.lock("exclude", { wait: "100ms" }), (error) => error instanceof BusyError && error.code === "wait-timeout");
    await first.release();
    await first.release();
    const second = await a.tryLock("exclude");
    assert.ok(second.token > first.token);
    assert.ok(second.remaining() > 0 && second.remaining() < 10_000);
    assert.deepEqual(second.headers(), { "Fencing-Token": `${second.token}; resource="exclude"` });
    await second.release();
    assert.throws(() => second.ensure(), LostError);
    assert.equal(second.signal.aborted, false);
  });

  test("a waiter gets the lock at the release, and a hold outlives its time-to-live", async () => {
    const [a, b] = [client({ ttl: "5s" }), client()];
    const first = await a.lock("queue");
    const waiting = b.lock("queue");
    await sleep(7_000);
    first.ensure();
    await first.release();
    const second = await waiting;
    assert.ok(second.token > first.token);
    await second.release();
  });

  test("a cancelled acquire leaves the queue", async () => {
    const [a, b] = [client(), client()];
    const held = await a.lock("cancel");
    const cancel = new AbortController();
    const waiting = b.lock("cancel", { signal: cancel.signal });
    await eventually(async () => (await a.lockState("cancel")).waiters === 1, "the acquire waits");
    cancel.abort(new Error("stop"));
    await assert.rejects(waiting, /stop/);
    await eventually(async () => (await a.lockState("cancel")).waiters === 0, "the acquire has left the queue");
    await held.release();
  });

  for (const worker of [false, true]) {
    test(`a force-release reaches the guard and its signal at once (worker: ${worker})`, async () => {
      const lost: string[] = [];
      const metrics: Metrics = { lost: (lock, cause) => lost.push(`${lock} ${cause}`) };
      const a = client({ worker, metrics });
      const guard = await a.lock("forced");
      await sleep(300);
      await client().forceRelease("forced", { reason: "maintenance", token: guard.token });
      await eventually(() => guard.signal.aborted, "the signal is aborted");
      assert.throws(() => guard.ensure(), (error) => error === guard.signal.reason && error instanceof LostError && error.lossCause === "force-released");
      assert.equal(guard.lost?.reason, "maintenance");
      assert.deepEqual(lost, ["forced force-released"]);
      await assert.rejects(guard.release(), LostError);
    });
  }

  test("a lock is free after the releases of two guards of one owner, one of which has upgraded it", async () => {
    const a = client({ ttl: "3s" });
    const options = { owner: "carol", mode: "upgradable" } as const;
    const [first, second] = [await a.lock("nested", options), await a.lock("nested", options)];
    // Without it, the session could end, and free the lock, before the other client acquires it.
    const other = await a.lock("nested-other");
    await first.upgrade();
    second.ensure();
    assert.equal(second.token, first.token);
    await second.release();
    await first.release();
    await (await client().lock("nested", { wait: "10s" })).release();
    await other.release();
  });

  test("withLock returns the result, and reports a loss that the work did not see", async () => {
    const a = client();
    assert.equal(await a.withLock("work", ({ token }) => token > 0), true);
    assert.equal((await a.lockState("work")).holders.length, 0);
    const work = a.withLock("work", { wait: 0 }, async ({ signal }) => {
      await a.forceRelease("work", { reason: "test" });
      await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
      return "done";
    });
    await assert.rejects(work, (error) => error instanceof LostError && error.lossCause === "force-released");
    await assert.rejects(a.withLock("work", () => Promise.reject(new Error("the work failed"))), /the work failed/);
    assert.equal((await a.lockState("work")).holders.length, 0);
  });

  test("await using releases the lock", async () => {
    const a = client();
    {
      await using guard = await a.lock("using");
      guard.ensure();
    }
    assert.equal((await a.lockState("using")).holders.length, 0);
  });

  test("limits of a hold release it", async () => {
    const [a, b] = [client(), client()];
    const stalled = await a.lock("stalled", { progressTimeout: 2_000 });
    const short = await a.lock("short", { maxHold: 400 });
    const asked = await a.lock("asked");
    const requests: (string | undefined)[] = [];
    asked.onReleaseRequested(({ reason }) => requests.push(reason));
    assert.equal(await b.requestRelease("asked", { reason: "please", deadline: 1_500, revoke: true }), 1);
    stalled.reportProgress();
    await eventually(() => [stalled, short, asked].every(({ signal }) => signal.aborted), "all three are lost");
    assert.deepEqual([stalled.lost, short.lost, asked.lost].map((lost) => lost?.lossCause), ["stalled", "max-hold-exceeded", "revoked"]);
    assert.deepEqual(requests, ["please"]);
    for (const lock of ["stalled", "short", "asked"]) await (await b.lock(lock, { wait: "5s" })).release();
  });

  test("an owner enters its lock again, and the last release frees it", async () => {
    const a = client();
    const outer = await a.lock("again", { owner: "o" });
    const inner = await a.lock("again", { owner: "o" });
    assert.equal(inner.token, outer.token);
    await assert.rejects(a.lock("again", { owner: "o", reentrant: false }), RejectedError);
    await outer.release();
    inner.ensure();
    await inner.release();
    assert.equal((await a.lockState("again")).holders.length, 0);
  });

  test("modes: readers together, an upgrade with a new token, a downgrade with the same", async () => {
    const [a, b] = [client(), client()];
    const editor = await a.lock("page", { mode: "upgradable" });
    const reader = await b.lock("page", { mode: "shared" });
    assert.equal(reader.headers()["Fencing-Token"], `${reader.token}; resource="page"; floor=${reader.minValidToken}`);
    await assert.rejects(editor.upgrade({ wait: "200ms" }), BusyError);
    assert.equal(modeOf(editor), "upgradable");
    const before = editor.token;
    const upgrade = editor.upgrade({ wait: "5s" });
    await sleep(200);
    await reader.release();
    await upgrade;
    assert.equal(modeOf(editor), "exclusive");
    assert.ok(editor.token > before);
    const exclusive = editor.token;
    await editor.downgrade();
    assert.deepEqual([editor.token, modeOf(editor)], [exclusive, "shared"]);
    await editor.release();
  });

  test("permits of a semaphore, and a release of some", async () => {
    const [a, b] = [client(), client()];
    const two = await a.semaphore("pool", 3, { permits: 2 });
    assert.deepEqual(two.slots, [0, 1]);
    await assert.rejects(b.semaphore("pool", 3, { permits: 2, wait: 0 }), BusyError);
    await two.releasePermits(1);
    const other = await b.semaphore("pool", 3, { permits: 2, wait: 0 });
    await assert.rejects(two.releasePermits(1), InvalidArgumentError);
    await Promise.all([two.release(), other.release()]);
  });

  test("a multi-lock has a token for each lock, and is released as one", async () => {
    const a = client();
    const both = await a.lockMany(["account/7", "account/9"], { wait: "1s" });
    assert.deepEqual([...both.tokens.keys()], ["account/7", "account/9"]);
    await assert.rejects(client().tryLock("account/9"), BusyError);
    await both.release();
    const again = await a.lockMany(["account/9", "account/7"]);
    await a.forceRelease("account/7", { reason: "test" });
    await eventually(() => again.signal.aborted, "one of the locks is lost");
    assert.throws(() => again.ensure(), LostError);
    await assert.rejects(again.release(), LostError);
    assert.equal((await a.lockState("account/9")).holders.length, 0);
  });

  test("a generated session that ended while idle is replaced; a named one is not", async () => {
    const [a, named] = [client({ ttl: "3s" }), client({ ttl: "3s", session: "named-1" })];
    const first = await a.lock("idle");
    await first.release();
    await (await named.lock("idle")).release();
    await sleep(8_000);
    const second = await a.lock("idle");
    assert.notEqual(second.session, first.session);
    await second.release();
    await assert.rejects(named.lock("idle"), (error) => error instanceof LostError && error.lossCause === "not-renewed");
  });

  test("closing the client releases its locks, and ends its guards", async () => {
    const a = new Client({ addresses: cluster.addresses });
    const guard = await a.lock("closed");
    await a.close();
    assert.equal(guard.lost?.lossCause, "session-ended");
    assert.equal((await client().lockState("closed")).holders.length, 0);
    await assert.rejects(a.lock("closed"), InvalidArgumentError);
  });

  for (const worker of [false, true]) {
    test(`a program that has released its guards ends without close (worker: ${worker})`, async () => {
      const options = JSON.stringify({ addresses: cluster.addresses, worker });
      const program = `const { Client } = require("holdfast");
        new Client(${options}).lock("exit").then((guard) => new Promise((resolve) => setTimeout(() => resolve(guard.release()), 500)))`;
      const child = spawn(process.execPath, ["-e", program], { cwd: join(__dirname, ".."), stdio: "inherit" });
      const [code] = await once(child, "exit", { signal: AbortSignal.timeout(20_000) });
      assert.equal(code, 0);
    });
  }

  test("an election is observed from the leader on", async () => {
    const [a, b] = [client(), client()];
    const leadership = await a.election("primary").campaign("10.0.0.7:5432");
    const seen: ElectionChange[] = [];
    const observer = b.election("primary").observe();
    const observed = (async () => {
      for await (const change of observer) if (seen.push(change) === 4) break;
    })();
    await eventually(() => seen.length === 1, "the leader is seen");
    const next = b.election("primary").campaign("10.0.0.8:5432");
    await leadership.proclaim("10.0.0.7:5433");
    await eventually(() => seen.length === 2, "the new value is seen");
    await eventually(async () => (await a.lockState("elections/primary")).waiters === 1, "the candidate waits");
    await leadership.resign();
    const successor = await next;
    assert.deepEqual(await a.election("primary").leader(), { session: successor.session, token: successor.token, value: "10.0.0.8:5432" });
    await successor.resign();
    await observed;
    const values = seen.map((change) => (change.kind === "leader" ? change.leader.value : change.kind));
    assert.deepEqual(values, ["10.0.0.7:5432", "10.0.0.7:5433", "10.0.0.8:5432", "vacant"]);
  });

  test("latch, barriers and counter", async () => {
    const [a, b] = [client(), client()];
    await a.latch("ready").create(2);
    assert.equal(await a.latch("ready").countDown("eu"), 1);
    assert.equal(await a.latch("ready").countDown("eu"), 1);
    await assert.rejects(b.latch("ready").wait({ wait: 100 }), BusyError);
    const opened = b.latch("ready").wait({ wait: "5s" });
    await a.latch("ready").countDown("us");
    await opened;
    await a.latch("ready").delete();
    const passed = await Promise.all([a, b].map((one) => one.barrier("start", 2).wait({ wait: "5s" })));
    assert.deepEqual(passed.map(({ index }) => index).sort(), [0, 1]);
    const [one, two] = await Promise.all([a, b].map((client) => client.doubleBarrier("batch", 2).enter({ wait: "5s" })));
    await assert.rejects(one!.leave({ wait: 100 }), BusyError);
    await two!.leave({ wait: "5s" });
    assert.equal((await a.counter("hits").add(2n ** 62n)).value, 2n ** 62n);
    assert.equal((await a.counter("hits").add(-1)).value, 2n ** 62n - 1n);
    await a.counter("hits").delete();
  });

  test("the tree: compare-and-set, deletion and a watch", async () => {
    const a = client();
    const watcher = client().watch("/cfg/");
    await watcher.start();
    assert.equal(await a.tree.put("/cfg/x", "one"), 0);
    await assert.rejects(a.tree.put("/cfg/x", "one", { version: -1 }), (error) => error instanceof RejectedError && error.code === "znode-exists");
    assert.equal(await a.tree.put("/cfg/x", "two", { version: 0 }), 1);
    await assert.rejects(a.tree.put("/cfg/x", "three", { version: 0 }), (error) => error instanceof RejectedError && error.code === "version-mismatch");
    assert.equal((await a.tree.get("/cfg/x"))?.data.toString(), "two");
    await a.tree.delete("/cfg/x", { version: 1 });
    assert.equal(await a.tree.get("/cfg/x"), undefined);
    const kinds: string[] = [];
    for await (const change of watcher) if (kinds.push(change.kind) === 3) break;
    assert.deepEqual(kinds, ["created", "changed", "deleted"]);
  });
});
