// Runs the checks of the console: `node src/main.mjs [--quick] [--only TEXT]`.
import { mkdir, writeFile } from "node:fs/promises";
import { test, after } from "node:test";
import { checks as actions } from "../checks/actions.mjs";
import { checks as cost } from "../checks/cost.mjs";
import { checks as figures } from "../checks/figures.mjs";
import { checks as live } from "../checks/live.mjs";
import { checks as mutations } from "../checks/mutations.mjs";
import { checks as names } from "../checks/names.mjs";
import { checks as open } from "../checks/open.mjs";
import { checks as pages } from "../checks/pages.mjs";
import { checks as size } from "../checks/size.mjs";
import { checks as walks } from "../checks/walks.mjs";
import { Stage } from "./stage.mjs";

const CHECK_MAX = 180_000;
const FAILURES = process.env.CONSOLE_FAILURES;
/** The checks that take less than 90 s together. */
const QUICK = { ...pages, ...figures, ...names, ...actions, ...walks };
const ALL = { ...QUICK, ...live, ...open, ...mutations, ...cost, ...size };

const options = process.argv.slice(2);
const only = options.includes("--only") ? options[options.indexOf("--only") + 1] : "";
const chosen = Object.entries(options.includes("--quick") ? QUICK : ALL).filter(([name]) => name.includes(only));

const stage = await Stage.open();
after(() => stage.close());
for (const [name, check] of chosen) {
  test(name, { timeout: CHECK_MAX }, async (context) => {
    try {
      await check(stage, (line) => context.diagnostic(line));
    } catch (error) {
      if (FAILURES && stage.last) {
        await mkdir(FAILURES, { recursive: true });
        await writeFile(`${FAILURES}/${name.replaceAll(/\W+/g, "-").slice(0, 80)}.png`, stage.last);
      }
      throw error;
    }
  });
}
