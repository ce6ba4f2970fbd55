/** The package as a user gets it: packed, installed into an empty folder, and every program of the README run there. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { Cluster, skip } from "./cluster.js";

const root = join(__dirname, "..");

describe("the packed package", { skip }, () => {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-npm-"));
  let cluster: Cluster;

  before(async () => {
    const packed = JSON.parse(execFileSync("npm", ["pack", "--ignore-scripts", "--json", "--pack-destination", folder], { cwd: root, encoding: "utf8" })) as { filename: string }[];
    writeFileSync(join(folder, "package.json"), '{"private": true}');
    const archive = join(folder, packed[0]?.filename ?? "");
    execFileSync("npm", ["install", "--offline", "--no-audit", "--no-fund", "--no-package-lock", archive], { cwd: folder, stdio: "ignore" });
    cluster = await Cluster.start(32_300, 1);
  });
  after(async () => {
    await cluster.stop();
    rmSync(folder, { recursive: true });
  });

  function run(name: string, program: string): string {
    writeFileSync(join(folder, name), program);
    const env = { ...process.env, HOLDFAST_ADDR: cluster.addresses.join(",") };
    return execFileSync(process.execPath, [name], { cwd: folder, env, encoding: "utf8", timeout: 60_000 });
  }

  /** The programs of the README in a language, with the addresses of the cluster. */
  function programs(language: string): string[] {
    const text = readFileSync(join(root, "README.md"), "utf8");
    const found = [...text.matchAll(new RegExp(`^\`\`\`${language}\n([^]*?)^\`\`\`$`, "gm"))].map((match) => match[1] ?? "");
    return found.map((program) => program.replace(/\[("10\.0\.0\.\d:7400"(, )?)+\]/, JSON.stringify(cluster.addresses)));
  }

  test("has no dependency, and neither sources nor tests", () => {
    const manifest = JSON.parse(readFileSync(join(folder, "node_modules/holdfast/package.json"), "utf8")) as Record<string, unknown>;
    assert.equal(manifest["dependencies"], undefined);
    const files = execFileSync("find", ["node_modules/holdfast", "-type", "f"], { cwd: folder, encoding: "utf8" });
    assert.match(files, /dist\/index\.mjs/);
    assert.doesNotMatch(files, /src\/|test\/|adapter/);
  });

  test("the JavaScript programs of the README run", () => {
    const outputs = programs("js").map((program, index) => run(`program-${index}.mjs`, program));
    assert.match(outputs[0] ?? "", /UPDATE orders SET state = 'sent', fence = \d+/);
    assert.match(outputs[2] ?? "", /10\.0\.0\.7:5432 leads\n1n/);
  });

  test("the first program runs as CommonJS", () => {
    const [first] = programs("js");
    const body = (first ?? "").replace(/^import .*$/m, 'const { Client, BusyError } = require("holdfast");\n(async () => {');
    assert.match(run("first.cjs", `${body}})();`), /UPDATE orders/);
  });

  test("modules and CommonJS share the classes", () => {
    const program = 'import { createRequire } from "node:module"; import { Client } from "holdfast"; console.log(createRequire(import.meta.url)("holdfast").Client === Client);';
    assert.equal(run("same.mjs", program).trim(), "true");
  });

  test("the TypeScript programs of the README have types in both module systems, and the API has no any", () => {
    const options = { target: "es2022", lib: ["es2023", "esnext.disposable"], module: "nodenext", strict: true, noEmit: true, types: ["node"], typeRoots: [join(root, "node_modules/@types")] };
    programs("ts").forEach((program, index) => writeFileSync(join(folder, `types-${index}.mts`), program));
    writeFileSync(join(folder, "common.cts"), 'import { Client, type Guard } from "holdfast";\nconst guard: Promise<Guard> = new Client().lock("a");\nvoid guard;\n');
    const paths = { "*": [join(root, "node_modules/@types/*")] };
    writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions: { ...options, paths }, include: ["*.mts", "*.cts"] }));
    execFileSync(process.execPath, [join(root, "node_modules/typescript/bin/tsc"), "-p", folder], { encoding: "utf8", stdio: "pipe" });
    const declarations = execFileSync("sh", ["-c", "cat node_modules/holdfast/dist/*.d.ts"], { cwd: folder, encoding: "utf8" });
    assert.doesNotMatch(declarations.replace(/\/\*[^]*?\*\//g, ""), /\bany\b/);
  });
});
