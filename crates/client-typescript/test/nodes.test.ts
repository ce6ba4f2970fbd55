/** Lost, late, long and cut-off answers, without a cluster: local servers play the nodes. */
import assert from "node:assert/strict";
import { once } from "node:events";
import type { IncomingMessage, ServerResponse } from "node:http";
import { createServer } from "node:net";
import type { AddressInfo, Socket } from "node:net";
import { test } from "node:test";
import { Client, LostError, OutcomeUnknownError, UnavailableError, UnexpectedResponseError } from "holdfast";
import { acquire } from "../dist/acquire.js";
import { get } from "../dist/call.js";
import { Calls } from "../dist/calls.js";
import { monotonic } from "../dist/clock.js";
import { connectionOf } from "../dist/connection.js";
import { HttpClient, SendError } from "../dist/http.js";
import { lockRequest } from "../dist/lock-options.js";
import { Nodes } from "../dist/nodes.js";
import { Observer } from "../dist/observer.js";
import { LocalRenewals } from "../dist/renewer.js";
import { Sessions } from "../dist/sessions.js";
import { eventually } from "./cluster.js";
import { EXPIRED, grant, withNode, withServer, type Answer } from "./node.js";

/** Loses the answer to the first call that has this text. */
function losing(part: string, later: Answer): Answer {
  let isLost = false;
  return (method, url, response) => {
    if (isLost || !url.includes(part)) return later(method, url, response);
    isLost = true;
    response.destroy();
    return undefined;
  };
}

function count(sent: readonly string[], part: string): number {
  return sent.filter((request) => request.includes(part)).length;
}

test("a change in doubt has an unknown outcome after the end of its session", async () => {
  const expired: Answer = (_method, _url, response) => {
    response.statusCode = 410;
    return EXPIRED;
  };
  await withNode(losing("/counters/", expired), async (client, sent) => {
    await assert.rejects(client.counter("c").add(1), OutcomeUnknownError);
    assert.deepEqual([count(sent, "PUT /v1/sessions/"), count(sent, "/counters/")], [1, 2]);
    await assert.rejects(client.counter("c").add(1), LostError);
  });
});

for (const what of ["force-releases", "release-requests"] as const) {
  test(`a call that names no token is not repeated (${what})`, async () => {
    const call = async (client: Client, token?: number): Promise<number> =>
      what === "force-releases" ? await client.forceRelease("a", { reason: "test", token }) : await client.requestRelease("a", { token });
    const done = losing(what, () => ({ ended: 1, asked: 1 }));
    await withNode(done, async (client, sent) => {
      await assert.rejects(call(client), OutcomeUnknownError);
      assert.equal(count(sent, `POST /v1/${what}/a`), 1);
    });
    await withNode(losing(what, () => ({ ended: 1, asked: 1 })), async (client, sent) => {
      assert.equal(await call(client, 5), 1);
      assert.equal(count(sent, `POST /v1/${what}/a`), 2);
    });
  });
}

const ONE_NODE = "watches of one node";
const SUBJECT = "calls_per_second of the subject";

function refusal(status: number, seconds: number, bound?: string): Answer {
  return (_method, _url, response) => {
    response.statusCode = status;
    response.setHeader("retry-after", seconds);
    return { code: "rate-limited", title: "no", retryable: true, bound };
  };
}

const REFUSALS = [
  { name: "a node is unavailable", status: 503, nodes: 1, isPaused: true },
  { name: "another node is not", status: 503, nodes: 2, isPaused: false },
  { name: "a node has as much as it allows", status: 429, bound: ONE_NODE, nodes: 1, isPaused: true },
  { name: "another node has not", status: 429, bound: ONE_NODE, nodes: 2, isPaused: false },
  { name: "a quota of calls is used up", status: 429, bound: SUBJECT, nodes: 1, isPaused: true },
  { name: "it counts at each node", status: 429, bound: SUBJECT, nodes: 2, isPaused: true },
  { name: "the wait goes on after the request timeout", status: 503, nodes: 1, isPaused: true, requestTimeout: 500 },
];

for (const { name, status, bound, nodes, isPaused, requestTimeout } of REFUSALS) {
  test(`a call is repeated after the time of Retry-After (${name})`, async () => {
    const acquires: number[] = [];
    const answer: Answer = (method, url, response) => {
      if (method !== "PUT") return {};
      acquires.push(performance.now());
      return acquires.length === 1 ? refusal(status, 1, bound)(method, url, response) : grant();
    };
    await withNode(answer, async (_, __, first) => {
      await withNode(answer, async (client) => {
        const guard = await client.lock("a", { wait: "20s" });
        await guard.release();
      }, { addresses: nodes === 1 ? [] : [first], requestTimeout });
    });
    const [one = 0, two = 0] = acquires;
    assert.equal(acquires.length, 2);
    assert.equal(two - one >= 1_000, isPaused, `${two - one} ms`);
  });
}

