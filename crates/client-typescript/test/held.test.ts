/** What the client makes of the answers of a cluster, without a cluster: a function answers each call. */
import assert from "node:assert/strict";
import { once } from "node:events";
import os from "node:os";
import { mock, test } from "node:test";
import threads from "node:worker_threads";
import type { StopSignal } from "../dist/abort.js";
import { acquire } from "../dist/acquire.js";
import { classify } from "../dist/answer.js";
import { DoubleBarrier } from "../dist/barriers.js";
import type { Call, Delivery, Route } from "../dist/call.js";
import { Calls } from "../dist/calls.js";
import { monotonic, now } from "../dist/clock.js";
import { connectionOf } from "../dist/connection.js";
import { holdDurably } from "../dist/durable.js";
import { Leadership } from "../dist/election.js";
import { BusyError, LostError, RejectedError, UnavailableError, UnexpectedResponseError } from "../dist/errors.js";
import { Group } from "../dist/group.js";
import { Guard, MultiGuard } from "../dist/guard.js";
import { releaseAll, type HeldLock } from "../dist/held-lock.js";
import { deadlineOf } from "../dist/lease.js";
import { HoldLimits } from "../dist/limits.js";
import { lockRequest, type LockOptions } from "../dist/lock-options.js";
import { Nodes } from "../dist/nodes.js";
import { QueueEntry } from "../dist/queue-entry.js";
import type { Renewals, RenewalReport } from "../dist/renewer.js";
import { Sessions } from "../dist/sessions.js";
import { receive } from "../dist/transfer.js";
import { WorkerRenewals } from "../dist/worker-renewals.js";
import { eventually } from "./cluster.js";

/** A status and a body; undefined if no node answers. */
type Answer = readonly [number, object] | undefined;

const EXPIRED: Answer = [410, { code: "session-expired", title: "The session has ended" }];
const NOT_HOLDER: Answer = [409, { code: "not-holder", title: "The session does not hold the lock" }];
/** The answer of another server. */
const PAGE: Answer = [200, []];

function grant(token: number, more: object = {}) {
  return { lock: "a", mode: "exclusive", token, min_valid_token: token, session: "s", waited_ms: 0, expires_in_ms: 30_000, ...more };
}

/** The answers of a cluster in which nothing special happens. */
function opened({ method, target }: Call): Answer {
  if (method === "DELETE") return [204, {}];
  if (target.startsWith("/v1/sessions/")) return [200, { incarnation: 7, expires_in_ms: 30_000, revision: 3, holds: [] }];
  return [200, grant(5)];
}

/** Calls that a function answers. The requests were sent `ago` before their answers. */
class FakeCalls extends Calls {
  readonly sent: Call[] = [];
  ago = 0;
  /** When the node accepts a call without an answer again. */
  retryAt = 0;
  /** Whether no node answers the call before the client stops it. */
  isHanging: (call: Call) => boolean = () => false;

  constructor(public answerOf: (call: Call) => Answer) {
    super(new Nodes(connectionOf({ addresses: ["127.0.0.1:1"] })), 10_000);
  }

  override withTimeout(): Calls {
    return this;
  }

  override async deliverAt(call: Call, _route: Route, stop?: StopSignal): Promise<Delivery> {
    this.sent.push(call);
    const answer = this.answerOf(call);
    await (this.isHanging(call) ? new Promise<void>((resolve) => stop?.addEventListener("abort", resolve)) : Promise.resolve());
    stop?.throwIfAborted();
    if (answer === undefined) return { result: { error: new UnavailableError("no route", this.retryAt) }, inDoubt: false };
    const [status, body] = answer;
    const outcome = classify("node", { status, headers: {}, body: Buffer.from(JSON.stringify(body)) });
    if (outcome.kind === "success") return { result: { answer: outcome.answer, sent: now() - this.ago }, inDoubt: false };
    if (outcome.kind === "foreign") return { result: { error: new UnexpectedResponseError(outcome.reason) }, inDoubt: true };
    assert.ok(outcome.kind === "rejected");
    return { result: { error: outcome.error }, inDoubt: false };
  }

  targets(method: Call["method"], part = ""): string[] {
    return this.sent.filter((call) => call.method === method && call.target.includes(part)).map(({ target }) => target);
  }
}

/** Delivers the reports that a test gives it. */
class FakeRenewals implements Renewals {
  report: (report: RenewalReport) => void = () => {};

