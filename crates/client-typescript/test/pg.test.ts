/** The fence helper against a real PostgreSQL, if this machine has one. */
import assert from "node:assert/strict";
import { execFileSync, spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { chmodSync, existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { InvalidArgumentError, LostError } from "holdfast";
import { FenceError, fenced, raiseMark, type FencedHold } from "holdfast/pg";
import pg from "pg";
import { binary } from "./cluster.js";

const PORT = 32_432;
const VERSIONS = "/usr/lib/postgresql";
const version = existsSync(VERSIONS) ? readdirSync(VERSIONS).sort().at(-1) : undefined;
const skip = version === undefined ? "this machine has no PostgreSQL" : binary === undefined ? "HOLDFAST_BIN is not set" : false;

/** The part of a guard that the helper reads. */
function hold(token: number, rest: Partial<FencedHold> = {}): FencedHold {
  return { lock: "orders", token, session: `s${token}`, mode: "exclusive", slots: [], minValidToken: token, lost: undefined, ...rest };
}

describe("fenced transactions", { skip }, () => {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-pg-"));
  const connections: pg.Client[] = [];
  let server: ChildProcess;

  /** Runs a program of PostgreSQL, which refuses to run as root. */
  function run(name: string, args: readonly string[]): [string, string[]] {
    const path = join(VERSIONS, version ?? "", "bin", name);
    return process.getuid?.() === 0 ? ["runuser", ["-u", "postgres", "--", path, ...args]] : [path, [...args]];
  }

  async function connect(): Promise<pg.Client> {
    const connection = new pg.Client({ host: "127.0.0.1", port: PORT, user: "postgres", database: "postgres" });
    await connection.connect();
    connections.push(connection);
    return connection;
  }

  before(async () => {
    if (process.getuid?.() === 0) execFileSync("chown", ["postgres", folder]);
    chmodSync(folder, 0o700);
    const [program, args] = run("initdb", ["-D", join(folder, "data"), "-A", "trust", "-U", "postgres"]);
    execFileSync(program, args, { stdio: "ignore", cwd: tmpdir() });
    const options = ["-D", join(folder, "data"), "-p", String(PORT), "-k", folder, "-c", "listen_addresses=127.0.0.1", "-c", "fsync=off"];
    server = spawn(...run("postgres", options), { stdio: "ignore", cwd: tmpdir() });
    let first: pg.Client | undefined;
    while (first === undefined) first = await connect().catch(() => sleep(100).then(() => undefined));
    await first.query(execFileSync(binary ?? "", ["fence", "init", "--postgres"], { encoding: "utf8" }));
    await first.query("CREATE TABLE orders AS SELECT 7 AS id, 100 AS pieces");
  });
  after(async () => {
    await Promise.all(connections.map((connection) => connection.end()));
    const exit = once(server, "exit");
    execFileSync(...run("pg_ctl", ["-D", join(folder, "data"), "-m", "fast", "stop"]), { stdio: "ignore", cwd: tmpdir() });
    await exit;
    rmSync(folder, { recursive: true });
  });

  const sell = async (connection: pg.Client): Promise<void> => {
    await connection.query("UPDATE orders SET pieces = pieces - 1 WHERE id = 7");
  };

  async function pieces(): Promise<number> {
    const { rows } = await (await connect()).query<{ pieces: number }>("SELECT pieces FROM orders WHERE id = 7");
    return rows[0]?.pieces ?? 0;
  }

  test("a former holder writes nothing", async () => {
    const [a, b] = [await connect(), await connect()];
    await fenced(a, "orders", hold(33), sell);
    await fenced(b, "orders", hold(34), sell);
    const stale = fenced(a, "orders", hold(33), sell);
    await assert.rejects(stale, (error) => error instanceof FenceError && error.failure === "stale" && error.newest === 34);
    assert.equal(await pieces(), 98);
    await fenced(b, "orders", hold(34), sell);
    assert.equal(await pieces(), 97);
  });

  test("the new holder reads only after the transaction of the old one has ended", async () => {
    const [a, b] = [await connect(), await connect()];
    const before = await pieces();
    const read = async (connection: pg.Client): Promise<number> => {
      const { rows } = await connection.query<{ pieces: number }>("SELECT pieces FROM orders WHERE id = 7");
      return rows[0]?.pieces ?? 0;
    };
    let isOver = false;
    const old = fenced(a, "orders", hold(40), async (connection) => {
      await sell(connection);
      await sleep(500);
      isOver = true;
    });
    await sleep(200);
    const seen = await fenced(b, "orders", hold(41), read);
    assert.ok(isOver);
    assert.equal(seen, before - 1);
    await old;
  });

  test("holders of a shared lock do not reject each other above their floor", async () => {
    const connection = await connect();
    const shared = { mode: "shared", minValidToken: 70 };
    await fenced(connection, "reports", hold(72, shared), async () => {});
    await fenced(connection, "reports", hold(71, shared), async () => {});
    await fenced(connection, "reports", hold(73, { mode: "shared", minValidToken: 72 }), async () => {});
    await assert.rejects(fenced(connection, "reports", hold(71, shared), async () => {}), FenceError);
  });

  test("an error of the work rolls back, also if the work hides it", async () => {
    const connection = await connect();
    const before = await pieces();
    const failing = async (transaction: pg.Client): Promise<void> => {
      await sell(transaction);
      throw new Error("the work failed");
    };
    await assert.rejects(fenced(connection, "orders", hold(50), failing), /the work failed/);
    const hiding = async (transaction: pg.Client): Promise<void> => {
      await sell(transaction);
      await transaction.query("SELECT 1 / 0").catch(() => {});
    };
    await assert.rejects(fenced(connection, "orders", hold(50), hiding), (error) => error instanceof FenceError && error.failure === "rolled-back");
    assert.equal(await pieces(), before);
  });

  test("the mark needs a transaction", async () => {
    const connection = await connect();
    await assert.rejects(raiseMark(connection, "orders", hold(55)), InvalidArgumentError);
    await connection.query("BEGIN");
    await Promise.all([raiseMark(connection, "orders", hold(55)), raiseMark(connection, "stock", hold(56))]);
    await connection.query("ROLLBACK");
    const pool = new pg.Pool({ host: "127.0.0.1", port: PORT, user: "postgres", database: "postgres" });
    await assert.rejects(fenced(pool, "orders", hold(55), async () => {}), InvalidArgumentError);
    await assert.rejects(raiseMark(pool, "orders", hold(55)), InvalidArgumentError);
    await pool.end();
  });

  test("a lost guard begins nothing, and a stricter isolation is refused", async () => {
    const connection = await connect();
    const lost = new LostError({ cause: "not-renewed" }, "orders", 60);
    await assert.rejects(fenced(connection, "orders", hold(60, { lost }), sell), (error) => error === lost);
    await connection.query("BEGIN ISOLATION LEVEL SERIALIZABLE");
    await assert.rejects(raiseMark(connection, "orders", hold(61)), (error) => error instanceof FenceError && error.failure === "unsafe-snapshot");
    await connection.query("ROLLBACK");
  });
});
