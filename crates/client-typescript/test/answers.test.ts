/** Lost, late and false answers: each call has one effect, and a guard exists only for a grant. */
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Client, UnexpectedResponseError } from "holdfast";
import { Cluster, eventually, skip } from "./cluster.js";
import { Proxy } from "./proxy.js";

describe("through proxies", { skip }, () => {
  let cluster: Cluster;
  let proxies: Proxy[];
  let client: Client;

  before(async () => {
    cluster = await Cluster.start(32_500);
    await cluster.settled();
    proxies = await Promise.all(cluster.addresses.map((address) => Proxy.start(address)));
    client = new Client({ addresses: proxies.map(({ address }) => address), ttl: "10s" });
  });
  after(async () => {
    await client.close();
    for (const proxy of proxies) proxy.stop();
    await cluster.stop();
  });

  function lose(pattern: RegExp, times = 1): void {
    for (const proxy of proxies) proxy.lose = { pattern, times };
  }

  test("a grant whose answer is lost is one hold, and a release whose answer is lost is one release", async () => {
    for (const wait of [0, 5_000]) {
      lose(/^PUT \/v1\/locks/);
      const guard = await client.lock("lost", { wait });
      assert.deepEqual((await client.lockState("lost")).holders.map(({ token }) => token), [guard.token]);
      lose(/^DELETE \/v1\/locks/);
      await guard.release();
      assert.equal((await client.lockState("lost")).holders.length, 0);
    }
  });

  test("an addition whose answer is lost counts once", async () => {
    lose(/^POST \/v1\/counters/);
    assert.equal((await client.counter("lost").add(5)).value, 5n);
    lose(/^PUT \/v1\/tree/);
    assert.equal(await client.tree.put("/lost", "one", { version: -1 }), 0);
    await client.tree.delete("/lost");
  });

  test("a copy of an acquire that arrives after the release acquires nothing", async () => {
    const guard = await client.lock("late");
    const call = proxies.flatMap(({ calls }) => calls).findLast((call) => call.startsWith("PUT /v1/locks/late"));
    await guard.release();
    const copy = await fetch(`http://${cluster.addresses[0]}${call?.split(" ")[1]}`, { method: "PUT" });
    assert.equal(copy.status, 409);
    assert.equal((await client.lockState("late")).holders.length, 0);
  });

  test("a cancelled acquire gives its attempt up, now and for a late copy", async () => {
    const held = await client.lock("given-up");
    const cancel = new AbortController();
    const waiting = client.lock("given-up", { signal: cancel.signal });
    await eventually(async () => (await client.lockState("given-up")).waiters === 1, "the acquire waits");
    cancel.abort();
    await assert.rejects(waiting, { name: "AbortError" });
    await held.release();
    const call = proxies.flatMap(({ calls }) => calls).findLast((call) => call.startsWith("PUT /v1/locks/given-up"));
    await eventually(async () => (await client.lockState("given-up")).waiters === 0, "the queue is empty");
    const copy = await fetch(`http://${cluster.addresses[0]}${call?.split(" ")[1]}`, { method: "PUT" });
    assert.equal(copy.status, 409);
  });

  test("an answer of another server makes no guard, and ends no renewal", async () => {
    for (const body of ["<html>hello</html>", "{}", "null", "[]"]) {
      const held = await client.lock("held");
      for (const proxy of proxies) proxy.falseBody = body;
      await assert.rejects(client.lock("false", { wait: 0 }), UnexpectedResponseError, body);
      await assert.rejects(client.lockMany(["false/1", "false/2"], { wait: 0 }), UnexpectedResponseError, body);
      await sleep(500);
      for (const proxy of proxies) proxy.falseBody = undefined;
      await sleep(500);
      held.ensure();
      await held.release();
    }
    await eventually(async () => (await client.lockState("false")).holders.length === 0, "nothing is held");
  });

  test("one keepalive at a time renews the session, and a second lock needs none", async () => {
    const guards = await Promise.all(["a", "b", "c"].map((name) => client.lock(`keep/${name}`)));
    await sleep(500);
    const before = proxies.flatMap(({ calls }) => calls).filter((call) => call.includes("keepalive")).length;
    await sleep(5_000);
    const after = proxies.flatMap(({ calls }) => calls).filter((call) => call.includes("keepalive")).length;
    assert.ok(after - before >= 2 && after - before <= 6, `${after - before} keepalives`);
    await Promise.all(guards.map((guard) => guard.release()));
  });
});