  async ready(): Promise<void> {}

  add(_session: unknown, report: (report: RenewalReport) => void) {
    this.report = report;
    return { use() {}, unuse() {}, reportWithin() {}, stop() {} };
  }

  drain(): void {}

  close(): void {}
}

function client(answerOf: (call: Call) => Answer = opened, session?: string) {
  const [calls, renewals] = [new FakeCalls(answerOf), new FakeRenewals()];
  const sessions = new Sessions(calls, { session, prefix: "t", ttl: undefined, labels: {} }, renewals, {});
  const lock = async (options: LockOptions = {}, ...names: string[]): Promise<HeldLock[]> =>
    await acquire(sessions, lockRequest(["a", ...names], options, "g-1"));
  const lockOne = async (options: LockOptions = {}): Promise<HeldLock> => {
    const [held] = await lock(options);
    assert.ok(held);
    return held;
  };
  return { calls, renewals, sessions, lock, lockOne };
}

/** Waits until the background has sent `count` releases, and its last one is over. */
async function released(calls: FakeCalls, count: number): Promise<void> {
  await eventually(() => calls.targets("DELETE", "/locks").length >= count, `${count} releases`);
  await new Promise((resolve) => setImmediate(resolve));
}

test("a hold ends at the sooner of the requested time and the end in its grant", () => {
  const limits = (maxHold?: number, endsIn?: number): HoldLimits => {
    const created = new HoldLimits(0);
    created.endWithin(maxHold, endsIn, 100);
    return created;
  };
  const end = (held: number): number => deadlineOf({ countedFrom: 100, held });
  assert.equal(limits().deadline, Number.POSITIVE_INFINITY);
  assert.equal(limits(undefined, 8_000).deadline, end(8_000));
  assert.equal(limits(9_000, 8_000).deadline, end(8_000));
  assert.equal(limits(9_000, 20_000).deadline, end(9_000), "the node may have been behind");
  assert.deepEqual(limits(undefined, 8_000).loss(end(8_000)), { cause: "max-hold-exceeded" });
  const known = limits(9_000);
  known.endWithin(undefined, 20_000, 100);
  assert.equal(known.deadline, end(9_000), "the earliest end stays");
});

for (const way of ["acquire", "upgrade", "adoption", "multi-lock"] as const) {
  test(`the guard of ${way} ends at the end in its grant`, async () => {
    const ends = grant(5, { waited_ms: 2_000, ends_in_ms: 8_000 });
    const isChange = way === "upgrade";
    const fake = client((call) => {
      if (call.method === "GET") return [200, { holders: [{ session: "s1", token: 5 }], revision: 9 }];
      if (call.method === "POST") return [200, { grants: [ends, { ...ends, lock: "b" }] }];
      const hasEnd = call.method === "PUT" && call.target.includes("/locks/") && (!isChange || call.target.includes("change="));
      return hasEnd ? [200, ends] : opened(call);
    }, "s1");
    fake.calls.ago = 4_000;
    const before = now();
    const held = way === "adoption" ? [await receive(fake.sessions, "a", { wait: 5_000 })] : await fake.lock({ mode: isChange ? "upgradable" : "exclusive" }, ...(way === "multi-lock" ? ["b"] : []));
    const last = held.at(-1);
    assert.ok(last);
    if (isChange) assert.equal(last.entry.limits.deadline, Number.POSITIVE_INFINITY);
    if (way === "upgrade") await new Guard(last).upgrade();
    const expected = deadlineOf({ countedFrom: before - 4_000 + 2_000, held: 8_000 });
    assert.ok(Math.abs(last.entry.limits.deadline - expected) < 1_000);
    await releaseAll(held);
  });
}

test("the deadline of a release request counts from the answer of the node", async () => {
  const fake = client();
  const held = await fake.lockOne();
  let requests = 0;
  held.entry.requestListeners.add(() => (requests += 1));
  const sent = now() - 6_000;
  const event = { kind: "release-requested", lock: "a", token: 5, wanted_in_ms: 9_000, revoke: true } as const;
  const body = { session: "s", incarnation: 7, ttl_ms: 30_000, waited_ms: 2_000, expires_in_ms: 30_000, events: [event], holds: [{ lock: "a", token: 5 }] };
  fake.renewals.report({ kind: "renewed", sent, answered: now(), body });
  assert.equal(held.entry.limits.deadline, deadlineOf({ countedFrom: sent + 2_000, held: 9_000 }));
  assert.equal(requests, 1);
  await releaseAll([held]);
});

