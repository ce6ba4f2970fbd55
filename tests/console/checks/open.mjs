// Checks of a cluster that nobody protects, and of a caller that guesses tokens.
import assert from "node:assert/strict";
import { Cluster } from "../src/cluster.mjs";
import { PAGES, Console } from "../src/console.mjs";
import { close, openPage } from "../src/browser.mjs";
import { openShop } from "../src/stage.mjs";

const GUESSES = 5;

export const checks = {
  "where authorization is off, every page warns": async (stage) => {
    const cluster = await Cluster.start({ nodes: 1, secure: false });
    const page = await openPage(stage.browser);
    try {
      await openShop(cluster);
      const opened = new Console(page, cluster.url());
      for (const route of PAGES) {
        await opened.open(route);
        const warning = await page.locator("[role=alert]").first().innerText();
        assert.match(warning, /authorization is off|every caller/i, `/ui/${route}`);
        assert.deepEqual(page.trouble, [], `/ui/${route}`);
      }
    } finally {
      await close(page);
      await cluster.stop();
    }
  },

  "a guessed token is refused, and counts as a failure of its address": async (stage) => {
    const { cluster } = stage;
    // A node lets an address wait that fails more than 200 times a second, by this count.
    const failures = async () => {
      const { text } = await cluster.call("GET", "/metrics");
      const [, count] = text.match(/^holdfast_callers_refused_total\{port="http",reason="credential"\} (\d+)$/m) ?? [];
      return Number(count ?? 0);
    };
    const before = await failures();
    await stage.withPage({ as: null }, async (opened, page) => {
      for (let guess = 0; guess < GUESSES; guess += 1) {
        await opened.open("login");
        await page.locator("input[type=password]").fill(`hf_guess${guess}`);
        const answer = page.waitForResponse((reply) => reply.request().method() === "POST");
        await page.locator("form:has(input[type=password]) [type=submit]").click();
        assert.equal((await answer).status(), 401);
      }
    });
    assert.ok((await failures()) >= before + GUESSES, `${before} failures before, ${await failures()} after`);
  },
};
