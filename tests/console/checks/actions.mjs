// Checks of actions: what they show before they happen, who may do them, and which requests a node refuses.
import assert from "node:assert/strict";
import { SECRET, lockPage, sessionPage } from "../src/console.mjs";
import { until } from "../src/cluster.mjs";

const FORCE = /force.release/i;

/** Opens the form that force-releases a holder of the lock. */
async function openForm(opened, lock) {
  await opened.open(lockPage(lock));
  await opened.page.locator("main").getByRole("link", { name: FORCE }).or(opened.page.getByRole("button", { name: FORCE })).first().click();
  await opened.page.locator("[name=reason]:visible").first().waitFor();
}

/** The form of the page whose fields a browser would send, with its address. */
function formOf(page) {
  return page.locator("form:has([name=reason])").first().evaluate((form) => ({
    action: form.action,
    fields: Object.fromEntries(new FormData(form)),
  }));
}

async function submit(page) {
  await page.locator("form:has([name=reason]:visible) [type=submit]").first().click();
}

async function queue(cluster, lock) {
  await cluster.acquire(lock, "stuck-1");
  await cluster.acquire(lock, "next-1");
  return (await cluster.lock(lock)).holders[0].token;
}

/** Force-releases the lock in the page, and checks each thing that an operator sees. */
async function forceRelease(stage, opened, lock, reason) {
  const { page } = opened;
  const token = await queue(stage.cluster, lock);
  await openForm(opened, lock);
  const effect = await page.locator("main").innerText();
  assert.match(effect, /stuck-1/, "names the holder that loses the lock");
  assert.match(effect, new RegExp(`\\b${token}\\b`), "names its token");
  assert.match(effect, /next-1/, "names the next holder");
  await page.locator("[name=reason]:visible").first().fill(reason);
  await submit(page);
  await until("the next holder has the lock", async () => (await stage.cluster.lock(lock)).holders[0]?.session === "next-1");
  const { records } = await stage.cluster.get(`/v1/audit?target=${lock}`);
  const record = records.find((one) => one.action === "force-release");
  assert.equal(record?.reason, reason);
  return record;
}

/** The answer to a request that a browser did not send from the console's page. */
function post(stage, url, fields, headers) {
  const body = new URLSearchParams(fields).toString();
  const all = { "content-type": "application/x-www-form-urlencoded", ...headers };
  const { pathname, search } = new URL(url);
  return stage.cluster.call("POST", pathname + search, { token: undefined, headers: all, body });
}

/** The header with the cookies of the page. */
async function cookiesOf(page) {
  const cookies = await page.context().cookies();
  return cookies.map(({ name, value }) => `${name}=${value}`).join("; ");
}

