/** The pure core: arithmetic of deadlines, classes of answers, order of nodes, numbers and names. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { AccessToken, tokenIn } from "../dist/access-token.js";
import { bigField, classify } from "../dist/answer.js";
import { advance, newClockState } from "../dist/clock.js";
import { connectionOf } from "../dist/connection.js";
import { apiDuration, toMillis } from "../dist/duration.js";
import { BusyError, InvalidArgumentError, LostError, newestAttempt, RejectedError } from "../dist/errors.js";
import { deadlineOf, Lease, parkTime, renewalPause } from "../dist/lease.js";
import { HoldLimits } from "../dist/limits.js";
import { acquireCall, lockRequest, releaseCall } from "../dist/lock-options.js";
import { causeOfEvent } from "../dist/loss.js";
import { NodeStates } from "../dist/node-states.js";
import { nextNumber } from "../dist/numbers.js";
import { EventParser } from "../dist/sse.js";
import { namedPath, target, treePath } from "../dist/target.js";

const never = Number.POSITIVE_INFINITY;

test("a deadline counts from the sending, less one per cent and five milliseconds", () => {
  assert.equal(deadlineOf({ countedFrom: 1_000, held: 10_000 }), 10_895);
  assert.equal(deadlineOf({ countedFrom: 1_000, held: 3 }), 1_000);
});

test("a deadline that has passed stays passed", () => {
  const lease = new Lease({ countedFrom: 0, held: 1_000 });
  assert.equal(lease.loss(984), undefined);
  lease.renewalFailed("no node");
  assert.deepEqual(lease.loss(985), { cause: "not-renewed", reason: "no node" });
  assert.equal(lease.acknowledge({ countedFrom: 980, held: 1_000 }, 990)?.cause, "not-renewed");
  lease.end({ cause: "session-ended" }, 2_000);
  assert.equal(lease.loss(0)?.cause, "not-renewed");
});

test("a late acknowledgement of an early call does not shorten the lease", () => {
  const lease = new Lease({ countedFrom: 100, held: 1_000 });
  lease.acknowledge({ countedFrom: 50, held: 1_000 }, 200);
  assert.equal(lease.deadline, 1_085);
});

test("keepalives are parked for a sixth of the lease and renewals are due after a third, both with jitter", () => {
  assert.equal(parkTime(30_000, 0), 5_000);
  assert.equal(parkTime(30_000, 1), 4_500);
  assert.equal(parkTime(86_400_000, 0), 45_000);
  assert.equal(renewalPause(30_000, 0.5), 9_500);
});

test("limits of a hold end it once, and a late report does not restore it", () => {
  const limits = new HoldLimits(0, 100);
  limits.reportProgress(90);
  assert.equal(limits.deadline, 190);
  assert.equal(limits.loss(190)?.cause, "stalled");
  limits.reportProgress(191);
  assert.equal(limits.loss(191)?.cause, "stalled");
  const revoked = new HoldLimits(0);
  revoked.revoke(500, "maintenance");
  revoked.revoke(700, "later");
  assert.deepEqual(revoked.loss(500), { cause: "revoked", reason: "maintenance" });
  assert.equal(new HoldLimits(0).deadline, never);
});

test("the clock includes a suspension, ignores the resolution of the uptime, and never runs back", () => {
  const state = newClockState(1_000, 5_000);
  assert.equal(advance(state, 2_000, 6_010), 2_000);
  assert.equal(advance(state, 2_100, 15_100), 2_100 + 9_000 + 10);
  assert.equal(advance(state, 2_200, 15_190), 2_200 + 9_010);
  assert.equal(advance(state, 2_300, 6_300), 2_300 + 9_010, "a clock that is set back");
});

test("calls try the leader first, and nodes that rest last", () => {
  const nodes = new NodeStates(3, 0);
  assert.deepEqual(nodes.order(0), [0, 1, 2]);
  nodes.answered(0, 0, 11, 12);
  assert.deepEqual(nodes.order(0), [1, 2, 0], "the leader is one of the nodes without an answer");
  nodes.answered(2, 0, 12, 12);
  assert.deepEqual(nodes.order(0), [2, 0, 1]);
  nodes.rest(2, 0);
  assert.deepEqual(nodes.order(999), [0, 1, 2]);
  assert.deepEqual(nodes.order(1_000), [2, 0, 1]);
  nodes.rest(2, 1_000);
  assert.equal(nodes.order(2_999)[0], 0, "the second rest is twice as long");
});

test("a keepalive is parked at a node where no call waits, and not at the leader", () => {
  const nodes = new NodeStates(3, 0);
  nodes.answered(0, 0, 11, 11);
  assert.deepEqual(nodes.orderOfIdle(0), [1, 2, 0]);
  nodes.addWaiting(1, 1);
  assert.deepEqual(nodes.orderOfIdle(0), [2, 0, 1]);
});

test("slow clusters get few copies", () => {
  const nodes = new NodeStates(3, 0);
  for (let copies = 0; copies < 10; copies += 1) nodes.copied();
  assert.equal(nodes.copyAfter, 1_000);
  for (let answers = 0; answers < 10; answers += 1) nodes.answeredAlone();
  assert.equal(nodes.copyAfter, 300);
});

function answer(status: number, body: unknown, headers = {}) {
  return classify("http://n1", { status, headers: { "holdfast-request-id": "r1", ...headers }, body: Buffer.from(JSON.stringify(body)) });
}

function problem(code: string, retryable: boolean, facts = {}) {
  return { type: `/errors/${code}`, title: code, status: 400, code, retryable, ...facts };
}

test("an unsuccessful answer is classified by what it means for the call", () => {
  assert.equal(answer(204, {}).kind, "success");
  assert.equal(answer(200, { lock: "a" }).kind, "success");
  for (const page of [{}, [], null, "a web server"]) assert.equal(answer(200, page).kind, "foreign");
  assert.equal(answer(503, problem("no-leader", true)).kind, "not-done");
  assert.equal(answer(503, problem("outcome-unknown", true)).kind, "may-be-done");
  assert.equal(answer(500, problem("internal", false)).kind, "may-be-done");
  for (const page of ["a proxy", { message: "no" }, { code: "E1", message: "no" }, problem("e1", false)]) assert.equal(answer(502, page).kind, "may-be-done");
  for (const page of ["a web server", { code: "E1", message: "no" }]) assert.equal(answer(404, page).kind, "foreign");
  const unexpected = answer(404, "a node", { "holdfast-node": "1" });
  assert.ok(unexpected.kind === "rejected" && unexpected.error.name === "UnexpectedResponseError");
  const ended = answer(410, problem("session-expired", false));
  assert.ok(ended.kind === "rejected" && ended.error instanceof LostError && ended.error.lossCause === "session-ended");
});

test("a busy lock is named with its holder and its queue", () => {
  const holder = { session: "s1", token: 9, held_for_ms: 2_100, labels: { host: "web1" } };
  const busy = answer(423, problem("lock-busy", true, { lock: "orders", holder, waiters: 3, hint: "add wait" }));
  assert.ok(busy.kind === "rejected" && busy.error instanceof BusyError);
  const { error } = busy;
  assert.equal(error.message, 'lock "orders" is held by session "s1" for 2.1s, 3 waiters');
  assert.deepEqual([error.code, error.hint, error.requestId, error.retryable, error.waiters], ["lock-busy", "add wait", "r1", true, 3]);
  assert.equal(error.holder?.token, 9);
});

test("numbers beyond 2^53 keep every digit", () => {
  const body = Buffer.from('{"title":"x","status":409,"code":"attempt-over","retryable":false,"newest_attempt":1793711111111111111}');
  const over = classify("http://n1", { status: 409, headers: {}, body });
  assert.ok(over.kind === "rejected" && over.error instanceof RejectedError);
  assert.equal(newestAttempt(over.error), 1_793_711_111_111_111_111n);
  assert.equal(bigField('{"detail":"\\"value\\":1","value":-9223372036854775808}', "value"), -(2n ** 63n));
});

test("every number is larger than the one before, the newest of the cluster and the clock's", () => {
  assert.equal(nextNumber(0n, 0n, 1_000), 1_000_000n);
  assert.equal(nextNumber(2_000_000n, 0n, 1_000), 2_000_001n);
  assert.equal(nextNumber(2_000_000n, 3_000_000n, 1_000), 3_000_001n);
});

test("durations have units", () => {
  assert.equal(toMillis("1m30s", "wait"), 90_000);
  assert.equal(toMillis("500ms", "wait"), 500);
  assert.equal(toMillis(1.5, "wait"), 1);
  assert.equal(apiDuration(1_500), "1500ms");
  for (const wrong of ["30", "", "1 s", -1, Number.NaN]) {
    assert.throws(() => toMillis(wrong, "wait"), InvalidArgumentError, String(wrong));
  }
});

test("names with every allowed character reach the node unchanged", () => {
  assert.equal(namedPath("locks", "a/b c/ü?#%+&=*'()"), "/v1/locks/a/b%20c/%C3%BC%3F%23%25%2B%26%3D%2A%27%28%29");
  assert.equal(treePath("/"), "/v1/tree");
  assert.equal(treePath("/cfg/x"), "/v1/tree/cfg/x");
  assert.equal(target("/p", { name: ["a", "b"], value: "x y", mode: undefined, revoke: true }), "/p?name=a&name=b&value=x%20y&revoke=true");
  for (const wrong of ["", "a//b", "a/..", ".", "/a", "\ud800"]) {
    assert.throws(() => namedPath("locks", wrong), InvalidArgumentError, JSON.stringify(wrong));
  }
});

test("an acquire and its release name the same attempt", () => {
  const request = lockRequest(["orders"], { wait: "10s", maxHold: "1m", permits: 2, limit: 4, value: "job 7" }, "g-1");
  const acquired = acquireCall(request, { name: "s1", incarnation: 4 }, 17n, 10_000);
  assert.equal(acquired.method, "PUT");
  assert.equal(acquired.target, "/v1/locks/orders?session=s1&incarnation=4&owner=g-1&attempt=17&wait=10000ms&permits=2&limit=4&max_hold=60000ms&value=job%207");
  assert.equal(releaseCall(["orders"], "s1", "g-1", 17n, 5).target, "/v1/locks/orders?session=s1&owner=g-1&attempt=17");
  assert.equal(releaseCall(["orders"], "s1", undefined, 0n, 5).target, "/v1/locks/orders?session=s1&token=5");
  const many = lockRequest(["a", "b"], {}, "g-1");
  assert.equal(acquireCall(many, { name: "s1", incarnation: 4 }, 17n, 0).target, "/v1/locks?name=a&name=b&session=s1&incarnation=4&owner=g-1&attempt=17");
  assert.throws(() => lockRequest(["a", "a"], {}, "g-1"), InvalidArgumentError);
});

test("causes of the cluster have the same words in every client", () => {
  assert.equal(causeOfEvent("handed-over", false), "transferred");
  assert.equal(causeOfEvent("session-closed", false), "session-ended");
  assert.equal(causeOfEvent("max-hold", true), "max-hold-exceeded");
  assert.equal(causeOfEvent("deleted", false), "released-elsewhere");
});

test("events of a stream are complete whatever the bytes of a chunk", () => {
  const bytes = Buffer.from(': comment\n\nid: 7\nevent: leader\ndata: {"v":"ü"}\n\nevent: vac');
  for (let at = 0; at <= bytes.length; at += 1) {
    const parser = new EventParser();
    const events = [...parser.push(bytes.subarray(0, at)), ...parser.push(bytes.subarray(at))];
    assert.deepEqual(events, [{ name: "leader", data: '{"v":"ü"}', id: "7" }]);
    assert.equal(parser.pending, "event: vac".length);
  }
});

test("the file of an access token has the token or the header", () => {
  assert.equal(tokenIn("hf_abc\n"), "hf_abc");
  assert.equal(tokenIn("Authorization: Bearer hf_abc\n"), "hf_abc");
  assert.equal(tokenIn("Authorization: Basic abc"), undefined);
  assert.equal(tokenIn("two words"), undefined);
  assert.equal(tokenIn(""), undefined);
  assert.equal(new AccessToken({ accessToken: "hf_abc\r\n" }).header, "Bearer hf_abc");
  const invalid = (error: Error) => error instanceof InvalidArgumentError && !error.message.includes("secret");
  assert.throws(() => new AccessToken({ accessToken: "hf_secret\r\nx" }), invalid);
});

test("the error of an address or a key has neither a password nor the key", () => {
  const invalid = (error: Error) => error instanceof InvalidArgumentError && !error.message.includes("cret");
  for (const address of ["http://me:se@cret@db1:7400", "me:secret@db1:7400/x", "ftp://me:secret@db1"]) {
    assert.throws(() => connectionOf({ addresses: [address] }), invalid, address);
  }
  assert.throws(() => connectionOf({ certificate: "-----BEGIN", key: "MIIEsecret" }), invalid);
  assert.throws(() => connectionOf({ ca: "MIIEsecret".repeat(1_000) }), invalid);
});
