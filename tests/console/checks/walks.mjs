// Checks of a whole walk: with the keyboard alone, on a phone, and behind a path prefix.
import assert from "node:assert/strict";
import { locksPage } from "../src/console.mjs";
import { until } from "../src/cluster.mjs";
import { servePrefix } from "../src/prefix_proxy.mjs";

const FORCE = /force.release/i;
const TABS_MAX = 80;

/** Presses Tab until the focused element matches; the focus must be visible at each step. */
async function tabTo(page, what, matches) {
  for (let step = 0; step < TABS_MAX; step += 1) {
    const focused = await page.evaluate(() => {
      const element = document.activeElement;
      const style = getComputedStyle(element);
      const isMarked = style.outlineStyle !== "none" || style.boxShadow !== "none";
      return { tag: element.tagName, name: element.name ?? "", text: element.innerText ?? "", type: element.type ?? "", isMarked };
    });
    if (focused.tag !== "BODY") assert.ok(focused.isMarked, `the focus is invisible on ${JSON.stringify(focused)}`);
    if (matches(focused)) return;
    await page.keyboard.press("Tab");
  }
  throw new Error(`no ${what} within ${TABS_MAX} steps`);
}

async function queue(cluster, lock, session) {
  await cluster.acquire(lock, session);
  await cluster.acquire(lock, `${session}-next`);
}

async function isFreed(cluster, lock, session) {
  await until("the next holder", async () => (await cluster.lock(lock)).holders[0]?.session === `${session}-next`);
}

export const checks = {
  "with the keyboard alone, an operator finds a stuck lock and force-releases it": async (stage) => {
    const { cluster } = stage;
    await queue(cluster, "walk/keys", "keys");
    await stage.withPage({ as: "operator" }, async (opened, page) => {
      await opened.open("locks");
      await page.keyboard.press("/");
      await page.keyboard.type("walk/keys");
      await page.keyboard.press("Enter");
      await opened.lockRow("walk/keys").first().waitFor();
      await until("only this lock", async () => (await page.locator("tr[data-lock]").count()) === 1);
      await tabTo(page, "link to the lock", ({ tag, text }) => tag === "A" && text.includes("walk/keys"));
      await page.keyboard.press("Enter");
      await opened.holder("keys").first().waitFor();
      await tabTo(page, "force-release", ({ tag, text }) => ["A", "BUTTON", "SUMMARY"].includes(tag) && FORCE.test(text));
      await page.keyboard.press("Enter");
      await page.locator("[name=reason]:visible").first().waitFor();
      await tabTo(page, "reason", ({ name }) => name === "reason");
      await page.keyboard.type("found with the keyboard");
      await tabTo(page, "submit button", ({ tag, type }) => tag === "BUTTON" && type === "submit");
      await page.keyboard.press("Enter");
      await isFreed(cluster, "walk/keys", "keys");
      await opened.holder("keys-next").first().waitFor();
      await page.keyboard.press("?");
      await page.getByText(/keyboard|keys/i).first().waitFor();
    });
  },

  "on a phone, an operator finds the reason of a wait and force-releases the lock": async (stage) => {
    const { cluster } = stage;
    await queue(cluster, "walk/phone", "phone");
    await stage.withPage({ as: "operator", size: [390, 844], hasTouch: true, isMobile: true }, async (opened, page) => {
      await opened.open(locksPage("walk/phone"));
      await opened.lockRow("walk/phone").first().locator("a").first().tap();
      await opened.waiter("phone-next").first().waitFor();
      const force = page.locator("main").getByRole("link", { name: FORCE }).or(page.getByRole("button", { name: FORCE })).first();
      const { width, height } = await force.boundingBox();
      assert.ok(width >= 24 && height >= 24, `a target of ${width} × ${height}`);
      await force.tap();
      await page.locator("[name=reason]:visible").first().fill("from a phone");
      await page.locator("form:has([name=reason]:visible) [type=submit]").first().tap();
      await isFreed(cluster, "walk/phone", "phone");
      await opened.holder("phone-next").first().waitFor();
    });
  },

  "the console works under a path prefix": async (stage) => {
    const { cluster } = stage;
    const proxy = await servePrefix(cluster.url(), "/a/b", cluster.serverFiles());
    await queue(cluster, "walk/prefix", "prefix");
    try {
      await stage.withPage({ base: proxy.url, as: null }, async (opened, page) => {
        await opened.logIn(stage.tokens.operator);
        await opened.open();
        const links = await page.locator("a[href], link[href], script[src], form[action]").evaluateAll((all) =>
          all.map((one) => one.href || one.src || one.action));
        const outside = links.filter((url) => url.startsWith(new URL(proxy.url).origin) && !url.startsWith(`${proxy.url}/`));
        assert.deepEqual(outside, []);
        await page.locator("nav a", { hasText: /locks/i }).first().click();
        await opened.lockRow("walk/prefix").first().locator("a").first().click();
        await opened.holder("prefix").first().waitFor();
        await cluster.acquire("walk/prefix", "prefix-late");
        await opened.waiter("prefix-late").first().waitFor();
        await page.getByRole("button", { name: /log out/i }).first().click();
        await page.waitForURL(/login/);
        assert.deepEqual(page.trouble, []);
        await page.goto(`${proxy.url}/docs`);
        const form = page.locator("details", { hasText: "GET" }).first();
        await form.locator("summary").click();
        await form.getByRole("button").click();
        await form.locator("pre", { hasText: /^[2-4]\d\d\n/ }).waitFor();
        assert.deepEqual(proxy.outside, []);
      });
    } finally {
      proxy.close();
    }
  },
};
