// Checks of every page: it renders without an error, keeps to its policy, fits small screens and passes axe.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { PAGES, lockPage } from "../src/console.mjs";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
/** Rules of WCAG 2.2 AA, and axe's best practices. */
const AXE_TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];
const WEIGHT_MAX = 160 * 1024;

async function everyPage(stage, options, look) {
  await stage.withPage(options, async (opened, page) => {
    for (const route of PAGES) {
      const reply = await opened.open(route);
      assert.equal(reply.status(), 200, `/ui/${route}`);
      await look(page, route, reply);
    }
  });
}

export const checks = {
  "every page renders without an error and asks only its own node": async (stage) => {
    await everyPage(stage, {}, async (page, route) => {
      await page.locator("main h1").waitFor();
      assert.equal(await page.locator("main").count(), 1, `/ui/${route}: one main`);
      assert.notEqual((await page.title()).trim(), "", `/ui/${route}: a title`);
      assert.deepEqual(page.trouble, [], `/ui/${route}`);
      const foreign = page.requests.filter((url) => !url.startsWith(`${stage.cluster.url()}/`));
      assert.deepEqual(foreign, [], `/ui/${route}: requests to others`);
    });
  },

  "no page has a script or a style in it, and the policy forbids both": async (stage) => {
    await everyPage(stage, { script: false }, async (page, route, reply) => {
      const policy = reply.headers()["content-security-policy"] ?? "";
      assert.match(policy, /default-src 'none'/, `/ui/${route}`);
      assert.match(policy, /frame-ancestors 'none'/, `/ui/${route}`);
      assert.doesNotMatch(policy, /unsafe-|\*|https?:/, `/ui/${route}`);
      const tags = (await reply.text()).match(/<[a-z][^>]*>/gi) ?? [];
      const inline = tags.filter((tag) => /\s(on\w+|style)\s*=/i.test(tag) || /^<style|^<script(?![^>]*\ssrc=)/i.test(tag));
      assert.deepEqual(inline, [], `/ui/${route}`);
      // Every page can be read without its script.
      assert.ok((await page.locator("main").innerText()).length > 40, `/ui/${route}`);
    });
  },

  "a page weighs at most 160 KiB": async (stage) => {
    await stage.withPage({}, async (opened, page) => {
      const sizes = [];
      page.on("response", (reply) => {
        if (reply.request().resourceType() === "eventsource") return;
        sizes.push(reply.body().then((body) => body.length, () => 0));
      });
      await opened.open();
      const sum = (await Promise.all(sizes)).reduce((all, size) => all + size, 0);
      assert.ok(sum > 0 && sum <= WEIGHT_MAX, `${sum} bytes`);
    });
  },

  "no page of a phone or at 200 % zoom scrolls sideways": async (stage) => {
    await everyPage(stage, {}, async (page, route) => {
      // At 200 % zoom, a screen of 1280 × 800 has 640 × 400 pixels of the page.
      for (const [width, height] of [[320, 640], [640, 400], [1280, 800]]) {
        await page.setViewportSize({ width, height });
        const wide = await page.evaluate(() => document.scrollingElement.scrollWidth - document.scrollingElement.clientWidth);
        assert.equal(wide, 0, `/ui/${route} is ${wide} wider than ${width} × ${height}`);
      }
    });
  },

  "axe finds no violation on any page in either theme": async (stage) => {
    await stage.withPage({}, async (opened, page) => {
      await page.addInitScript({ content: AXE });
      for (const route of ["login", ...PAGES]) {
        await opened.open(route);
        for (const colorScheme of ["light", "dark"]) {
          await page.emulateMedia({ colorScheme });
          const { violations } = await page.evaluate((tags) => globalThis.axe.run({ runOnly: tags }), AXE_TAGS);
          const found = violations.map(({ id, nodes }) => `${id}: ${nodes[0].html}`);
          assert.deepEqual(found, [], `/ui/${route} in the theme ${colorScheme}`);
        }
      }
    });
  },

  "each theme has its own colours": async (stage) => {
    const background = (theme) => stage.withPage({ theme }, async (opened, page) => {
      await opened.open();
      return page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    });
    assert.notEqual(await background("light"), await background("dark"));
  },

  "the queue of a lock can be read without JavaScript": async (stage) => {
    await stage.withPage({ script: false }, async (opened) => {
      await opened.open(lockPage("shop/orders"));
      await opened.holder("web-1").first().waitFor();
      await opened.waiter("web-4").first().waitFor();
    });
  },
};
