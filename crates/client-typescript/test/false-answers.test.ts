/** Answers with status 200 of another server: each call fails, and none is taken for a grant, a renewal or a release. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { IncomingMessage, ServerResponse } from "node:http";
import { Client, UnexpectedResponseError, type Guard } from "holdfast";
import { Calls } from "../dist/calls.js";
import { monotonic } from "../dist/clock.js";
import { connectionOf } from "../dist/connection.js";
import { Nodes } from "../dist/nodes.js";
import { eventually } from "./cluster.js";
import { EXPIRED, grant, withServer } from "./node.js";

const BODIES = ["{}", "[]", "null", '{"token":5,"lo', '{"lock":1,"token":"5","value":"1","left":"no"}', "<html>Welcome</html>", ""];
const ROUND = { index: 0, parties: 1, generation: 4 };

/** The answers of a cluster in which nothing special happens. */
function good(request: string, session: string): object {
  if (request.includes("/v1/sessions/")) return { session, incarnation: 7, expires_in_ms: 30_000, holds: [] };
  if (request.startsWith("GET /v1/locks")) return { lock: "t", holders: [{ session, token: 9 }], holders_total: 1, revision: 1 };
  if (request.startsWith("POST /v1/locks")) return { grants: [grant({ lock: "b" }), grant({ lock: "c" })] };
  if (request.includes("barriers")) return ROUND;
  if (request.includes("/txn")) return { results: [{ stat: { kind: "ephemeral" } }] };
  const lock = /locks\/([^?]*)/.exec(request)?.[1] ?? "a";
  return grant({ lock, mode: "upgradable", permits: 2, slots: [0, 1] });
}

/** Runs a test with a client. The first request that matches `pattern` gets the body. */
async function withFalseAnswer(pattern: RegExp, body: string, run: (client: Client, sent: readonly string[]) => Promise<void>): Promise<void> {
  const sent: string[] = [];
  let isFalse = true;
  await withServer((request, response) => {
    const { method = "", url = "" } = request;
    if (url.includes("/keepalive")) return;
    sent.push(`${method} ${url}`);
    if (isFalse && pattern.test(`${method} ${url}`)) {
      isFalse = false;
      response.writeHead(200).end(body);
    } else if (method === "DELETE") response.writeHead(204).end();
    else response.writeHead(200).end(JSON.stringify(good(`${method} ${url}`, "nightly")));
  }, async (address) => {
    const client = new Client({ addresses: [address], session: "nightly" });
    await run(client, sent).finally(() => client.close());
  });
}

const CALLS: Readonly<Record<string, readonly [RegExp, (client: Client, guard: Guard) => Promise<unknown>]>> = {
  "open a session": [/^PUT .*sessions/, () => Promise.resolve()],
  acquire: [/^PUT .*locks\/b/, (client) => client.lock("b", { wait: 0 })],
  "acquire several": [/^POST .*locks/, (client) => client.lockMany(["b", "c"], { wait: 0 })],
  release: [/^DELETE .*locks\/a/, (_, guard) => guard.release()],
  "release several": [/^DELETE .*locks\?/, async (client) => await (await client.lockMany(["b", "c"])).release()],
  "release permits": [/permits=1/, (_, guard) => guard.releasePermits(1)],
  upgrade: [/mode=exclusive/, (_, guard) => guard.upgrade({ wait: 0 })],
  proclaim: [/value=y/, async (client) => await (await client.election("e").campaign("x")).proclaim("y")],
  transfer: [/transfers/, (_, guard) => guard.transfer("other")],
  receive: [/change=0/, (client) => client.receiveTransfer("t", { wait: 0 })],
  "hold durably": [/^PUT .*hold=durable/, (client) => client.holdDurably("d", { owner: "o", reason: "r" })],
  "release a durable hold": [/^DELETE .*hold=durable/, (client) => client.releaseDurable("d", { owner: "o", token: 5 })],
  "force-release": [/force-releases/, (client) => client.forceRelease("a", { reason: "r", token: 5 })],
  "request a release": [/release-requests/, (client) => client.requestRelease("a", { token: 5 })],
  "read a lock": [/^GET .*locks/, (client) => client.lockState("a")],
  "read an election": [/elections/, (client) => client.election("e").leader()],
  "arrive at a barrier": [/^PUT .*barriers/, (client) => client.barrier("b", 1).wait()],
  "leave a barrier": [/^DELETE .*barriers/, async (client) => await (await client.doubleBarrier("b", 1).enter()).leave({ wait: 0 })],
  "create a latch": [/^PUT .*latches/, (client) => client.latch("l").create(1)],
  "count down": [/^POST .*latches/, (client) => client.latch("l").countDown("k")],
  "wait for a latch": [/^GET .*latches/, (client) => client.latch("l").wait({ wait: 0 })],
  "delete a latch": [/^DELETE .*latches/, (client) => client.latch("l").delete()],
  "read a counter": [/^GET .*counters/, (client) => client.counter("c").get()],
  add: [/^POST .*counters/, (client) => client.counter("c").add(1)],
  set: [/^PUT .*counters/, (client) => client.counter("c").set(1)],
  "delete a counter": [/^DELETE .*counters/, (client) => client.counter("c").delete()],
  "read a znode": [/^GET .*tree/, (client) => client.tree.get("/z")],
  "write a znode": [/^PUT .*tree/, (client) => client.tree.put("/z", "")],
  "delete a znode": [/^DELETE .*tree/, (client) => client.tree.delete("/z")],
  watch: [/watch/, (client) => client.watch("/z").next()],
  join: [/txn/, (client) => client.group("g").join()],
  members: [/tree/, (client) => client.group("g").members()],
};