export const checks = {
  "a force-release shows its effect, needs a reason, and leaves an audit record": async (stage) => {
    await stage.withPage({ as: "operator" }, async (opened, page) => {
      const record = await forceRelease(stage, opened, "actions/one", "job 7 is stuck");
      assert.equal(record.subject, "olga");
      await opened.holder("next-1").first().waitFor();
      assert.deepEqual(page.trouble, []);
    });
  },

  "a force-release without a reason is not sent": async (stage) => {
    await stage.withPage({ as: "operator" }, async (opened, page) => {
      const token = await queue(stage.cluster, "actions/none");
      await openForm(opened, "actions/none");
      await submit(page);
      assert.equal(await page.locator("[name=reason]:invalid").count(), 1);
      assert.equal((await stage.cluster.lock("actions/none")).holders[0].token, token);
    });
  },

  "a double click makes one access token": async (stage) => {
    const { cluster } = stage;
    await cluster.ok("PUT", "/v1/auth/subjects/twin?role=viewer");
    await stage.withPage({}, async (opened, page) => {
      await opened.open("act?do=new-token&subject=twin");
      await page.locator("#change [type=submit]").dblclick();
      await page.getByText("The secret appears only here").waitFor();
      const { tokens } = await cluster.get("/v1/auth/tokens");
      assert.equal(tokens.filter(({ subject }) => subject === "twin").length, 1);
    });
  },

  "a force-release works without JavaScript": async (stage) => {
    await stage.withPage({ as: "operator", script: false }, async (opened) => {
      await forceRelease(stage, opened, "actions/plain", "no script");
    });
  },

  "a page that shows a former holder ends nobody's hold, and says so": async (stage) => {
    await stage.withPage({ as: "operator" }, async (opened, page) => {
      await queue(stage.cluster, "actions/stale");
      await openForm(opened, "actions/stale");
      await page.locator("[name=reason]:visible").first().fill("too late");
      const sent = await formOf(page);
      await stage.cluster.release("actions/stale", "stuck-1");
      const cookie = await cookiesOf(page);
      const reply = await post(stage, sent.action, { ...sent.fields, reason: "too late" }, { cookie, origin: stage.cluster.url() });
      assert.equal(reply.status, 409, reply.text.slice(0, 300));
      assert.match(reply.text, /next-1|no holder of .* has the token/);
      assert.equal((await stage.cluster.lock("actions/stale")).holders[0].session, "next-1");
    });
  },

  "a viewer sees no action, and a request of a viewer is refused": async (stage) => {
    await queue(stage.cluster, "actions/view");
    const form = await stage.withPage({ as: "operator" }, async (opened, page) => {
      await openForm(opened, "actions/view");
      return formOf(page);
    });
    await stage.withPage({ as: "viewer" }, async (opened, page) => {
      for (const route of [lockPage("actions/view"), "cluster", sessionPage("stuck-1"), "access"]) {
        await opened.open(route);
        const actions = await page.locator("main form[method=post], main [data-action]").count();
        assert.equal(actions, 0, `/ui/${route}`);
      }
      const cookie = await cookiesOf(page);
      // The secret of the viewer's page, where the page has one, and otherwise the operator's.
      const fields = { ...form.fields, ...(await secretOf(opened)), reason: "forged" };
      const reply = await post(stage, form.action, fields, { cookie, origin: stage.cluster.url() });
      assert.equal(reply.status, 403, reply.text.slice(0, 300));
    });
    assert.equal((await stage.cluster.lock("actions/view")).holders[0].session, "stuck-1");
  },

  "a request of another origin, without an origin or without the page's secret is refused": async (stage) => {
    await queue(stage.cluster, "actions/forged");
    await stage.withPage({ as: "operator" }, async (opened, page) => {
      await openForm(opened, "actions/forged");
      const { action, fields } = await formOf(page);
      const cookie = await cookiesOf(page);
      const own = { cookie, origin: stage.cluster.url() };
      const named = { ...fields, reason: "forged" };
      assert.ok(fields[SECRET], "the form has no secret");
      const { [SECRET]: _, ...bare } = named;
      const forged = {
        "another origin": [named, { cookie, origin: "https://evil.example" }],
        "no origin": [named, { cookie }],
        "another site": [named, { ...own, "sec-fetch-site": "cross-site" }],
        "no secret": [bare, own],
        "a wrong secret": [{ ...named, [SECRET]: "0".repeat(fields[SECRET].length) }, own],
      };
      for (const [what, [body, headers]] of Object.entries(forged)) {
        const reply = await post(stage, action, body, headers);
        assert.equal(reply.status, 403, `${what}: ${reply.text.slice(0, 300)}`);
      }
      const without = await post(stage, action, named, { origin: stage.cluster.url() });
      assert.ok([401, 403, 303].includes(without.status), `without a cookie: ${without.status}`);
      assert.equal((await stage.cluster.lock("actions/forged")).holders[0].session, "stuck-1");
    });
  },

  "the cookie is unreadable for scripts, and its access token ends with the logout": async (stage) => {
    const { cluster } = stage;
    const ids = async () => (await cluster.get("/v1/auth/tokens")).tokens.map(({ id }) => id);
    const before = await ids();
    await stage.withPage({ as: null }, async (opened, page) => {
      await opened.logIn(stage.tokens.admin);
      for (const cookie of await page.context().cookies()) {
        assert.match(cookie.name, /^__Host-holdfast/);
        assert.deepEqual([cookie.httpOnly, cookie.secure, cookie.sameSite, cookie.path], [true, true, "Strict", "/"]);
        assert.ok(!cookie.value.includes(stage.tokens.admin), "a cookie has the access token of the login");
      }
      assert.equal(await page.evaluate(() => document.cookie), "");
      const [added, ...others] = (await cluster.get("/v1/auth/tokens")).tokens.filter(({ id }) => !before.includes(id));
      assert.deepEqual(others, [], "one derived access token");
      assert.ok(Date.parse(added.expires_at) - Date.now() <= 8 * 3_600_000, "it lives for 8 h at most");
      const cookie = await cookiesOf(page);
      const [token] = cookie.match(/hf_[\w-]+/);
      assert.equal((await cluster.call("GET", "/v1/locks", { token })).status, 200);
      await page.getByRole("button", { name: /log out/i }).first().click();
      await page.waitForURL(/login/);
      assert.ok(!(await ids()).includes(added.id), "the derived access token is still there");
      assert.equal((await cluster.call("GET", "/v1/locks", { token })).status, 401);
      const back = await cluster.call("GET", "/ui/locks", { token: undefined, headers: { cookie } });
      assert.ok(!back.text.includes("data-lock="), `the page shows locks: ${back.status}`);
    });
  },

  "a wrong token says so and opens nothing": async (stage) => {
    await stage.withPage({ as: null }, async (opened, page) => {
      await opened.open("login");
      await page.locator("input[type=password]").fill("hf_wrong");
      await page.locator("form:has(input[type=password]) [type=submit]").click();
      await page.locator("[role=alert]").first().waitFor();
      assert.doesNotMatch(await cookiesOf(page), /holdfast=/, "a cookie of a login");
      await opened.open("locks");
      assert.match(page.url(), /login/);
    });
  },
};

/** The hidden field of any form of the page that proves its origin. */
async function secretOf(opened) {
  await opened.open("");
  return { [SECRET]: await opened.page.locator(`form [name=${SECRET}]`).first().inputValue() };
}
