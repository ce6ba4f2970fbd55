// Measures what open pages cost an honest client. It asserts nothing about times, because machines differ.
import assert from "node:assert/strict";
import http from "node:http";
import https from "node:https";

const PAGES = 50;
const ROUNDS = 4;
const ROUND_MS = 4_000;
const WARM_UP_MS = 2_000;

/** Cycles of one client for `time` milliseconds; returns their times in milliseconds, in order. */
async function cycles(cluster, name, time) {
  const times = [];
  for (let attempt = 1, end = performance.now() + time; performance.now() < end; attempt += 1) {
    const began = performance.now();
    const call = `/v1/locks/cost/${name}?session=cost-${name}&attempt=${attempt}`;
    await cluster.ok("PUT", call);
    await cluster.ok("DELETE", call);
    times.push(performance.now() - began);
  }
  return times.sort((a, b) => a - b);
}

/** Opens the stream of a page as its script does; the browser itself stays out of the measurement. */
function openStream(cluster, url, headers) {
  const { get } = cluster.secure ? https : http;
  return new Promise((resolve, reject) => {
    const stream = get(url, { ca: cluster.agent.options.ca, headers: { ...headers, accept: "text/event-stream" } }, (reply) => {
      let bytes = 0;
      reply.on("data", (part) => (bytes += part.length)).on("error", () => {});
      resolve({ status: reply.statusCode, close: () => stream.destroy(), bytes: () => bytes });
    });
    stream.on("error", reject);
  });
}

export const checks = {
  "open pages are measured beside an honest client": async (stage, report) => {
    const { cluster } = stage;
    const [url, cookie] = await stage.withPage({}, async (opened, page) => {
      const asked = page.waitForRequest((request) => request.resourceType() === "eventsource" || request.headers().accept === "text/event-stream");
      await opened.open();
      const cookies = await page.context().cookies();
      return [(await asked).url(), cookies.map(({ name, value }) => `${name}=${value}`).join("; ")];
    });
    await cycles(cluster, "warm", WARM_UP_MS);
    const all = { none: [], open: [] };
    let bytes = 0;
    for (let round = 0; round < ROUNDS; round += 1) {
      all.none.push(...(await cycles(cluster, `none-${round}`, ROUND_MS)));
      const streams = await Promise.all(Array.from({ length: PAGES }, () => openStream(cluster, url, { cookie, origin: cluster.url() })));
      assert.deepEqual([...new Set(streams.map(({ status }) => status))], [200]);
      all.open.push(...(await cycles(cluster, `open-${round}`, ROUND_MS)));
      bytes += streams.reduce((sum, stream) => sum + stream.bytes(), 0);
      for (const stream of streams) stream.close();
    }
    assert.ok(bytes > 0, "the pages received nothing");
    const [none, open] = [all.none, all.open].map((times) => times.sort((a, b) => a - b));
    const at = (times, part) => times[Math.floor((times.length - 1) * part)];
    const ratio = (part) => (at(open, part) / at(none, part)).toFixed(2);
    report(`${PAGES} open pages: p50 ${at(none, 0.5).toFixed(1)} ms × ${ratio(0.5)}, p99 ${at(none, 0.99).toFixed(1)} ms × ${ratio(0.99)}, ` +
      `${Math.round(bytes / PAGES / ROUNDS / (ROUND_MS / 1000) / 1024)} KiB/s for each page, ${none.length} and ${open.length} cycles`);
  },
};