test("a call fails at once if the time of Retry-After is beyond its own", async () => {
  await withNode(refusal(429, 3_600), async (client, sent) => {
    const began = performance.now();
    await assert.rejects(client.lockState("a"), (error) => error instanceof UnavailableError && error.message.includes("rate-limited"));
    assert.ok(performance.now() - began < 10_000);
    assert.equal(count(sent, "GET "), 1);
  }, { requestTimeout: "20s" });
});

test("the next call begins at a node that accepts it", async () => {
  await withNode(refusal(429, 60, ONE_NODE), async (_, toFull, full) => {
    await withNode(refusal(503, 0), async (_client, _sent, other) => {
      const nodes = new Nodes(connectionOf({ addresses: [full, other] }));
      nodes.states.prefer(0);
      await assert.rejects(new Calls(nodes, 500).answer(get("/v1/locks/a")), UnavailableError);
      assert.deepEqual(nodes.states.order(monotonic()), [1, 0]);
      assert.equal(count(toFull, "GET /v1/locks/"), 1);
      nodes.close();
    });
  });
});

for (const seconds of [60, 1]) {
  test(`a leader that refused a call comes last until the time of its Retry-After (${seconds} s)`, async () => {
    const led = (id: number, answer: Answer): Answer => (method, url, response) => {
      response.setHeader("holdfast-node", id).setHeader("holdfast-leader", 1);
      return answer(method, url, response);
    };
    let isFull = false;
    const leader = led(1, (...call) => (isFull ? refusal(429, seconds, ONE_NODE)(...call) : {}));
    await withNode(leader, async (_, toLeader, first) => {
      await withNode(led(2, () => ({})), async (_client, _sent, other) => {
        const nodes = new Nodes(connectionOf({ addresses: [first, other] }));
        const read = async (): Promise<number> => {
          await new Calls(nodes, 5_000).answer(get("/v1/locks/a"));
          return count(toLeader, "GET /v1/locks/");
        };
        nodes.states.prefer(0);
        assert.equal(await read(), 1);
        isFull = true;
        assert.equal(await read(), 2);
        isFull = false;
        if (seconds === 60) assert.deepEqual([await read(), await read()], [2, 2]);
        else await eventually(async () => (await read()) === 3, "a call begins at the leader");
        nodes.close();
      });
    });
  });
}

test("a pause of an acquire ends when a renewal lists the grant", async () => {
  const acquires: string[] = [];
  const answer: Answer = (method, url, response) => {
    if (method !== "PUT") return {};
    return acquires.push(url) > 1 ? grant() : refusal(503, 20)(method, url, response);
  };
  await withNode(answer, async (_client, _sent, address) => {
    const nodes = new Nodes(connectionOf({ addresses: [address] }));
    const naming = { session: undefined, prefix: "t", ttl: undefined, labels: {} };
    const sessions = new Sessions(new Calls(nodes, 10_000), naming, new LocalRenewals(nodes), {});
    const began = performance.now();
    const acquiring = acquire(sessions, lockRequest(["a"], { wait: "60s" }, "g-1"));
    await eventually(() => acquires.length > 0, "an acquire");
    await new Promise((resolve) => setTimeout(resolve, 200));
    for (const entry of (await sessions.live(undefined)).entries) entry.onGrantedElsewhere?.();
    await acquiring;
    assert.ok(performance.now() - began < 10_000);
    nodes.close();
  });
});

for (const bound of [ONE_NODE, SUBJECT]) {
  test(`a stream opens at the first node that accepts it (${bound})`, async () => {
    await withNode(refusal(429, 60, bound), async (_, toFull, full) => {
      await withNode(refusal(503, 0), async (_client, toOther, other) => {
        const nodes = new Nodes(connectionOf({ addresses: [full, other] }));
        nodes.states.prefer(0);
        const naming = { session: undefined, prefix: "t", ttl: undefined, labels: {} };
        const observer = new Observer(new Sessions(new Calls(nodes, 2_000), naming, new LocalRenewals(nodes), {}), "/v1/elections/e");
        await assert.rejects(observer.next(), UnavailableError);
        await observer.return();
        nodes.close();
        assert.equal(count(toFull, "GET /v1/elections/"), 1);
        assert.equal(count(toOther, "GET /v1/elections/") > 1, bound === ONE_NODE);
      });
    });
  });
}

test("an answer that does not end is an error", async () => {
  const part = Buffer.alloc(1_024 * 1_024);
  const write = (response: ServerResponse): void => {
    while (!response.destroyed && response.write(part));
    if (!response.destroyed) response.once("drain", () => write(response));
  };
  await withServer((_, response) => write(response), async (address) => {
    const client = new HttpClient(connectionOf({ addresses: [address] }));
    const long = (error: unknown) => error instanceof SendError && error.mayBeDone && error.message === "the answer is too long";
    await assert.rejects(client.send({ method: "GET", url: `http://${address}/`, timeout: 20_000 }), long);
    client.close();
  });
});

