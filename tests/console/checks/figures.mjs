// Checks that a page shows what the API says, at one revision.
import assert from "node:assert/strict";
import { lockPage, locksPage } from "../src/console.mjs";

const LOADS = 15;

/** The text of one field of a row. */
function field(row, name) {
  return row.locator(`[data-field=${name}]`).innerText();
}

export const checks = {
  "the figures of a page equal the API's": async (stage) => {
    await stage.withPage({}, async (opened) => {
      await opened.open("locks");
      const { locks } = await stage.cluster.get("/v1/locks?prefix=shop/");
      assert.equal(locks.length, 4);
      for (const { lock, waiters, holders } of locks) {
        const row = opened.lockRow(lock);
        assert.equal(await field(row, "waiters"), `${waiters}`, lock);
        assert.equal(await field(row, "token"), `${holders[0].token}`, lock);
        assert.match(await field(row, "holder"), new RegExp(holders[0].session), lock);
      }
      const { leader, nodes } = await stage.cluster.get("/v1/cluster");
      await opened.open("cluster");
      for (const { id } of nodes) {
        const text = await opened.node(id).first().innerText();
        assert.equal(/: leader/i.test(text), id === leader, `node ${id}: ${text}`);
        assert.match(text, /iB free/, `node ${id} shows its disk`);
        assert.match(text, /expires in \d+ d/, `node ${id} shows its certificate`);
        assert.match(text, /every member/, `node ${id} reaches the others`);
      }
      const { sessions } = await stage.cluster.get("/v1/sessions");
      await opened.open("sessions");
      for (const { session } of sessions) await opened.page.locator(`tr[data-session="${session}"]`).first().waitFor();
    });
  },

  "the recipes are those that the API lists, each with its fields": async (stage) => {
    const { cluster } = stage;
    await cluster.ok("PUT", "/v1/latches/recipes/ready?count=3");
    await cluster.ok("POST", "/v1/latches/recipes/ready?key=one");
    await cluster.ok("POST", "/v1/counters/recipes/visits?add=42");
    await stage.withPage({}, async (opened, page) => {
      await opened.open("recipes?below=recipes%2F");
      const { recipes } = await cluster.get("/v1/recipes?prefix=recipes%2F");
      const shown = await page.locator("tr[data-recipe]").evaluateAll((all) => all.map(({ dataset }) => `${dataset.kind} ${dataset.recipe}`));
      assert.deepEqual(shown, recipes.map(({ kind, name }) => `${kind} ${name}`));
      assert.equal(await field(page.locator("tr[data-kind=latch]"), "state"), "2 of 3 left");
      assert.equal(await field(page.locator("tr[data-kind=counter]"), "state"), "42");
      await page.locator("tr[data-kind=counter] a").first().click();
      await page.locator("#recipe", { hasText: "42" }).waitFor();
    });
  },

  "the queue of a lock is in the order of its grants": async (stage) => {
    await stage.withPage({}, async (opened) => {
      await opened.open(lockPage("shop/orders"));
      const shown = await opened.page.locator("[data-waiter]").evaluateAll((all) => all.map((one) => one.dataset.waiter));
      const { queue } = await stage.cluster.lock("shop/orders");
      assert.deepEqual(shown, queue.map(({ session }) => session));
    });
  },

  "a page shows one revision while locks change": async (stage) => {
    const locks = ["pair/one", "pair/two"];
    let busy = true;
    // One call acquires both locks, and one releases both: no revision has only one of them held.
    const work = (async () => {
      for (let attempt = 1; busy; attempt += 1) {
        const query = `${locks.map((lock) => `name=${lock}`).join("&")}&session=pair`;
        await stage.cluster.ok("POST", `/v1/locks?${query}&attempt=${attempt}`);
        await stage.cluster.ok("DELETE", `/v1/locks?${query}&attempt=${attempt}`);
      }
    })();
    const seen = new Set();
    try {
      await stage.withPage({ script: false }, async (opened) => {
        for (let load = 0; load < LOADS; load += 1) {
          await opened.open(locksPage("pair/"));
          const rows = await opened.page.locator("tr[data-lock]").evaluateAll((all) =>
            all.map((row) => row.querySelector("[data-field=holder]").textContent.includes("pair")));
          assert.ok(rows.every((held) => held === rows[0]), `one of two is held: ${rows}`);
          seen.add(rows[0]);
        }
      });
    } finally {
      busy = false;
      await work;
    }
    assert.ok(seen.has(true), "no load saw the locks held");
  },
};