test("a release request in the state of a lock counts from the sending of the read", async () => {
  const fake = client();
  const held = await fake.lockOne();
  let began = 0;
  fake.calls.answerOf = () => {
    // The read takes a moment.
    began = now();
    while (now() < began + 20);
    return [200, { holders: [{ session: held.session.name, token: 5, release_request: { wanted_in_ms: 9_000, revoke: true } }], holders_total: 1 }];
  };
  const body = { session: "s", incarnation: 7, ttl_ms: 30_000, expires_in_ms: 30_000, gap: { until: 1 }, holds: [{ lock: "a", token: 5 }] };
  fake.renewals.report({ kind: "renewed", sent: now(), answered: now(), body });
  await new Promise((resolve) => setImmediate(resolve));
  assert.ok(held.entry.limits.deadline <= deadlineOf({ countedFrom: began, held: 9_000 }));
  fake.calls.answerOf = opened;
  await releaseAll([held]);
});

for (const way of ["after the upgrade", "before the upgrade", "after the answer of the upgrade", "in a gap"]) {
  test(`a release request reaches every guard of an upgraded hold (${way})`, async () => {
    const request = { wanted_in_ms: 9_000, revoke: true };
    const fake = client((call) => {
      if (call.method === "GET") return [200, { holders: [{ session: "nightly", token: 9, release_request: request }], holders_total: 1 }];
      const isGrant = call.method === "PUT" && call.target.includes("/locks/");
      return isGrant ? [200, grant(call.target.includes("change=") ? 9 : 7, { ticket: 5 })] : opened(call);
    }, "nightly");
    const [first, second] = [await fake.lockOne({ mode: "upgradable" }), await fake.lockOne({ mode: "upgradable" })];
    const sent = now() + 1;
    if (way === "after the answer of the upgrade") await new Guard(first).upgrade();
    const granted = { kind: "granted", lock: "a", token: 9 } as const;
    const requested = { kind: "release-requested", lock: "a", token: way === "after the upgrade" ? 9 : 7, ...request } as const;
    const news = way === "in a gap" ? { gap: { until: 1 } } : { events: way === "after the upgrade" ? [granted, requested] : [requested, granted] };
    const body = { session: "nightly", incarnation: 7, ttl_ms: 30_000, expires_in_ms: 30_000, holds: [{ lock: "a", ticket: 5, token: 9 }], ...news };
    fake.renewals.report({ kind: "renewed", sent, answered: now(), body });
    await new Promise((resolve) => setImmediate(resolve));
    for (const { entry } of [first, second]) assert.deepEqual([entry.releaseRequest?.revoke, entry.token], [true, 9]);
    await fake.sessions.close();
  });
}

for (const what of ["lost", "release-requested"] as const) {
  test(`an event names its hold by the ticket (${what})`, async () => {
    const fake = client((call) => {
      if (call.method === "GET") return [200, { holders: [], holders_total: 0 }];
      const isGrant = call.method === "PUT" && call.target.includes("/locks/");
      return isGrant ? [200, grant(7, { ticket: 5 })] : opened(call);
    }, "nightly");
    const [first, second] = [await fake.lockOne({ mode: "upgradable" }), await fake.lockOne({ mode: "upgradable" })];
    const hold = { lock: "a", ticket: 5, token: 9 };
    const isLost = what === "lost";
    // The upgrade of the second guard has no answer yet.
    if (!isLost) second.entry.stage = "converting";
    const events = isLost
      ? [{ kind: "granted", ...hold } as const, { kind: "lost", cause: "force-released", reason: "stuck", ...hold } as const]
      : [{ kind: "release-requested", wanted_in_ms: 9_000, revoke: true, ...hold } as const, { kind: "lost", lock: "a", ticket: 6, token: 11 } as const];
    // The list is of another upgrade, after the one of the event.
    const holds = isLost ? [] : [{ ...hold, token: 11 }];
    const body = { session: "nightly", incarnation: 7, ttl_ms: 30_000, expires_in_ms: 30_000, holds, events };
    fake.renewals.report({ kind: "renewed", sent: now() + 1, answered: now(), body });
    for (const { entry } of [first, second]) {
      const lost = entry.check(first.session.lease, now());
      assert.deepEqual([lost?.lossCause, entry.releaseRequest?.revoke], isLost ? ["force-released", undefined] : [undefined, true]);
    }
    await fake.sessions.close();
  });
}

