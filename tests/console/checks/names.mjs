// Checks that names, labels and data never become markup.
import assert from "node:assert/strict";
import { PAGES, lockPage, locksPage, searchPage, sessionPage, treePage } from "../src/console.mjs";
import { path } from "../src/cluster.mjs";

const IMAGE = "<img src=x onerror=alert(1)>";
/** Every character of these is allowed in a name. */
const NAMES = [
  IMAGE, `"><script>alert(1)<`, `'"&lt;&amp;`, "{{7*7}}${7*7}", "a?b=c#d&e", "100%25 %2F%zz", "javascript:alert(1)", "back\\slash",
  "\u05e9\u05dc\u05d5\u05dd/\u0627\u0644\u0642\u0641\u0644", "x", "n".repeat(500), "emoji \u{1f512} \u00fc",
];
const lockOf = (name) => `names/${name}`;
/** Elements that no page has, unless a name became markup. */
const MARKUP = "main img, main script, main i, main iframe";
/** A mark that reverses the direction of the text behind it. */
const OVERRIDE = "\u202e";

async function treeData(stage) {
  const { cluster } = stage;
  const body = `${IMAGE}</textarea></pre><script>alert(1)</script>${OVERRIDE}gnp.exe`;
  await cluster.ok("PUT", `/v1/tree/notes/${path(IMAGE)}?parents`, { body });
  await stage.withPage({}, async (opened, page) => {
    await opened.open(treePage(`/notes/${IMAGE}`));
    const text = await page.locator("main").textContent();
    assert.ok(text.includes("</textarea></pre><script>"), text.slice(0, 500));
    assert.ok(!text.includes(OVERRIDE), "the mark of direction is in the page as it is");
    assert.equal(await page.locator(MARKUP).count(), 0);
    assert.deepEqual(page.trouble, []);
  });
  const refused = await cluster.call("PUT", `/v1/locks/${path(`a${OVERRIDE}b`)}?session=mark&attempt=1`);
  assert.equal(refused.status, 400, "a lock's name with a mark of direction");
}

export const checks = {
  ...(PAGES.includes("tree") ? { "data of the tree is shown as text, and marks of direction are visible": treeData } : {}),

  "names and labels full of markup are shown as text": async (stage) => {
    const { cluster } = stage;
    const sessionOf = (index) => `markup-${index}<i>`;
    for (const [index, name] of NAMES.entries()) {
      const labels = { note: IMAGE, other: `"><svg/onload=alert(1)>`, [`k"${index}`]: "</td></tr></table><h1>" };
      await cluster.acquire(lockOf(name), sessionOf(index), { labels, value: `${IMAGE}</script>` });
    }
    await stage.withPage({}, async (opened, page) => {
      for (const route of ["", locksPage("names/")]) await opened.open(route);
      const links = {};
      for (const name of NAMES.map(lockOf)) links[name] = await opened.lockRow(name).first().locator("a").first().getAttribute("href");
      assert.equal(await page.locator(MARKUP).count(), 0, "the list");
      for (const [index, name] of NAMES.map(lockOf).entries()) {
        // The link in the row leads to this lock, whatever its name has in it.
        await page.goto(new URL(links[name], opened.url()).href);
        await opened.holder(sessionOf(index)).first().waitFor({ state: "attached" });
        const text = await page.locator("main").textContent();
        assert.ok(text.includes(name), `the page of ${name}`);
        assert.ok(text.includes(IMAGE), `the label on the page of ${name}`);
        assert.equal(await page.locator(MARKUP).count(), 0, name);
        assert.deepEqual(page.trouble, [], name);
      }
      await opened.open(searchPage(`">${IMAGE}`));
      assert.equal(await page.locator("img").count(), 0, "the filter");
      assert.deepEqual(page.trouble, []);
    });
  },

  "the longest names of sessions and labels fit a phone": async (stage) => {
    // The prefix `@admin:` of the whole name has 7 bytes.
    const session = "s".repeat(249);
    const labels = Object.fromEntries(Array.from({ length: 16 }, (_, i) => [`${i}`.padStart(64, "k"), "v".repeat(256)]));
    await stage.cluster.acquire("long", session, { labels });
    await stage.withPage({ size: [320, 640] }, async (opened, page) => {
      for (const route of [lockPage("long"), locksPage("names/"), ...(PAGES.includes("sessions") ? [sessionPage(session), "sessions"] : [])]) {
        await opened.open(route);
        const wide = await page.evaluate(() => document.scrollingElement.scrollWidth - document.scrollingElement.clientWidth);
        assert.equal(wide, 0, `/ui/${route.slice(0, 20)}`);
      }
    });
    await stage.cluster.ok("DELETE", `/v1/sessions/${session}`);
  },
};
