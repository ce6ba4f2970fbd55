/** Transfers, sharded locks and groups against a real cluster. */
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { BusyError, Client, InvalidArgumentError, LostError } from "holdfast";
import { Cluster, eventually, skip } from "./cluster.js";

describe("transfers, shards and groups", { skip }, () => {
  let cluster: Cluster;
  const clients: Client[] = [];

  before(async () => {
    cluster = await Cluster.start(32_900);
    await cluster.settled();
  });
  after(async () => {
    await Promise.all(clients.map((client) => client.close()));
    await cluster.stop();
  });

  function client(): Client {
    const created = new Client({ addresses: cluster.addresses, ttl: "10s" });
    clients.push(created);
    return created;
  }

  test("the receiver holds the lock with a new token", async () => {
    const [a, b] = [client(), client()];
    const session = await b.openSession();
    session.ensure();
    const guard = await a.lock("transfer/1");
    const token = await guard.transfer(session.name);
    assert.ok(token > guard.token);
    assert.throws(() => guard.ensure(), (error) => error instanceof LostError && error.lossCause === "transferred");
    assert.equal(guard.signal.aborted, false, "the program has given the lock away, so the end is no loss");
    await guard.release();
    const received = await b.receiveTransfer("transfer/1", { wait: "10s" });
    session.close();
    assert.deepEqual([received.token, received.lock, received.mode], [token, "transfer/1", "exclusive"]);
    received.ensure();
    await assert.rejects(a.tryLock("transfer/1"), BusyError);
    await received.downgrade("shared");
    await received.release();
    assert.equal((await a.lockState("transfer/1")).holders.length, 0);
  });

  test("a waiter of the receiver is granted before the queue", async () => {
    const [a, b] = [client(), client()];
    const session = await b.openSession();
    const guard = await a.lock("transfer/2");
    const granted: string[] = [];
    const wait = async (owner: string): Promise<void> => {
      const own = await b.lock("transfer/2", { owner, wait: "20s" });
      granted.push(owner);
      await own.release();
    };
    const first = wait("first");
    await eventually(async () => (await a.lockState("transfer/2")).waiters === 1, "a waiter");
    const heir = wait("heir");
    await eventually(async () => (await a.lockState("transfer/2")).waiters === 2, "two waiters");
    await guard.transfer(session.name, { owner: "heir" });
    await Promise.all([first, heir]);
    assert.deepEqual(granted, ["heir", "first"]);
    session.close();
  });

  test("a refused transfer leaves the lock", async () => {
    const a = client();
    const guard = await a.lock("transfer/3", { owner: "job" });
    await assert.rejects(guard.transfer("nobody-is-there"), InvalidArgumentError);
    guard.ensure();
    await assert.rejects(guard.transfer(""), InvalidArgumentError);
    const again = await a.lock("transfer/3", { owner: "job" });
    await assert.rejects(guard.transfer("nobody-is-there"), InvalidArgumentError);
    await again.release();
    const { holders } = await a.lockState("transfer/3");
    assert.deepEqual(holders.map(({ token }) => token), [guard.token]);
    await guard.release();
  });

  test("no transfer is busy, and acquires nothing", async () => {
    const a = client();
    await assert.rejects(a.receiveTransfer("transfer/4", { wait: 300 }), (error) => error instanceof BusyError && error.code === "not-yet");
    const cancel = new AbortController();
    const waiting = a.receiveTransfer("transfer/4", { signal: cancel.signal });
    cancel.abort(new Error("enough"));
    await assert.rejects(waiting, /enough/);
    assert.equal((await a.lockState("transfer/4")).holders.length, 0);
  });

  test("each shard is a separate lock", async () => {
    const a = client();
    const guards = [];
    for (let index = 0; index < 3; index += 1) guards.push(await a.lock("shards/1", { shards: 3, wait: 0 }));
    assert.deepEqual(guards.map((guard) => guard.lock).sort(), ["shards/1/0", "shards/1/1", "shards/1/2"]);
    await assert.rejects(a.lock("shards/1", { shards: 3, wait: 0 }), BusyError);
    const second = guards.find(({ shard }) => shard === 1);
    assert.ok(second);
    await second.release();
    const again = await a.lock("shards/1", { shard: 1, mode: "upgradable", wait: 0 });
    await again.upgrade({ wait: "5s" });
    assert.ok(again.token > second.token);
    assert.equal(again.shard, 1);
    again.ensure();
    for (const guard of [...guards, again]) await guard.release();
  });

  test("a group lists its members until they leave", async () => {
    const [a, b] = [client(), client()];
    const group = a.group("web");
    const watcher = b.group("web").watch();
    const expect = async (wanted: Record<string, string>): Promise<void> => {
      assert.deepEqual(Object.fromEntries((await watcher.next()).value ?? []), wanted);
      assert.deepEqual(Object.fromEntries(await group.members()), wanted);
    };
    await expect({});
    const one = await group.join("10.0.0.1:80");
    await expect({ [one.session]: "10.0.0.1:80" });
    await one.setValue("10.0.0.1:81");
    await expect({ [one.session]: "10.0.0.1:81" });
    const below = await a.group("web/eu").join("of another group");
    const two = await b.group("web").join("10.0.0.2:80");
    await expect({ [one.session]: "10.0.0.1:81", [two.session]: "10.0.0.2:80" });
    await one.leave();
    await one.leave();
    await expect({ [two.session]: "10.0.0.2:80" });
    await assert.rejects(one.setValue("late"), LostError);
    two.ensure();
    await below.leave();
    await watcher.return();
    // The end of the session ends the membership.
    await b.close();
    assert.equal((await group.members()).size, 0);
    assert.throws(() => two.ensure(), LostError);
  });
});