for (const [code, status, isLost] of [["stale-token", 412, true], ["forbidden", 403, false]] as const) {
  test(`a rejected check of an unlisted hold among many is a loss only if its token is stale (${code})`, async () => {
    const fake = client((call) => {
      if (call.target.startsWith("/v1/fence/")) return [status, { code, title: "no" }];
      return call.method === "GET" ? [200, { holders: [], holders_total: 200 }] : opened(call);
    }, "nightly");
    const held = await fake.lockOne();
    const body = { session: "nightly", incarnation: 7, ttl_ms: 30_000, expires_in_ms: 30_000, holds: [] };
    fake.renewals.report({ kind: "renewed", sent: now() + 1, answered: now(), body });
    await eventually(() => fake.calls.targets("GET", "/fence/").length === 1, "the check of the token");
    await new Promise((resolve) => setImmediate(resolve));
    assert.equal(held.lost !== undefined, isLost);
    await fake.sessions.close();
  });
}

for (const locks of ["many locks", "one lock"]) {
  test(`the work for an answer, an acquire and an upgrade grows with the number of guards, and not with its square (${locks})`, async () => {
    const count = 100;
    const lockOf = (ticket: number): string => (locks === "one lock" ? "a" : `a/${ticket}`);
    const fake = client((call) => {
      const ticket = Number(/owner=g-(\d+)/.exec(call.target)?.[1]);
      if (call.method !== "PUT" || Number.isNaN(ticket)) return opened(call);
      return [200, grant(ticket * 10 + (call.target.includes("change=") ? 2 : 0), { lock: lockOf(ticket), ticket })];
    });
    const lock = async (ticket: number): Promise<HeldLock> => {
      const [held] = await acquire(fake.sessions, lockRequest([lockOf(ticket)], { mode: "upgradable" }, `g-${ticket}`));
      assert.ok(held);
      return held;
    };
    const tickets = Array.from({ length: count }, (_, index) => index + 1);
    const held = await Promise.all(tickets.map(lock));
    const holds = tickets.flatMap((ticket) => [1, 2].map((times) => ({ lock: lockOf(ticket * times), ticket: ticket * times, token: ticket * times * 10 + 1 })));
    const events = tickets.map((ticket) => ({ kind: "release-requested", lock: lockOf(ticket), ticket, token: ticket * 10, wanted_in_ms: ticket }) as const);
    const body = { session: "s", incarnation: 7, ttl_ms: 30_000, expires_in_ms: 30_000, holds, events };
    const [reads, comparisons] = [mock.method(os, "uptime"), mock.method(QueueEntry.prototype, "covers")];
    try {
      for (const [what, work] of [
        ["an answer", () => fake.renewals.report({ kind: "renewed", sent: now() + 1, answered: now(), body })],
        ["an acquire", () => lock(1_000)],
        ["an upgrade", () => held[0] && new Guard(held[0]).upgrade()],
      ] as const) {
        for (const counted of [reads, comparisons]) counted.mock.resetCalls();
        await work();
        assert.ok(reads.mock.callCount() <= 20, `${what} read the clock ${reads.mock.callCount()} times`);
        assert.ok(comparisons.mock.callCount() <= count * 20, `${what} compared ${comparisons.mock.callCount()} entries`);
      }
    } finally {
      mock.restoreAll();
    }
    for (const { entry } of held.slice(1)) assert.deepEqual([entry.token, entry.releaseRequest?.wantedInMs], [(entry.ticket ?? 0) * 10 + 1, entry.ticket]);
    await fake.sessions.close();
  });
}

test("a lock without shards is no shard of another one", () => {
  const entry = new QueueEntry("order", "o", 1n, true);
  assert.deepEqual(["order", "order/3", "orders", "order/3/4"].map((lock) => entry.covers(lock)), [true, true, false, false]);
});

