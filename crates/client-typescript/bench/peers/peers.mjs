/** The lock clients that speed.mjs measures beside the client: each connects to the first Redis server in PEER_ADDR. */
import { Redis } from "ioredis";
import { Mutex } from "redis-semaphore";
import Redlock from "redlock";

const TTL_MS = 60_000;
const [address] = process.env.PEER_ADDR.split(",");
const redis = new Redis(`redis://${address}`);
const locks = new Redlock([redis]);

const kinds = {
  redlock: (task) => async () => await (await locks.lock(`redlock-${task}`, TTL_MS)).unlock(),
  "redis-semaphore": (task) => async () => {
    const mutex = new Mutex(redis, `mutex-${task}`);
    await mutex.acquire();
    await mutex.release();
  },
};

/** Returns the cycles of the tasks, as a function of the task's number, and the end of the connection. */
export function connect(peer) {
  return { cycle: kinds[peer], close: () => redis.disconnect() };
}