for (const [name, [pattern, call]] of Object.entries(CALLS)) {
  test(`another server answers: ${name}`, async () => {
    for (const body of BODIES) {
      await withFalseAnswer(pattern, body, async (client, sent) => {
        const made = async (): Promise<unknown> => await call(client, await client.lock("a", { mode: "upgradable" }));
        await assert.rejects(made(), UnexpectedResponseError, body);
        const isEnd = /^release( several)?$|^acquire|transfer|receive/.test(name);
        if (isEnd) await eventually(() => sent.some((request) => /^DELETE \/v1\/locks/.test(request)), `the release after ${body}`);
      });
    }
  });
}

const PAGES = [[200, "{}"], [200, "[]"], [200, "<html>Welcome</html>"], [200, ""], [404, "<html>Not found</html>"]] as const;

test("a call that another server answers continues at the next address", async () => {
  for (const [status, page] of PAGES) {
    const answered: string[] = [];
    await withServer((_, response) => response.writeHead(status).end(page), async (foreign) => {
      await withServer((request, response) => {
        answered.push(`${request.method}`);
        response.writeHead(200).end(JSON.stringify(good(`${request.method} ${request.url}`, "s")));
      }, async (address) => {
        const nodes = new Nodes(connectionOf({ addresses: [foreign, address] }));
        const calls = new Calls(nodes, 5_000);
        for (const [method, copies] of [["GET", "harmless"], ["PUT", "repeatable"], ["DELETE", "harmless"]] as const) {
          // The address of the other server is the first of the call.
          nodes.states.answered(0, monotonic());
          nodes.states.prefer(0);
          const { result, inDoubt } = await calls.deliver({ method, target: "/v1/locks/a", copies });
          assert.ok("answer" in result && inDoubt, `${status} ${page}`);
        }
        nodes.states.answered(0, monotonic());
        nodes.states.prefer(0);
        const { result, inDoubt } = await calls.deliver({ method: "POST", target: "/v1/locks/a", copies: "never" });
        assert.ok("error" in result && result.error instanceof UnexpectedResponseError && inDoubt, `${status} ${page}`);
        nodes.close();
      });
    });
    assert.deepEqual(answered, ["GET", "PUT", "DELETE"]);
  }
});

test("the error names each address of another server", async () => {
  const listener = (_: IncomingMessage, response: ServerResponse): unknown => response.writeHead(200).end("<html>");
  await withServer(listener, async (one) => {
    await withServer(listener, async (other) => {
      const client = new Client({ addresses: [one, other] });
      const names = new RegExp(`(?=.*${one} answered 200 without the fields of a node).*${other} answered 200`);
      await assert.rejects(client.lockState("a"), names);
      await client.close();
    });
  });
});

test("another server answers: close a session", async () => {
  for (const body of BODIES) {
    const listener = (request: IncomingMessage, response: ServerResponse): void => {
      const answer = request.method === "DELETE" ? body : JSON.stringify(good(`${request.method} ${request.url}`, "s"));
      response.writeHead(200).end(answer);
    };
    await withServer(listener, async (address) => {
      const client = new Client({ addresses: [address] });
      await client.lock("a");
      await assert.rejects(client.close(), UnexpectedResponseError, body);
    });
  }
});

test("the close of a session that has ended is no error", async () => {
  const listener = (request: IncomingMessage, response: ServerResponse): void => {
    const isEnd = request.method === "DELETE";
    response.writeHead(isEnd ? 410 : 200).end(JSON.stringify(isEnd ? EXPIRED : good(`${request.method} ${request.url}`, "s")));
  };
  await withServer(listener, async (address) => {
    const client = new Client({ addresses: [address] });
    await client.lock("a");
    await client.close();
  });
});

test("another server answers: keepalives renew nothing", async () => {
  await Promise.all(BODIES.map(async (body) => {
    const renewals: boolean[] = [];
    const listener = (request: IncomingMessage, response: ServerResponse): void => {
      const isKeepalive = request.url?.includes("/keepalive") === true;
      const answer = { ...good(`${request.method} ${request.url}`, "s"), expires_in_ms: 1_000 };
      response.writeHead(request.method === "DELETE" ? 204 : 200).end(isKeepalive ? body : JSON.stringify(answer));
    };
    await withServer(listener, async (address) => {
      const client = new Client({ addresses: [address], metrics: { renewed: (_, isRenewed) => renewals.push(isRenewed) } });
      const guard = await client.lock("a");
      await eventually(() => guard.lost !== undefined, `the loss after ${body}`);
      assert.equal(guard.lost?.lossCause, "not-renewed", body);
      assert.ok(renewals.length > 0 && !renewals.includes(true), body);
      await client.close();
    });
  }));
});