test("a durable hold repeats its attempt while its outcome is uncertain, or its wait is not over", async () => {
  const isOver: Answer = [423, { code: "wait-timeout", title: "no" }];
  let answers: Answer[] = [undefined, isOver, [200, { token: 8 }]];
  const fake = client(() => answers.shift());
  assert.equal(await holdDurably(fake.calls, "d", { owner: "o", reason: "r", wait: "10m" }), 8);
  const sent = fake.calls.targets("PUT");
  assert.equal(sent.length, 3);
  for (const target of sent) assert.match(target, /^\/v1\/locks\/d\?hold=durable&owner=o&reason=r&attempt=\d+&wait=300000ms$/);
  assert.equal(new Set(sent).size, 1, "one attempt");
  for (const [answer, wait] of [[undefined, undefined], [isOver, 0]] as const) {
    answers = [answer, answer];
    await assert.rejects(holdDurably(fake.calls, "d", { owner: "o", reason: "r", wait }), answer === undefined ? UnavailableError : BusyError);
  }
});

test("every acquire and change names the session that it means", async () => {
  const fake = client();
  const held = await fake.lockOne({ mode: "upgradable" });
  await new Guard(held).upgrade();
  await new Leadership(held).proclaim("x");
  await releaseAll([held]);
  const targets = fake.calls.targets("PUT", "/locks/");
  assert.equal(targets.length, 3);
  for (const target of targets) assert.match(target, /&incarnation=7&/);
});

for (const [what, answer] of [["a rejection", NOT_HOLDER], ["another token", [200, grant(6)]]] as const) {
  test(`a leader learns of the loss from ${what} of its new value`, async () => {
    const fake = client();
    const held = await fake.lockOne();
    const leadership = new Leadership(held);
    fake.calls.answerOf = () => answer;
    await assert.rejects(leadership.proclaim("x"), (error) => error instanceof LostError && error.lossCause === "released-elsewhere");
    assert.equal(leadership.lost?.lossCause, "released-elsewhere");
    assert.ok(leadership.signal.aborted);
    fake.calls.answerOf = opened;
    await fake.sessions.close();
  });
}

test("a generated session that has ended is replaced", async () => {
  const fake = client();
  const first = await fake.sessions.live(undefined);
  let isEnded = true;
  fake.calls.answerOf = (call) => {
    if (call.method !== "PUT" || !call.target.includes("/locks/") || !isEnded) return opened(call);
    isEnded = false;
    return EXPIRED;
  };
  const held = await fake.lockOne();
  assert.equal(first.loss()?.cause, "session-ended");
  assert.notEqual(held.session.name, first.name);
  assert.equal(fake.calls.targets("PUT", "/v1/sessions/").length, 2);
  await releaseAll([held]);
});

for (const loss of ["session-ended", "upgrade", "not-renewed"] as const) {
  test(`a named session is never opened again (${loss})`, async () => {
    const fake = client(opened, "nightly");
    const held = await fake.lockOne({ mode: "upgradable" });
    if (loss === "not-renewed") held.session.end({ cause: loss });
    else fake.calls.answerOf = (call) => (call.target.includes("/locks/") ? EXPIRED : opened(call));
    if (loss === "upgrade") await assert.rejects(new Guard(held).upgrade(), LostError);
    for (let times = 0; times < 2; times += 1) await assert.rejects(fake.lock(), LostError);
    assert.ok(held.signal.aborted, "the guards of the session are lost at once");
    assert.equal(fake.calls.targets("PUT", "/v1/sessions/").length, 1);
  });
}

for (const what of ["permits", "group"] as const) {
  test(`a call that finds the end of its session ends the guards (${what})`, async () => {
    const fake = client((call) => {
      if (call.target.startsWith("/v1/txn")) return [200, { results: [] }];
      return call.target.includes("/locks/") ? [200, grant(5, { permits: 2, slots: [0, 1] })] : opened(call);
    });
    const held = await fake.lockOne({ permits: 2, limit: 2 });
    const member = await new Group(fake.sessions, "g").join("x");
    fake.calls.answerOf = () => EXPIRED;
    await assert.rejects(what === "permits" ? new Guard(held).releasePermits(1) : member.setValue("y"), LostError);
    assert.equal(held.lost?.lossCause, "session-ended");
  });
}

test("slots that may be given back are listed no more", async () => {
  const answers: Answer[] = [[403, { code: "forbidden", title: "no" }], undefined, PAGE];
  const permits = grant(5, { permits: 2, slots: [0, 1] });
  const fake = client((call) => {
    if (call.method === "DELETE") return answers.shift();
    return call.target.includes("/locks/") ? [200, permits] : opened(call);
  });
  const guard = new Guard(await fake.lockOne({ permits: 2, limit: 2 }));
  for (const kind of [RejectedError, UnavailableError]) {
    await assert.rejects(guard.releasePermits(1), kind);
    assert.deepEqual(guard.slots, [0, 1]);
  }
  await assert.rejects(guard.releasePermits(1), UnexpectedResponseError);
  assert.deepEqual(guard.slots, [0]);
  fake.calls.answerOf = opened;
  await guard.release();
});

