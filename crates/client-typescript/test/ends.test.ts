/** Calls that end early or late: what they leave in the cluster, and in the client. A local server plays the node. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { LostError, OutcomeUnknownError, RejectedError, UnexpectedResponseError, type Client, type Metrics } from "holdfast";
import { raiseMark } from "holdfast/pg";
import { eventually } from "./cluster.js";
import { grant, withNode, type Answer } from "./node.js";

test("closing the client ends each wait with a LostError", async () => {
  await withNode(() => undefined, async (client, sent) => {
    const waits = [
      client.lock("a"),
      client.lockMany(["a", "b"]),
      client.election("e").campaign("x"),
      client.barrier("b", 2).wait(),
      client.receiveTransfer("a"),
      client.latch("l").wait(),
    ];
    const results = Promise.allSettled(waits);
    await eventually(() => sent.filter((request) => !request.includes("/sessions/")).length === waits.length, "every wait");
    await client.close();
    for (const result of await results) {
      assert.ok(result.status === "rejected" && result.reason instanceof LostError, String(result.status === "rejected" && result.reason));
    }
  });
});

test("a durable hold whose answer a node withholds is repeated with the same attempt and the rest of the wait", async () => {
  let calls = 0;
  const answer: Answer = (_method, _url, response) => {
    calls += 1;
    if (calls > 1) return { token: 8 };
    // The request timeout is over then.
    setTimeout(() => response.destroy(), 300);
    return undefined;
  };
  await withNode(answer, async (client, sent) => {
    assert.equal(await client.holdDurably("d", { owner: "o", reason: "r", wait: "5m" }), 8);
    const named = sent.map((request) => /^(PUT \/v1\/locks\/d\?hold=durable&owner=o&reason=r&attempt=\d+)&wait=(\d+)ms$/.exec(request));
    assert.deepEqual([named.length, named[0]?.[1]], [2, named[1]?.[1]]);
    assert.ok(Number(named[1]?.[2]) <= Number(named[0]?.[2]) - 300, sent.join(" "));
  }, { requestTimeout: "100ms" });
});

test("the close of the client does not end the wait for a durable hold, which the cluster may still grant", async () => {
  let calls = 0;
  const answer: Answer = () => {
    calls += 1;
    return calls === 1 ? undefined : { token: 8 };
  };
  await withNode(answer, async (client) => {
    const holding = client.holdDurably("d", { owner: "o", reason: "r", wait: "5m" });
    await eventually(() => calls === 1, "the wait");
    await client.close();
    assert.equal(await holding, 8);
  });
});

for (const what of ["watch", "observer", "group"] as const) {
  test(`closing the client ends the iterator of a ${what} with a LostError`, async () => {
    const answer: Answer = (_, url, response) => {
      if (url.includes("/watch") && url.includes("wait=0s")) return { revision: 1, events: [] };
      if (!url.includes("/tree/")) return undefined;
      response.statusCode = 404;
      return { code: "not-found", title: "none" };
    };
    await withNode(answer, async (client, sent) => {
      const watcher = what === "watch" ? client.watch("/x") : what === "group" ? client.group("g").watch() : client.election("e").observe();
      if (what === "group") assert.equal((await watcher.next()).done, false);
      const result = watcher.next().then(String, (error: unknown) => error);
      const part = what === "observer" ? "/elections/" : "wait=20000ms";
      await eventually(() => sent.some((request) => request.includes(part)), "the wait");
      await client.close();
      assert.ok((await result) instanceof LostError);
      await assert.rejects(watcher.next(), LostError);
    });
  });
}

test("a late answer of an upgrade does not restore a released hold", async () => {
  let released: Promise<void> | undefined;
  let guard: Awaited<ReturnType<Client["lock"]>> | undefined;
  const answer: Answer = (method, url) => {
    if (method === "DELETE") return {};
    if (!url.includes("change=")) return grant({ mode: "upgradable" });
    released = guard?.release();
    return grant({ token: 6 });
  };
  await withNode(answer, async (client) => {
    guard = await client.lock("a", { mode: "upgradable" });
    await assert.rejects(guard.upgrade(), LostError);
    await released;
    assert.equal(guard.lost?.lossCause, "released-elsewhere");
  });
});

test("a transfer whose answer is not from a node ends with a release", async () => {
  const answer: Answer = (method) => (method === "PUT" ? grant() : {});
  await withNode(answer, async (client, sent) => {
    const guard = await client.lock("a");
    await assert.rejects(guard.transfer("other"), UnexpectedResponseError);
    await eventually(() => sent.some((request) => request.startsWith("DELETE /v1/locks/a")), "the release");
    assert.ok(guard.lost !== undefined);
  });
});

test("a downgrade pauses after an answer that is not from a node", async () => {
  let changes = 0;
  const answer: Answer = (method, url, response) => {
    if (method === "DELETE" || !url.includes("change=")) return method === "DELETE" ? {} : grant();
    changes += 1;
    if (changes === 3) return grant({ mode: "shared" });
    response.statusCode = 404;
    return {};
  };
  await withNode(answer, async (client) => {
    const guard = await client.lock("a");
    const began = performance.now();
    await guard.downgrade("shared");
    assert.ok(performance.now() - began >= 390, `${performance.now() - began} ms`);
    await guard.release();
  });
});

test("an arrival that is cancelled leaves no place inside a double barrier", async () => {
  await withNode((method) => (method === "DELETE" ? {} : undefined), async (client, sent) => {
    const stop = new AbortController();
    const entering = client.doubleBarrier("b", 2).enter({ signal: stop.signal });
    await eventually(() => sent.some((request) => request.startsWith("PUT /v1/double-barriers/")), "the arrival");
    stop.abort();
    await assert.rejects(entering);
    const deletes = () => sent.filter((request) => request.startsWith("DELETE"));
    await eventually(() => deletes().length === 2, "both calls");
    const [waiting = "", inside = ""] = deletes();
    assert.ok(waiting.startsWith(`${inside}&request=`) && inside.includes("&owner=a-"), deletes().join(" "));
  });
});

test("a leave that is cancelled still leaves the double barrier", async () => {
  const answer: Answer = (method, url) => (method === "PUT" ? { index: 0, parties: 1, generation: 4 } : url.includes("wait=") ? undefined : {});
  await withNode(answer, async (client, sent) => {
    const place = await client.doubleBarrier("b", 1).enter();
    const stop = new AbortController();
    const leaving = place.leave({ signal: stop.signal, wait: "1m" });
    const deletes = () => sent.filter((request) => request.startsWith("DELETE"));
    await eventually(() => deletes().length === 1, "the leave");
    stop.abort();
    await assert.rejects(leaving);
    await eventually(() => deletes().length === 2, "the call without a wait");
    assert.ok(deletes()[1]?.endsWith("&generation=4"), deletes()[1]);
  });
});

for (const releases of ["lost", "page", "not found"]) {
  test(`a release counts when the cluster has confirmed it, and the close of the client counts no loss (${releases})`, async () => {
    const counted: string[] = [];
    const metrics: Metrics = { released: (lock) => counted.push(`${lock} released`), lost: (lock, cause) => counted.push(`${lock} ${cause}`) };
    let mode = releases;
    const answer: Answer = (method, url, response) => {
      if (method === "PUT") return grant({ lock: url.includes("/locks/b") ? "b" : "a" });
      if (mode === "lost") response.destroy();
      if (mode === "not found") response.statusCode = 404;
      if (mode === "page") response.end("<html>Welcome</html>");
      if (mode === "forbidden") response.statusCode = 403;
      return mode === "lost" || mode === "page" ? undefined : mode === "not found" ? {} : { code: "forbidden", title: "no" };
    };
    await withNode(answer, async (client) => {
      const [a, b, c] = [await client.lock("a"), await client.lock("b"), await client.lock("b")];
      await assert.rejects(a.release(), releases === "lost" ? OutcomeUnknownError : UnexpectedResponseError);
      assert.deepEqual(counted, []);
      mode = "confirmed";
      await eventually(() => counted.length > 0, "the release in the background");
      mode = "forbidden";
      await assert.rejects(b.release(), RejectedError);
      await client.close();
      assert.equal(c.lost?.lossCause, "session-ended");
      assert.deepEqual(counted, ["a released"]);
    }, { session: "nightly", metrics, requestTimeout: "300ms" });
  });
}

test("withLock reports a rejected release, but not in place of the error of the work", async () => {
  const answer: Answer = (method, _url, response) => {
    if (method === "PUT") return grant();
    response.statusCode = 403;
    return { code: "forbidden", title: "no" };
  };
  await withNode(answer, async (client) => {
    await assert.rejects(client.withLock("a", () => "done"), RejectedError);
    await assert.rejects(client.withLock("a", () => Promise.reject(new Error("the work failed"))), /the work failed/);
  });
});

test("only a holder that is alone raises the mark of a store to its token", async () => {
  const floors: unknown[] = [];
  const connection = { query: async (_: string, values?: unknown[]) => void (values && floors.push(values[2])) };
  const hold = { lock: "orders", token: 9, minValidToken: 3, session: "s", slots: [], lost: undefined };
  for (const other of [{ mode: "exclusive" }, { mode: "shared" }, { mode: "upgradable" }, { mode: "exclusive", slots: [0] }]) {
    await raiseMark(connection, "orders", { ...hold, ...other });
  }
  assert.deepEqual(floors, [9, 3, 3, 3]);
  // A slot has one holder at a time.
  for (const resource of ["orders#0", "orders#1"]) await raiseMark(connection, resource, { ...hold, mode: "exclusive", slots: [1] });
  assert.deepEqual(floors.slice(4), [3, 9]);
});
