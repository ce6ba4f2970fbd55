/**
 * Counts cycles of one acquire and one release: `speed.mjs TURNS SECONDS [PEER]`.
 *
 * Each turn prints a line for 1, 64 and 256 tasks: the tasks, the cycles of a second by the client and by a bare loop, and the
 * processor time of a cycle in microseconds by both. Each task has one lock. The bare loop sends the same calls by `node:http`, on one
 * connection a task, to the first address in HOLDFAST_ADDR. With PEER, that lock client of peers/ takes the place of the loop.
 */
import { Agent, request } from "node:http";
import { Client } from "holdfast";

const TASKS = [1, 64, 256];
const TASKS_MAX = Math.max(...TASKS);
const WARMING_UP_CYCLES = 4_000;
const [turns, seconds] = process.argv.slice(2, 4).map(Number);
const peer = process.argv[4];
const [address] = process.env.HOLDFAST_ADDR.split(",");
const agent = new Agent({ keepAlive: true, maxFreeSockets: TASKS_MAX });
const hf = new Client();

const locked = (task) => async () => await (await hf.lock(`client-${task}`)).release();

function bare(task) {
  let attempt = Date.now() * 1_000;
  return async () => {
    attempt += 1;
    const path = `/v1/locks/bare-${task}?session=bare-${process.pid}&owner=task-${task}&attempt=${attempt}`;
    await send("PUT", `${path}&wait=30s&ttl=1m`);
    await send("DELETE", path);
  };
}

function send(method, path) {
  return new Promise((resolve, reject) => {
    const call = request(`http://${address}${path}`, { method, agent }, (response) => {
      const chunks = [];
      response.on("data", (chunk) => chunks.push(chunk));
      response.on("end", () => (response.statusCode < 300 ? resolve() : reject(new Error(Buffer.concat(chunks).toString()))));
    });
    call.on("error", reject);
    call.end();
  });
}

/** Returns the cycles of a second, and the microseconds of processor time of a cycle. */
async function run(cycles, isOver) {
  let count = 0;
  const [began, used] = [performance.now(), process.cpuUsage()];
  await Promise.all(
    cycles.map(async (cycle) => {
      for (; !isOver(count); count += 1) await cycle();
    }),
  );
  const [elapsed, { user, system }] = [performance.now() - began, process.cpuUsage(used)];
  return { rate: Math.round((count / elapsed) * 1_000), used: Math.round((user + system) / count) };
}

const other = peer ? (await import("./peers/peers.mjs")).connect(peer) : { cycle: bare, close: () => agent.destroy() };
const kinds = [locked, other.cycle].map((kind) => Array.from({ length: TASKS_MAX }, (_, task) => kind(task)));
for (const cycles of kinds) await run(cycles, (count) => count >= WARMING_UP_CYCLES);
for (let turn = 0; turn < turns; turn += 1) {
  for (const tasks of TASKS) {
    const results = [];
    for (const cycles of kinds) {
      const until = performance.now() + seconds * 1_000;
      results.push(await run(cycles.slice(0, tasks), () => performance.now() >= until));
    }
    console.log(tasks, ...results.map(({ rate }) => rate), ...results.map(({ used }) => used));
  }
}
other.close();
await hf.close();