test("a named session releases a guard that the clock has lost, until the outcome is certain", async () => {
  const answers: Answer[] = [undefined, undefined, [409, { code: "attempt-over", title: "over" }]];
  const fake = client((call) => (call.method === "DELETE" ? answers.shift() : opened(call)), "nightly");
  const held = await fake.lockOne();
  held.session.end({ cause: "not-renewed" });
  assert.deepEqual(fake.calls.targets("DELETE"), []);
  for (let times = 0; times < 2; times += 1) {
    await assert.rejects(new Guard(held).release(), (error) => error instanceof LostError && error.lossCause === "not-renewed");
  }
  await released(fake.calls, 3);
  assert.equal(answers.length, 0);
  const targets = new Set(fake.calls.targets("DELETE"));
  assert.deepEqual([...targets], [`/v1/locks/a?session=nightly&owner=g-1&attempt=${held.entry.attempt}`]);
  assert.equal(fake.calls.targets("DELETE").length, 3);
});

for (const way of ["upgrade", "acquire", "renewal"]) {
  test(`the other guards of a hold get the new token (${way})`, async () => {
    const fake = client((call) => {
      const isUpgraded = call.target.includes("mode=exclusive");
      return call.method === "PUT" && call.target.includes("/locks/") ? [200, grant(isUpgraded ? 6 : 5, { ticket: 1 })] : opened(call);
    });
    const [first, second, other] = [await fake.lockOne({ mode: "upgradable" }), await fake.lockOne(), await fake.lockOne({ owner: "other" })];
    other.entry.ticket = 2;
    const holds = [{ lock: "a", ticket: 1, token: 6 }, { lock: "a", ticket: 2, token: 5 }];
    const body = { session: "s", incarnation: 7, ttl_ms: 30_000, expires_in_ms: 30_000, holds };
    if (way === "upgrade") await new Guard(first).upgrade();
    else if (way === "acquire") await fake.lockOne({ mode: "exclusive" });
    else fake.renewals.report({ kind: "renewed", sent: now() + 1, answered: now(), body });
    for (const held of [first, second]) assert.deepEqual([held.lost, held.grant.token, held.entry.token], [undefined, 6, 6]);
    assert.deepEqual([other.grant.token, fake.calls.targets("GET")], [5, []]);
    await fake.sessions.close();
  });
}

test("an upgrade at a node that is behind is repeated, although another guard has the new token", async () => {
  const fake = client((call) => {
    const isGrant = call.method === "PUT" && call.target.includes("/locks/");
    return isGrant ? [200, grant(call.target.includes("change=") ? 9 : 7, { ticket: 5 })] : opened(call);
  });
  const [outer, inner] = [await fake.lockOne({ mode: "upgradable" }), await fake.lockOne({ mode: "upgradable" })];
  const changes = (): number => fake.calls.targets("PUT", "change=").length;
  fake.calls.isHanging = ({ target }) => target.includes("change=") && changes() === 1;
  const upgraded = new Guard(inner).upgrade({ wait: "60s" });
  const body = { session: "s", incarnation: 7, ttl_ms: 30_000, expires_in_ms: 30_000, holds: [{ lock: "a", ticket: 5, token: 9 }] };
  await eventually(() => {
    fake.renewals.report({ kind: "renewed", sent: now() + 1, answered: now(), body });
    return changes() === 2;
  }, "the second call of the upgrade");
  await upgraded;
  assert.deepEqual([outer.grant.token, inner.grant.token, changes()], [9, 9, 2]);
  await fake.sessions.close();
});

