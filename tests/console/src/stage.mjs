// The stage of the checks: one cluster of three nodes with TLS and access tokens, the locks of a small shop, and a browser.
import { Cluster } from "./cluster.mjs";
import { Console } from "./console.mjs";
import { close, openPage, startBrowser } from "./browser.mjs";

/** Locks with their holder, and their waiters in order. */
const SHOP = {
  "shop/orders": ["web-1", "web-2", "web-3", "web-4"],
  "shop/stock": ["batch-1", "web-1"],
  "shop/nightly-report": ["batch-2", "batch-3"],
  "shop/import": ["worker-7"],
  "elections/primary": ["db-a", "db-b"],
};

/** Acquires the locks of the shop. The holder of `shop/orders` waits for `shop/stock`. */
export async function openShop(cluster) {
  for (const [lock, sessions] of Object.entries(SHOP)) {
    for (const session of sessions) {
      // A session has one set of labels, which its first call names.
      const labels = session === "web-1" && lock === "shop/stock" ? {} : { host: `${session}.example`, version: "4.2" };
      const attempt = session === "web-1" && lock === "shop/stock" ? "2" : "1";
      await cluster.acquire(lock, session, { labels, attempt });
    }
  }
}

export class Stage {
  static async open() {
    const [cluster, browser] = await Promise.all([Cluster.start(), startBrowser()]);
    const stage = new Stage(cluster, browser);
    await openShop(cluster);
    stage.tokens = {
      admin: cluster.token,
      operator: await cluster.tokenOf("olga", "operator"),
      viewer: await cluster.tokenOf("vera", "viewer"),
    };
    return stage;
  }

  constructor(cluster, browser) {
    Object.assign(this, { cluster, browser, change: undefined, cookies: {} });
  }

  /** Runs `use` with a page; `as` names the role that is logged in. The page has the node's address, or that of `base`. */
  async withPage({ as = "admin", node = 1, base, ...options }, use) {
    const page = await openPage(this.browser, options);
    try {
      if (this.change) await this.#changePages(page);
      const opened = new Console(page, base ?? this.cluster.url(node));
      if (as) await this.#enter(opened, as);
      return await use(opened, page);
    } catch (error) {
      this.last = await page.screenshot().catch(() => undefined);
      throw error;
    } finally {
      await close(page);
    }
  }

  /** Logs in; once for a role and an address, because a cookie serves all pages. */
  async #enter(opened, as) {
    const key = `${as} ${opened.base}`;
    const context = opened.page.context();
    if (!this.cookies[key]) {
      const page = await openPage(this.browser);
      await new Console(page, opened.base).logIn(this.tokens[as]);
      this.cookies[key] = await page.context().cookies();
      await close(page);
    }
    await context.addCookies(this.cookies[key]);
  }

  /** Passes each HTML page through `change`: a mutation of the console, to see a check fail. */
  async #changePages(page) {
    await page.route("**/ui/**", async (route) => {
      if (route.request().resourceType() !== "document") return route.fallback();
      const reply = await route.fetch();
      return route.fulfill({ response: reply, body: this.change(await reply.text()) });
    });
  }

  async close() {
    await this.browser.close();
    await this.cluster.stop();
  }
}
