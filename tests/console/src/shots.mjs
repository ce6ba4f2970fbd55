// Makes the pictures of the documents: docs/images/console-*.png, of the same locks and sessions each time.
import { stat, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { lockPage } from "./console.mjs";
import { Stage } from "./stage.mjs";

const IMAGES = fileURLToPath(new URL("../../../docs/images/", import.meta.url));
const SIZE_MAX = 150 * 1024;
/** The time in which locks change before the pictures, so that the plots have a line. */
const WORK_MS = 30_000;

const FORCE = /force.release/i;

/** Opens the form that ends the hold of `batch-1`, and fills it in. */
async function fillForm(page) {
  await page.locator("main").getByRole("link", { name: FORCE }).first().click();
  await page.locator("[name=reason]:visible").first().fill("batch-1 is stuck since the deploy");
}

/** Name of the picture, theme, page, and what an operator does on it. */
const SHOTS = [
  ["overview", "light", "", async () => {}],
  ["lock", "light", lockPage("shop/orders"), async () => {}],
  ["force-release", "light", lockPage("shop/stock"), fillForm],
  ["released", "light", lockPage("shop/stock"), async (page) => {
    await fillForm(page);
    await page.locator("form:has([name=reason]:visible) [type=submit]").first().click();
    await page.locator("#notice").waitFor();
  }],
];

async function work(cluster, time) {
  const client = async (name) => {
    for (let attempt = 1, end = Date.now() + time; Date.now() < end; attempt += 1) {
      const call = `/v1/locks/shop/cart-${name}?session=cart-${name}&attempt=${attempt}`;
      await cluster.ok("PUT", call);
      await cluster.ok("DELETE", call);
    }
  };
  await Promise.all(["a", "b", "c"].map(client));
}

const stage = await Stage.open();
try {
  await work(stage.cluster, WORK_MS);
  for (const [name, theme, route, act] of SHOTS) {
    await stage.withPage({ theme }, async (opened, page) => {
      await opened.open(route);
      await page.locator("main h1").waitFor();
      await act(page);
      const file = `${IMAGES}console-${name}.png`;
      await writeFile(file, await page.screenshot({ animations: "disabled", caret: "hide" }));
      const { size } = await stat(file);
      if (size > SIZE_MAX) throw new Error(`${file}: ${size} bytes, at most ${SIZE_MAX}`);
      console.log(`${file}: ${size} bytes`);
    });
  }
} finally {
  await stage.close();
}