for (const [ticket, other] of [[5, 6], [0, 0], [undefined, undefined]] as const) {
  test(`a listed hold of another guard repeats no change (tickets ${ticket} and ${other})`, async () => {
    const fake = client((call) => (call.method === "PUT" && call.target.includes("owner=p&") ? [200, grant(9, { ticket: other })] : opened(call)));
    const [changing, holder] = [await fake.lockOne({ mode: "shared" }), await fake.lockOne({ mode: "shared", owner: "p" })];
    const waiting = new QueueEntry("b", "w", 1n);
    let [repeatedChanges, repeatedAcquires] = [0, 0];
    Object.assign(changing.entry, { ticket, stage: "converting", onGrantedElsewhere: () => (repeatedChanges += 1) });
    waiting.onGrantedElsewhere = () => (repeatedAcquires += 1);
    holder.session.entries.add(waiting);
    const ofLock = (token: number, of: number | undefined) => ({ lock: "a", token, ...(of === undefined ? {} : { ticket: of }) });
    const holds = [ofLock(5, ticket), ofLock(9, other), { lock: "b", ticket: 7, token: 20 }];
    const body = { session: "s", incarnation: 7, ttl_ms: 30_000, expires_in_ms: 30_000, holds };
    await eventually(() => {
      fake.renewals.report({ kind: "renewed", sent: now() + 1, answered: now(), body });
      return repeatedAcquires === 1;
    }, "the repeated acquire of the other lock");
    assert.deepEqual([repeatedChanges, changing.entry.token], [0, 5]);
    await fake.sessions.close();
  });
}

test("a guard whose token the cluster no longer lists releases its claim once", async () => {
  const fake = client();
  const held = await fake.lockOne();
  held.entry.lose({ cause: "released-elsewhere" }, held.session.lease, now());
  for (let times = 0; times < 2; times += 1) await assert.rejects(new Guard(held).release(), LostError);
  await released(fake.calls, 1);
  assert.deepEqual(fake.calls.targets("DELETE"), [`/v1/locks/a?session=${held.session.name}&owner=g-1&attempt=${held.entry.attempt}`]);
});

for (const isLost of [false, true]) {
  test(`the close of the client repeats a paused release at once (lost: ${isLost})`, async () => {
    const fake = client(opened, "nightly");
    const held = await fake.lockOne();
    fake.calls.retryAt = monotonic() + 60_000;
    if (isLost) held.session.end({ cause: "not-renewed" });
    fake.calls.answerOf = () => undefined;
    held.session.releaseInBackground([held.entry]);
    await released(fake.calls, 1);
    fake.calls.answerOf = opened;
    const began = monotonic();
    await fake.sessions.close();
    assert.equal(fake.calls.targets("DELETE", "/locks/").length, 2);
    assert.ok(monotonic() - began < 5_000);
  });
}

test("a named session releases a lost multi-lock with one call", async () => {
  const fake = client((call) => (call.method === "POST" ? [200, { grants: [grant(5), grant(6, { lock: "b" })] }] : opened(call)), "nightly");
  const held = await fake.lock({}, "b");
  held[0]?.session.end({ cause: "not-renewed" });
  await assert.rejects(async () => {
    await using _guard = new MultiGuard(held);
  }, LostError);
  await released(fake.calls, 1);
  assert.match(fake.calls.targets("DELETE")[0] ?? "", /^\/v1\/locks\?name=a&name=b&session=nightly&/);
});

test("late releases end with the client", async () => {
  const fake = client(opened, "nightly");
  const held = await fake.lockOne();
  held.session.end({ cause: "not-renewed" });
  fake.calls.answerOf = () => undefined;
  await assert.rejects(releaseAll([held]), LostError);
  fake.calls.answerOf = () => [409, { code: "attempt-over", title: "over" }];
  await fake.sessions.close();
  assert.equal(fake.calls.targets("DELETE").length, 2, "the close waits for a release in progress");
  assert.equal(held.session.mayRelease, false);
});

test("a place in a double barrier that the clock has lost ends, too", async () => {
  const fake = client((call) => {
    if (call.method === "PUT" && call.target.includes("barriers")) return [200, { index: 0, parties: 1, generation: 4 }];
    return opened(call);
  }, "nightly");
  const place = await new DoubleBarrier(fake.sessions, "b", 1).enter();
  (await fake.sessions.live(undefined)).end({ cause: "not-renewed" });
  await assert.rejects(place.leave(), LostError);
  await eventually(() => fake.calls.targets("DELETE", "generation=4").length === 2, "the place ends");
});

for (const [name, cause] of [[undefined, "not-renewed"], ["nightly", "session-ended"], ["nightly", "force-released"]] as const) {
  test(`no late release of a guard with the loss ${cause} in ${name ?? "a generated session"}`, async () => {
    const fake = client(opened, name);
    const held = await fake.lockOne();
    if (cause === "force-released") held.entry.lose({ cause }, held.session.lease, now());
    else held.session.end({ cause });
    await assert.rejects(releaseAll([held]), LostError);
    await new Promise((resolve) => setImmediate(resolve));
    assert.deepEqual(fake.calls.targets("DELETE", "/locks/"), []);
  });
}