test("an unsuccessful answer that does not end delays a stream no longer than its limit, or its caller", async () => {
  await withServer((_, response) => response.writeHead(503, { "content-length": 100 }).flushHeaders(), async (address) => {
    const nodes = new Nodes(connectionOf({ addresses: [address] }));
    const outcome = await nodes.openAt(0, "/", {}, 300, new AbortController().signal);
    assert.ok("kind" in outcome && outcome.kind === "may-be-done", JSON.stringify(outcome));
    const stop = new AbortController();
    const opening = nodes.openAt(0, "/", {}, 20_000, stop.signal);
    setTimeout(() => stop.abort(), 300);
    const began = Date.now();
    await opening;
    assert.ok(Date.now() - began < 5_000);
    nodes.close();
  });
});

const EVENTS = { "content-type": "text/event-stream" };

function observerOf(nodes: Nodes): Observer {
  const naming = { session: undefined, prefix: "t", ttl: undefined, labels: {} };
  return new Observer(new Sessions(new Calls(nodes, 10_000), naming, new LocalRenewals(nodes), {}), "/v1/elections/e");
}

for (const [status, page] of [[200, "{}"], [200, "<html>Welcome</html>"], [404, "<html>Not found</html>"]] as const) {
  const listener = (_: IncomingMessage, response: ServerResponse): unknown => response.writeHead(status).end(page);

  test(`a stream continues at the address of a node (${status} ${page})`, async () => {
    const event = "id: 7\nevent: vacant\ndata: {}\n\n";
    await withServer(listener, async (foreign) => {
      await withServer((_, response) => void response.writeHead(200, EVENTS).write(event), async (address) => {
        const nodes = new Nodes(connectionOf({ addresses: [foreign, address] }));
        nodes.states.prefer(0);
        const observer = observerOf(nodes);
        assert.equal((await observer.next()).value?.kind, "vacant");
        assert.deepEqual(nodes.states.order(monotonic()), [1, 0]);
        await observer.return();
        nodes.close();
      });
    });
  });

  test(`a stream without the address of a node ends at once (${status} ${page})`, async () => {
    await withServer(listener, async (one) => {
      await withServer(listener, async (other) => {
        const nodes = new Nodes(connectionOf({ addresses: [one, other] }));
        const began = Date.now();
        await assert.rejects(observerOf(nodes).next(), (error: unknown) => {
          return error instanceof UnexpectedResponseError && error.message.includes(one) && error.message.includes(other);
        });
        assert.ok(Date.now() - began < 5_000, `${Date.now() - began} ms`);
        nodes.close();
      });
    });
  });
}

/** The answers of a proxy whose node restarts. */
const PROXY_PAGES = [
  [200, "<html>Welcome</html>"],
  [200, '{"message":"maintenance"}'],
  [404, "<html>Not found</html>"],
  [502, "<html>Bad gateway</html>"],
  [503, '{"code":"UNAVAILABLE","message":"no upstream"}'],
  [503, '{"code":"unavailable","title":"no upstream","status":503}'],
] as const;

/** Runs a test with an address at which a proxy answers with a page, if `isPage` says so, and a node otherwise. */
async function withProxy(page: readonly [number, string], isPage: (url: string) => boolean, run: (address: string) => Promise<void>): Promise<void> {
  let streams = 0;
  await withServer(({ url = "" }, response) => {
    const [status, text] = page;
    const body = (more: object): unknown => response.writeHead(200, { "holdfast-kind": "ephemeral" }).end(JSON.stringify(more));
    if (isPage(url)) return response.writeHead(status).end(text);
    if (url.includes("/elections/")) {
      streams += 1;
      return response.writeHead(200, EVENTS).end(`id: ${streams}\nevent: vacant\ndata: {"revision":${streams}}\n\n`);
    }
    if (url.includes("wait=0s")) return body({ events: [], revision: 1 });
    if (url.includes("/watch")) return body({ events: [{ kind: "created", path: "/groups/g/s2", revision: 2 }], revision: 2 });
    return body({ children: [{ name: "s1", kind: "ephemeral" }] });
  }, run);
}

const OBSERVERS = {
  watch: (client: Client) => client.watch("/groups"),
  group: (client: Client) => client.group("g").watch(),
  observer: (client: Client) => client.election("e").observe(),
} as const;

