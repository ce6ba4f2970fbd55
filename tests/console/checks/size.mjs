// Checks of 10,000 locks and 1,000 waiters: the page never blocks the browser for long.
import assert from "node:assert/strict";
import { lockPage, locksPage } from "../src/console.mjs";

const LOCKS = 10_000;
const WAITERS = 1_000;
const SET_MAX = 16;
const AT_ONCE = 16;
const TASK_MAX = 100;
const WHEEL_TURNS = 60;

/** Runs `work` for each item, `AT_ONCE` at a time. */
async function forEach(items, work) {
  const iterator = items.values();
  const worker = async () => {
    for (const item of iterator) await work(item);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
}

/** Acquires `count` locks, a set in each call. */
async function fill(cluster, count) {
  const names = Array.from({ length: count }, (_, i) => `many/${`${i}`.padStart(5, "0")}`);
  const sets = [];
  while (names.length > 0) sets.push(names.splice(0, SET_MAX));
  await forEach([...sets.entries()], async ([index, set]) => {
    const query = set.map((name) => `name=${name}`).join("&");
    await cluster.ok("POST", `/v1/locks?${query}&session=many-${index}&attempt=1&ttl=1h`);
  });
}

/**
 * Scrolls through the page while locks change; returns the longest task of the page, in milliseconds of processor time. The
 * browser's own list of long tasks counts the time in which other programs of the machine run.
 */
async function longestTask(stage, opened, route, change) {
  const { page } = opened;
  await opened.open(route);
  await page.locator("main h1").waitFor();
  await page.mouse.move(640, 400);
  await stage.browser.startTracing(page, { categories: ["devtools.timeline", "disabled-by-default-devtools.timeline"] });
  for (let turn = 0; turn < WHEEL_TURNS; turn += 1) {
    await page.mouse.wheel(0, turn % 10 === 9 ? -3_000 : 900);
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(done)));
    if (turn % 6 === 0) await change(turn);
  }
  const { traceEvents } = JSON.parse(await stage.browser.stopTracing());
  const main = new Set(traceEvents.filter(({ args }) => args?.name === "CrRendererMain").map(({ pid, tid }) => `${pid} ${tid}`));
  const tasks = traceEvents.filter(({ name, pid, tid }) => name === "RunTask" && main.has(`${pid} ${tid}`));
  assert.ok(tasks.length > WHEEL_TURNS, `${tasks.length} tasks`);
  return tasks.reduce((longest, { tdur = 0 }) => Math.max(longest, tdur / 1_000), 0);
}

export const checks = {
  "10,000 locks and 1,000 waiters scroll without long tasks": async (stage, report) => {
    const { cluster } = stage;
    await fill(cluster, LOCKS);
    await cluster.acquire("crowd", "crowd-holder");
    await forEach(Array.from({ length: WAITERS }, (_, i) => i), (i) => cluster.acquire("crowd", `crowd-${i}`));
    await stage.withPage({}, async (opened, page) => {
      // A debug build reads 10,000 locks in seconds.
      page.setDefaultNavigationTimeout(60_000);
      for (const route of ["locks", locksPage("many/"), lockPage("crowd"), "sessions", ""]) {
        const longest = await longestTask(stage, opened, route, (turn) =>
          cluster.acquire(route === lockPage("crowd") ? "crowd" : `many/${`${turn}`.padStart(5, "0")}`, `turn-${route.length}-${turn}`));
        report(`/ui/${route}: the longest task takes ${longest.toFixed(1)} ms`);
        assert.ok(longest < TASK_MAX, `/ui/${route}: a task of ${longest} ms`);
      }
      assert.deepEqual(page.trouble, []);
      // The last lock of all can be found.
      await opened.open(locksPage("many/09999"));
      await opened.lockRow("many/09999").first().waitFor();
    });
  },
};