test("the receiver adopts a hold by a call that acquires nothing", async () => {
  const holders = [{ session: "s1", owner: "o", token: 5 }];
  const fake = client((call) => (call.method === "GET" ? [200, { holders, revision: 9 }] : opened(call)), "s1");
  const held = await receive(fake.sessions, "a", { owner: "o", wait: 5_000 });
  await releaseAll([held]);
  const [adoption] = fake.calls.targets("PUT", "/locks/");
  assert.match(adoption ?? "", /^\/v1\/locks\/a\?session=s1&incarnation=7&owner=o&attempt=\d+&change=0$/);
  assert.deepEqual(fake.calls.targets("DELETE"), ["/v1/locks/a?session=s1&owner=o&token=5"]);
});

test("a transferred hold that is gone is not acquired", async () => {
  const fake = client((call) => {
    if (call.method === "GET") return [200, { holders: [{ session: "s1", token: 5 }], revision: 9 }];
    return call.target.includes("/locks/") ? NOT_HOLDER : opened(call);
  }, "s1");
  await assert.rejects(receive(fake.sessions, "a", { wait: 0 }), BusyError);
  assert.match(fake.calls.targets("PUT", "/locks/").join(" "), /^\S*&change=0$/);
  assert.deepEqual(fake.calls.targets("DELETE"), []);
});

test("the release of a lost session does not keep the process alive", async () => {
  const fake = client((call) => (call.method === "DELETE" ? undefined : opened(call)), "s1");
  const held = await fake.lockOne();
  const timers = (): number => process.getActiveResourcesInfo().filter((name) => name === "Timeout").length;
  fake.calls.retryAt = monotonic() + 20_000;
  held.session.end({ cause: "not-renewed" });
  held.session.releaseInBackground([held.entry]);
  await released(fake.calls, 1);
  assert.equal(timers(), 0);
});

test("a paused release does not keep the process alive after the end of the session", async () => {
  const fake = client((call) => (call.method === "DELETE" ? undefined : opened(call)));
  const held = await fake.lockOne();
  const timers = (): number => process.getActiveResourcesInfo().filter((name) => name === "Timeout").length;
  fake.calls.retryAt = monotonic() + 20_000;
  held.session.releaseInBackground([held.entry]);
  await released(fake.calls, 1);
  held.session.end({ cause: "session-ended" });
  assert.equal(timers(), 0);
});

test("a page of another server ends no place in a double barrier, and closes no session", async () => {
  const fake = client((call) => {
    if (call.target.includes("barriers")) return call.method === "PUT" ? [200, { index: 0, parties: 1, generation: 4 }] : PAGE;
    return call.method === "DELETE" ? PAGE : opened(call);
  });
  const place = await new DoubleBarrier(fake.sessions, "b", 1).enter();
  await assert.rejects(place.leave(), UnexpectedResponseError);
  await eventually(() => fake.calls.targets("DELETE", "generation=4").length > 2, "the leave is repeated");
  await assert.rejects(fake.sessions.close(), UnexpectedResponseError);
});

test("a process that cannot start a thread reports failed renewals, and starts one later after growing pauses", async () => {
  const starts = mock.method(threads, "Worker", () => {
    throw new Error("no more threads");
  });
  const renewals = new WorkerRenewals(connectionOf({ addresses: ["127.0.0.1:1"] }));
  try {
    await assert.rejects(renewals.ready(), (error) => error instanceof UnavailableError && /no more threads/.test(error.message));
    const reasons: unknown[] = [];
    const session = renewals.add({ name: "s", incarnation: 1, since: 3, held: 30_000, deadline: now() + 30_000 }, (report) =>
      reasons.push("reason" in report && report.reason),
    );
    const before = starts.mock.callCount();
    session.use(now() + 30_000);
    await new Promise((resolve) => setTimeout(resolve, 1_500));
    assert.ok(starts.mock.callCount() >= before + 2);
    assert.ok(starts.mock.callCount() <= before + 5, `${starts.mock.callCount()} starts`);
    assert.match(String(reasons.at(-1)), /no more threads/);
    starts.mock.restore();
    await once(process, "worker");
    await renewals.ready();
  } finally {
    starts.mock.restore();
    renewals.close();
  }
});
