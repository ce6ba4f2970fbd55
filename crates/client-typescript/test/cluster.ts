/** A cluster of `holdfast dev` for one test file. `HOLDFAST_BIN` names the program. */
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:net";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";

export const binary = process.env["HOLDFAST_BIN"];
/** Why tests against a cluster are skipped; false if they run. */
export const skip: string | false = binary === undefined ? "HOLDFAST_BIN is not set" : false;

export class Cluster {
  private constructor(
    readonly program: ChildProcess,
    readonly addresses: readonly string[],
  ) {}

  /** Starts a cluster at the first free ports from `first` on. `options` are those of `holdfast dev`. */
  static async start(first: number, nodes = 3, options: readonly string[] = []): Promise<Cluster> {
    const port = await freePorts(first, nodes);
    const args = ["dev", "--nodes", String(nodes), "--port", String(port), "--commands", ...options];
    const program = spawn(binary ?? "", args, { stdio: ["pipe", "pipe", "inherit"] });
    const lines = createInterface({ input: program.stdout ?? process.stdin });
    let ready = false;
    for await (const line of lines) if ((ready = line.startsWith("ready "))) break;
    if (!ready) throw new Error(`holdfast dev ended at port ${port}`);
    program.stdout?.resume();
    const addresses = Array.from({ length: nodes }, (_, node) => `127.0.0.1:${port + 10 * node}`);
    return new Cluster(program, addresses);
  }

  /** Sends a command such as `kill 1` or `pause 2`. Nodes count from 1. */
  async command(line: string): Promise<void> {
    this.program.stdin?.write(`${line}\n`);
    await sleep(50);
  }

  /** Returns the number of the leader, from 1. */
  async leader(): Promise<number> {
    for (;;) {
      for (const address of this.addresses) {
        const answer = await fetch(`http://${address}/livez`, { signal: AbortSignal.timeout(500) }).catch(() => undefined);
        const leader = Number(answer?.headers.get("holdfast-leader"));
        if (leader > 0) return leader;
      }
      await sleep(50);
    }
  }

  /** Waits until every node serves, after faults of an earlier test. */
  async settled(): Promise<void> {
    for (const address of this.addresses) {
      for (;;) {
        const answer = await fetch(`http://${address}/readyz`, { signal: AbortSignal.timeout(1_000) }).catch(() => undefined);
        if (answer?.ok) break;
        await sleep(100);
      }
    }
  }

  async stop(): Promise<void> {
    const exit = once(this.program, "exit");
    this.program.stdin?.write("stop\n");
    await exit;
  }
}

/** Returns the first port from which on a cluster finds its ports free: three of each node. */
async function freePorts(first: number, nodes: number): Promise<number> {
  const ports = Array.from({ length: nodes }, (_, node) => [0, 1, 2].map((offset) => first + 10 * node + offset)).flat();
  for (const port of ports) if (!(await isFree(port))) return freePorts(port + 1, nodes);
  return first;
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer().listen(port, "127.0.0.1");
  const free = await once(server, "listening").then(() => true, () => false);
  server.close();
  return free;
}

/** Waits until the condition holds, because a loaded machine is slow. */
export async function eventually(condition: () => boolean | Promise<boolean>, what: string): Promise<void> {
  const until = Date.now() + 20_000;
  while (!(await condition())) {
    if (Date.now() > until) throw new Error(`not in time: ${what}`);
    await sleep(20);
  }
}
