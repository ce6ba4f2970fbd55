// What the tests know about the pages: their routes, and how a page marks locks, sessions and figures.

/** The field of each form that proves its origin. */
export const SECRET = "form";

/** The routes of the pages about one thing. */
export const lockPage = (name) => `lock?name=${encodeURIComponent(name)}`;
export const locksPage = (folder) => `locks?below=${encodeURIComponent(folder)}`;
export const searchPage = (text) => `locks?q=${encodeURIComponent(text)}`;
export const sessionPage = (id) => `session?id=${encodeURIComponent(id)}`;
export const treePage = (path) => `tree?path=${encodeURIComponent(path)}`;

/** Every page below `/ui/`. */
export const PAGES = [
  "", "cluster", "locks", lockPage("shop/orders"), "sessions", sessionPage("web-1"), "tree", treePage("/locks"), "recipes",
  "events", "fence", "access", "audit", "about",
];

/** Other subjects see the session `a` of the administrator as `@admin:a`. */
function ofSession(attribute, session) {
  return `:is([${attribute}=${JSON.stringify(session)}], [${attribute}=${JSON.stringify(`@admin:${session}`)}])`;
}

export class Console {
  /** The console behind `base`, the address of a node or of a proxy before it. */
  constructor(page, base) {
    Object.assign(this, { page, base: base.replace(/\/$/, "") });
  }

  url(route = "") {
    return `${this.base}/ui/${route}`;
  }

  async open(route = "") {
    const reply = await this.page.goto(this.url(route), { waitUntil: "load" });
    return reply;
  }

  async logIn(token) {
    await this.open("login");
    await this.page.locator("input[type=password]").fill(token);
    await this.page.locator("form:has(input[type=password]) [type=submit]").click();
    await this.page.waitForURL((url) => !url.pathname.endsWith("/login"));
  }

  lockRow(name) {
    return this.page.locator(`tr[data-lock=${JSON.stringify(name)}]`);
  }

  waiter(session) {
    return this.page.locator(ofSession("data-waiter", session));
  }

  holder(session) {
    return this.page.locator(ofSession("data-holder", session));
  }

  node(id) {
    return this.page.locator(`[data-node="${id}"]`);
  }

  get status() {
    return this.page.locator("[role=status]");
  }
}
