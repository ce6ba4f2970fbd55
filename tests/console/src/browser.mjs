// Chromium, and pages that record each console error, each failed request and each request to another host.
import { setTimeout } from "node:timers/promises";
import { chromium } from "playwright-core";

const CLOSE_MAX = 5_000;
const PROGRAM = process.env.CHROMIUM ?? "/usr/bin/chromium";

/** Starts Debian's Chromium. It reaches no other machine: every other name resolves to nothing. */
export function startBrowser() {
  const args = [
    "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-proxy-server", "--force-device-scale-factor=1",
    "--disable-background-networking", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
  ];
  return chromium.launch({ executablePath: PROGRAM, args });
}

/** A page that nobody has logged in. `trouble` has a line for each error that it had, `requests` every address that it asked for. */
export async function openPage(browser, { theme = "light", size = [1280, 800], script = true, scale = 1, ...more } = {}) {
  const context = await browser.newContext({
    ignoreHTTPSErrors: true,
    colorScheme: theme,
    javaScriptEnabled: script,
    viewport: { width: Math.round(size[0] / scale), height: Math.round(size[1] / scale) },
    deviceScaleFactor: scale,
    serviceWorkers: "block",
    ...more,
  });
  context.setDefaultTimeout(10_000);
  const page = await context.newPage();
  const trouble = [];
  const requests = [];
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) trouble.push(`console: ${message.text()}`);
  });
  page.on("pageerror", (error) => trouble.push(`script: ${error}`));
  page.on("dialog", (dialog) => {
    trouble.push(`dialog: ${dialog.message()}`);
    dialog.dismiss();
  });
  page.on("request", (request) => requests.push(request.url()));
  page.on("requestfailed", (request) => {
    // A page that is left ends its stream of events.
    if (request.failure()?.errorText !== "net::ERR_ABORTED") {
      trouble.push(`request: ${request.url()}: ${request.failure()?.errorText}`);
    }
  });
  page.on("response", (response) => {
    if (response.status() >= 400) trouble.push(`status ${response.status()}: ${response.url()}`);
  });
  return Object.assign(page, { trouble, requests });
}

/**
 * Closes the page with its cookies. Chromium sometimes never answers when the page loads another one at that moment:
 * the page then ends with the browser.
 */
export function close(page) {
  return Promise.race([page.context().close(), setTimeout(CLOSE_MAX, undefined, { ref: false })]);
}
