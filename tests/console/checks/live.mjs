// Checks of live pages: changes appear without a reload, also after the death of the leader and of the page's own node.
import assert from "node:assert/strict";
import { lockPage, locksPage } from "../src/console.mjs";
import { until } from "../src/cluster.mjs";

const LIVE_MAX = 500;
const TRIES = 5;

/** Marks the document, which a reload would replace. */
function mark(page) {
  return page.evaluate(() => {
    globalThis.marked = true;
  });
}

async function assertNoReload(page) {
  assert.equal(await page.evaluate(() => globalThis.marked), true, "the page was loaded again");
}

/** Acquires with a new session until the page shows it as a waiter: the page is live again. */
async function becomesLive(stage, opened, lock, node) {
  let number = 0;
  await until("the page shows a new waiter", async () => {
    number += 1;
    const session = `again-${node}-${number}`;
    await stage.cluster.acquire(lock, session, { node });
    await opened.waiter(session).first().waitFor({ timeout: 2_000 });
    return true;
  }, 40_000);
}

export const checks = {
  "a new waiter appears within 500 ms": async (stage) => {
    const { cluster } = stage;
    await cluster.acquire("live/one", "first");
    await stage.withPage({ node: 2 }, async (opened, page) => {
      await opened.open(lockPage("live/one"));
      await opened.holder("first").first().waitFor();
      await mark(page);
      const times = [];
      for (let i = 0; i < TRIES; i += 1) {
        const began = Date.now();
        await cluster.acquire("live/one", `late-${i}`);
        await opened.waiter(`late-${i}`).first().waitFor();
        times.push(Date.now() - began);
      }
      times.sort((a, b) => a - b);
      assert.ok(times[TRIES >> 1] <= LIVE_MAX, `${times} ms`);
      await cluster.release("live/one", "first");
      await opened.holder("late-0").first().waitFor();
      assert.equal(await opened.holder("first").count(), 0);
      await assertNoReload(page);
      assert.deepEqual(page.trouble, []);
    });
  },

  "the list and the overview follow each change": async (stage) => {
    const { cluster } = stage;
    await stage.withPage({}, async (opened, page) => {
      await opened.open(locksPage("follow/"));
      await mark(page);
      await cluster.acquire("follow/new", "f-1");
      await opened.lockRow("follow/new").first().waitFor();
      await cluster.acquire("follow/new", "f-2");
      await opened.lockRow("follow/new").locator("[data-field=waiters]", { hasText: /^\s*1\s*$/ }).waitFor();
      await assertNoReload(page);
    });
  },

  "updates pause in a hidden tab and continue in a visible one": async (stage) => {
    const { cluster } = stage;
    await cluster.acquire("live/hidden", "first");
    await stage.withPage({}, async (opened, page) => {
      let open = 0;
      const isStream = (request) => request.resourceType() === "eventsource" || /events|live/.test(new URL(request.url()).pathname);
      const counts = (by) => (request) => {
        if (isStream(request) && request.resourceType() !== "document") open += by;
      };
      page.on("request", counts(1)).on("requestfinished", counts(-1)).on("requestfailed", counts(-1));
      await opened.open(lockPage("live/hidden"));
      await until("a stream", () => open === 1);
      await setHidden(page, true);
      await until("the end of the stream", () => open === 0);
      await cluster.acquire("live/hidden", "unseen");
      await setHidden(page, false);
      await opened.waiter("unseen").first().waitFor();
      assert.equal(open, 1);
    });
  },

  "a page without a place among the live pages says so, and asks for none until it is shown again": async (stage) => {
    await stage.withPage({}, async (opened, page) => {
      let streams = 0;
      await page.route("**/ui/updates*", (route) => {
        streams += 1;
        return route.fulfill({ contentType: "text/event-stream", body: 'event: full\ndata: "This page is not live."\n\n' });
      });
      await opened.open(lockPage("shop/orders"));
      const told = opened.status.filter({ hasText: "not live" });
      await told.waitFor();
      await page.waitForTimeout(3_000);
      assert.equal(await told.count(), 1);
      // The event `pageshow` may come after the first reply.
      assert.ok(streams <= 2, `${streams} streams`);
    });
  },

  "after the death of the leader a page recovers without a reload, and says what happened": async (stage) => {
    const { cluster } = stage;
    const leader = await cluster.leader();
    const other = leader === 1 ? 2 : 1;
    await cluster.acquire("live/leader", "first", { node: other });
    await withRestart(cluster, leader, () => stage.withPage({ node: other }, async (opened, page) => {
      await opened.open(lockPage("live/leader"));
      await opened.holder("first").first().waitFor();
      await mark(page);
      cluster.command(`kill ${leader}`);
      await opened.status.filter({ hasText: /\blead(er|s)\b/i }).first().waitFor({ timeout: 15_000 });
      await becomesLive(stage, opened, "live/leader", other);
      await assertNoReload(page);
    }));
  },

  "a page whose node is dead names the other nodes, and recovers when it is back": async (stage) => {
    const { cluster } = stage;
    const leader = await cluster.leader();
    const node = leader === 3 ? 2 : 3;
    const others = [1, 2, 3].filter((id) => id !== node);
    await cluster.acquire("live/node", "first");
    await stage.withPage({ node }, async (opened, page) => {
      await withRestart(cluster, node, async () => {
        await opened.open(lockPage("live/node"));
        await opened.holder("first").first().waitFor();
        await mark(page);
        cluster.command(`kill ${node}`);
        for (const id of others) {
          await page.getByText(cluster.host(id), { exact: false }).first().waitFor({ timeout: 15_000 });
        }
      });
      await becomesLive(stage, opened, "live/node", leader);
      await assertNoReload(page);
    });
  },

  "a page whose node is frozen says so, names the other nodes, and recovers when the node goes on": async (stage) => {
    const { cluster } = stage;
    const leader = await cluster.leader();
    const node = leader === 3 ? 2 : 3;
    await cluster.acquire("live/frozen", "first");
    await stage.withPage({ node }, async (opened, page) => {
      await withRestart(cluster, node, async () => {
        await opened.open(lockPage("live/frozen"));
        await opened.holder("first").first().waitFor();
        await mark(page);
        cluster.command(`pause ${node}`);
        await opened.status.filter({ hasText: `Node ${node} does not answer` }).first().waitFor({ timeout: 20_000 });
        for (const id of [1, 2, 3].filter((id) => id !== node)) {
          await page.getByText(cluster.host(id), { exact: false }).first().waitFor();
        }
      }, "resume");
      await becomesLive(stage, opened, "live/frozen", leader);
      await assertNoReload(page);
    });
  },
};

/** Starts or resumes the node after `use`, also one that failed: later checks need every node. */
async function withRestart(cluster, node, use, command = "restart") {
  try {
    await use();
  } finally {
    cluster.command(`${command} ${node}`);
    await healthy(cluster);
  }
}

/** Every node serves again. */
async function healthy(cluster) {
  await until("three healthy nodes", async () => {
    for (let node = 1; node <= cluster.nodes; node += 1) {
      const { nodes } = await cluster.get("/v1/cluster", { node });
      if (!nodes.every(({ healthy }) => healthy)) return false;
    }
    return true;
  }, 30_000);
}

/** Hides or shows the page as a switch of tabs does. Headless Chromium has no tabs to switch. */
function setHidden(page, hidden) {
  return page.evaluate((value) => {
    Object.defineProperty(document, "hidden", { configurable: true, get: () => value });
    Object.defineProperty(document, "visibilityState", { configurable: true, get: () => (value ? "hidden" : "visible") });
    document.dispatchEvent(new Event("visibilitychange"));
  }, hidden);
}
