/** TLS with a private authority, and access tokens that rotate. */
import assert from "node:assert/strict";
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Client, RejectedError, UnavailableError, type ClientOptions } from "holdfast";
import { Cluster, skip } from "./cluster.js";

describe("against a cluster with TLS and access tokens", { skip }, () => {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-tls-"));
  const ca = join(folder, "data/pki/ca.pem");
  const admin = join(folder, "data/admin.token");
  let cluster: Cluster;

  before(async () => {
    cluster = await Cluster.start(32_400, 3, ["--secure", "--data", join(folder, "data")]);
  });
  after(async () => {
    await cluster.stop();
    rmSync(folder, { recursive: true });
  });

  async function withClient(options: ClientOptions, work: (client: Client) => Promise<void>): Promise<void> {
    const client = new Client({ addresses: cluster.addresses, ttl: "6s", ...options });
    await work(client).finally(() => client.close());
  }

  test("the authority and the token may be paths or content", async () => {
    const content = { ca: readFileSync(ca, "utf8"), accessToken: readFileSync(admin, "utf8").trim().replace(/^authorization: bearer /i, "") };
    for (const options of [{ ca, accessTokenFile: admin }, content]) {
      await withClient(options, async (client) => assert.equal(await client.withLock("secure", ({ token }) => token > 0), true));
    }
  });

  test("another authority is unavailable, and another token is rejected", async () => {
    await withClient({ addresses: cluster.addresses.map((address) => `https://${address}`), requestTimeout: "1s" }, async (client) => {
      await assert.rejects(client.lock("secure"), (error) => error instanceof UnavailableError && /certificate/.test(error.message));
    });
    await withClient({ ca, accessToken: "hf_wrong" }, async (client) => {
      await assert.rejects(client.lock("secure"), (error) => error instanceof RejectedError && error.code === "unauthenticated" && !error.message.includes("hf_wrong"));
    });
  });

  for (const worker of [false, true]) {
    test(`a replaced token file keeps the lock and the calls (worker: ${worker})`, async () => {
      const accessTokenFile = join(folder, `token-${worker}`);
      copyFileSync(admin, accessTokenFile);
      await withClient({ ca, accessTokenFile, worker }, async (client) => {
        const guard = await client.lock("rotated");
        await sleep(1_500);
        writeFileSync(accessTokenFile, "hf_revoked\n");
        const other = client.lock("other", { wait: 0 });
        await sleep(1_500);
        copyFileSync(admin, accessTokenFile);
        await (await other).release();
        await sleep(6_000);
        guard.ensure();
        await guard.release();
      });
    });
  }
});