for (const [what, observe] of Object.entries(OBSERVERS)) {
  for (const page of PROXY_PAGES) {
    test(`a page of a proxy does not end a ${what} that a node has answered (${page.join(" ")})`, async () => {
      const urls: string[] = [];
      let pages = 0;
      // The node answers the first call. The proxy answers each other one first.
      const isPage = (url: string): boolean => {
        const isFirst = urls.length > 0 && !urls.slice(1).includes(url);
        urls.push(url);
        if (isFirst) pages += 1;
        return isFirst;
      };
      await withProxy(page, isPage, async (address) => {
        const client = new Client({ addresses: [address] });
        const changes = observe(client);
        const seen = [(await changes.next()).value, what === "watch" ? undefined : (await changes.next()).value];
        const kinds = seen.map((change) => (change instanceof Map ? [...change.keys()] : change && "kind" in change && change.kind));
        assert.deepEqual(kinds, what === "watch" ? ["created", undefined] : what === "group" ? [["s1"], ["s1", "s2"]] : ["vacant", "vacant"]);
        assert.equal(pages, what === "group" ? 4 : 1);
        await changes.return();
        await client.close();
      });
    });
  }

  test(`a ${what} that only a proxy answers fails after the request timeout, and continues`, async () => {
    let [calls, isDown] = [0, true];
    const isPage = (): boolean => {
      calls += 1;
      return isDown && calls > 1;
    };
    await withProxy(PROXY_PAGES[0], isPage, async (address) => {
      const client = new Client({ addresses: [address], requestTimeout: "500ms" });
      const changes = observe(client);
      if (what === "observer") await changes.next();
      await assert.rejects(changes.next(), (error) => error instanceof UnavailableError && error.message.includes("answered 200"));
      isDown = false;
      assert.equal((await changes.next()).done, false);
      await changes.return();
      await client.close();
    });
  });
}

test("the end of a long stream leaves the request timeout for another one", async () => {
  let calls = 0;
  await withServer((_, response) => {
    calls += 1;
    if (calls === 2) return response.writeHead(502).end("<html>Bad gateway</html>");
    response.writeHead(200, EVENTS).write(calls === 1 ? ": comment\n\n" : "id: 7\nevent: vacant\ndata: {}\n\n");
    // The stream is longer than the request timeout.
    if (calls === 1) setTimeout(() => response.end(), 1_000);
    return undefined;
  }, async (address) => {
    const client = new Client({ addresses: [address], requestTimeout: "500ms" });
    const observer = client.election("e").observe();
    assert.equal((await observer.next()).value?.kind, "vacant");
    assert.equal(calls, 3);
    await observer.return();
    await client.close();
  });
});

test("a node that never answers delays a stream little", async () => {
  const frozen = createServer(() => {}).listen(0, "127.0.0.1");
  await once(frozen, "listening");
  const event = 'id: 7\nevent: leader\ndata: {"leader":{"session":"s","token":4},"revision":7}\n\n';
  await withServer((_, response) => void response.writeHead(200, EVENTS).write(event), async (address) => {
    const nodes = new Nodes(connectionOf({ addresses: [`127.0.0.1:${(frozen.address() as AddressInfo).port}`, address] }));
    nodes.states.prefer(0);
    const observer = observerOf(nodes);
    const began = Date.now();
    const { value } = await observer.next();
    assert.ok(value?.kind === "leader" && value.leader.token === 4);
    // Without a look at the node, its head has 6 s.
    assert.ok(Date.now() - began < 5_000, `${Date.now() - began} ms`);
    await observer.return();
    nodes.close();
  });
  frozen.close();
});

test("an error in the metrics of the program loses no lock", async () => {
  const broken = (): void => {
    throw new Error("broken");
  };
  const answer: Answer = (method) => (method === "DELETE" ? {} : grant());
  await withNode(answer, async (client) => {
    const guard = await client.lock("a");
    assert.equal(guard.token, 5);
    await guard.release();
  }, { metrics: { acquired: broken, released: broken } });
});

test("an acquire is cancelled while the nodes are down", async () => {
  const client = new Client({ addresses: ["127.0.0.1:1"] });
  const stop = new AbortController();
  setTimeout(() => stop.abort(), 100);
  const began = Date.now();
  await assert.rejects(client.lock("a", { signal: stop.signal }), { name: "AbortError" });
  assert.ok(Date.now() - began < 8_000, `${Date.now() - began} ms`);
  await client.close();
});

test("an idle connection is closed before the node closes it", async () => {
  let socket: Socket | undefined;
  await withServer((request, response) => {
    socket = request.socket;
    response.writeHead(200, { "keep-alive": "timeout=2" }).end("{}");
  }, async (address) => {
    const client = new HttpClient(connectionOf({ addresses: [address] }));
    await client.send({ method: "GET", url: `http://${address}/`, timeout: 5_000 });
    assert.ok(socket !== undefined && !socket.readableEnded);
    const began = Date.now();
    await once(socket, "end");
    assert.ok(Date.now() - began < 4_000, `${Date.now() - began} ms`);
    client.close();
  });
});
