/** Changes and releases that the cluster rejects, or that another server answers. A local server plays the node. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Client, LostError, RejectedError, UnexpectedResponseError } from "holdfast";
import { eventually } from "./cluster.js";
import { grant, withNode, withServer, type Answer } from "./node.js";

const FORBIDDEN = { code: "forbidden", title: "no" };

test("a rejected fallback of an upgrade ends no hold", async () => {
  let isRejected = true;
  const answer: Answer = (method, url, response) => {
    if (method === "DELETE") return {};
    if (!url.includes("change=") || !isRejected) return grant({ mode: url.includes("mode=exclusive") ? "exclusive" : "upgradable" });
    const isUpgrade = url.includes("mode=exclusive");
    response.statusCode = isUpgrade ? 200 : 403;
    return isUpgrade ? {} : FORBIDDEN;
  };
  await withNode(answer, async (client) => {
    const guard = await client.lock("a", { mode: "upgradable" });
    await assert.rejects(guard.upgrade({ wait: 0 }), RejectedError);
    guard.ensure();
    assert.equal(guard.mode, "upgradable");
    isRejected = false;
    await guard.upgrade({ wait: 0 });
    await guard.release();
  });
});

for (const isInDoubt of [false, true]) {
  test(`a rejected downgrade ends no hold, and is repeated (an earlier call is in doubt: ${isInDoubt})`, async () => {
    let changes = 0;
    const rejected = isInDoubt ? 2 : 1;
    const answer: Answer = (method, url, response) => {
      if (method === "DELETE" || !url.includes("change=")) return method === "DELETE" ? {} : grant();
      changes += 1;
      if (changes < rejected) return {};
      if (changes > rejected) return grant({ mode: "shared" });
      response.statusCode = 403;
      return FORBIDDEN;
    };
    await withNode(answer, async (client) => {
      const guard = await client.lock("a");
      await assert.rejects(guard.downgrade("shared"), RejectedError);
      guard.ensure();
      assert.equal(guard.mode, isInDoubt ? "shared" : "exclusive");
      await guard.downgrade("shared");
      assert.deepEqual([guard.mode, changes], ["shared", rejected + 1]);
      await guard.release();
    });
  });
}

test("the close of the client ends the pause of a fallback", async () => {
  let fallbacks = 0;
  const answer: Answer = (method, url, response) => {
    if (method === "DELETE" || !url.includes("change=")) return method === "DELETE" ? {} : grant({ mode: "upgradable" });
    if (url.includes("mode=exclusive")) return {};
    fallbacks += 1;
    if (fallbacks > 1) return grant({ mode: "upgradable" });
    response.writeHead(503, { "retry-after": "50" }).end(JSON.stringify({ code: "no-leader", title: "no", retryable: true }));
    return undefined;
  };
  await withNode(answer, async (client) => {
    const guard = await client.lock("a", { mode: "upgradable" });
    const upgraded = assert.rejects(guard.upgrade({ wait: 0 }), UnexpectedResponseError);
    await eventually(() => fallbacks === 1, "the pause of the fallback");
    const began = performance.now();
    await client.close();
    assert.ok(performance.now() - began < 5_000, `${performance.now() - began} ms`);
    assert.equal(fallbacks, 2);
    await upgraded;
  }, { session: "nightly" });
});

test("a release in flight at the close of the client, which another server answers, is repeated at once", async () => {
  let releases = 0;
  let answerLast = (): void => {};
  await withServer((request, response) => {
    const { method, url = "" } = request;
    if (url.includes("/keepalive")) return;
    const session = { session: "s", incarnation: 7, expires_in_ms: 30_000, holds: [] };
    const page = (): void => void response.writeHead(200).end("<html>Welcome</html>");
    if (method !== "DELETE") return void response.writeHead(200).end(JSON.stringify(url.includes("/sessions/") ? session : grant()));
    releases += 1;
    if (releases < 5) page();
    else if (releases === 5) answerLast = page;
    else response.writeHead(204).end();
  }, async (address) => {
    const client = new Client({ addresses: [address], session: "nightly" });
    const guard = await client.lock("a");
    await assert.rejects(guard.release(), UnexpectedResponseError);
    await eventually(() => releases === 5, "the release in flight");
    const closed = client.close();
    const began = performance.now();
    answerLast();
    await closed;
    assert.equal(releases, 6);
    assert.ok(performance.now() - began < 2_000, `${performance.now() - began} ms`);
  });
});

test("a multi-lock that the cluster no longer has is lost", async () => {
  const answer: Answer = (method, _, response) => {
    if (method === "POST") return { grants: [grant(), grant({ lock: "b" })] };
    response.statusCode = 409;
    return { code: "not-holder", title: "no", lock: "b" };
  };
  await withNode(answer, async (client) => {
    const guard = await client.lockMany(["a", "b"]);
    await assert.rejects(guard.release(), (error) => error instanceof LostError && error.lossCause === "released-elsewhere" && error.lock === "b");
    await guard.release();
  });
});
