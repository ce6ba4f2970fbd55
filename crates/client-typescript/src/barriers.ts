/**
 * Barriers and double barriers. An arrival has a request number, so a repeated call is the same arrival. An arrival that
 * fails or is cancelled is withdrawn in the background.
 */
import type { StopSignal } from "./abort.js";
import { checkEnd, json } from "./answer.js";
import { monotonic } from "./clock.js";
import { BusyError, newestRequest, RejectedError } from "./errors.js";
import { numberAfter, randomName } from "./numbers.js";
import { waitUntil, type WaitOptions } from "./recipes.js";
import type { Session } from "./session.js";
import type { Sessions } from "./sessions.js";
import { namedPath, target, waitQuery, withQuery, type Query } from "./target.js";

/** An arrival at a barrier that opened. */
export interface Tripped {
  /** The order of arrival, from 0. */
  readonly index: number;
  readonly parties: number;
  /** Grows with each opening. */
  readonly generation: number;
}

/** A barrier opens for `parties` callers at once. */
export class Barrier {
  readonly #sessions: Sessions;
  readonly #path: string;

  /** @internal */
  constructor(
    sessions: Sessions,
    readonly name: string,
    readonly parties: number,
  ) {
    this.#sessions = sessions;
    this.#path = namedPath("barriers", name);
  }

  /** Arrives and waits for the others. The end of the wait breaks the barrier for the callers that wait. */
  async wait(options: WaitOptions = {}): Promise<Tripped> {
    const { tripped, place } = await arrive(this.#sessions, this.#path, this.parties, options);
    place.unuse();
    return tripped;
  }
}

/** Callers enter a double barrier together and leave it together. */
export class DoubleBarrier {
  readonly #sessions: Sessions;
  readonly #path: string;

  /** @internal */
  constructor(
    sessions: Sessions,
    readonly name: string,
    readonly parties: number,
  ) {
    this.#sessions = sessions;
    this.#path = namedPath("double-barriers", name);
  }

  /** Waits until enough callers have entered. Each call is a separate party. */
  async enter(options: WaitOptions = {}): Promise<DoubleBarrierPlace> {
    const { tripped, place } = await arrive(this.#sessions, this.#path, this.parties, options);
    return new DoubleBarrierPlace(place, tripped);
  }
}

/** A place inside a double barrier. If the process dies, the place ends with its session. */
export class DoubleBarrierPlace {
  readonly #place: BarrierPlace;

  /** @internal */
  constructor(
    place: BarrierPlace,
    readonly tripped: Tripped,
  ) {
    this.#place = place;
  }

  /** Leaves, and waits until all have left. After a `BusyError` this caller has left, and others are still inside. */
  async leave(options: WaitOptions = {}): Promise<void> {
    const { session, base, unuse } = this.#place;
    const until = waitUntil(options.wait);
    const call = (wait: number) =>
      ({ method: "DELETE", target: withQuery(base, { generation: this.tripped.generation, ...waitQuery(wait) }), copies: "repeatable" }) as const;
    for (;;) {
      try {
        checkEnd(await session.wait((stop) => session.calls.repeatUntil(until, () => session.loss() === undefined, call, stop), options.signal));
        return unuse();
      } catch (error) {
        if (error instanceof BusyError && monotonic() < until) continue;
        if (error instanceof BusyError || error instanceof RejectedError) unuse();
        else void session.track(withdraw(this.#place, { generation: this.tripped.generation }));
        throw error;
      }
    }
  }
}

/** A place at a barrier, which keeps its session in use. */
interface BarrierPlace {
  readonly session: Session;
  /** Path and query that name the place. */
  readonly base: string;
  readonly unuse: () => void;
}

async function arrive(sessions: Sessions, path: string, parties: number, options: WaitOptions): Promise<{ tripped: Tripped; place: BarrierPlace }> {
  const until = waitUntil(options.wait);
  const session = await sessions.live(undefined, options.signal);
  return await session.track(arriveIn(session, path, parties, until, options.signal));
}

async function arriveIn(
  session: Session,
  path: string,
  parties: number,
  until: number,
  signal: AbortSignal | undefined,
): Promise<{ tripped: Tripped; place: BarrierPlace }> {
  const place = { session, base: target(path, { session: session.name, owner: `a-${randomName()}` }), unuse: session.use() };
  let request = numberAfter(0n);
  const attempt = async (): Promise<Tripped> => {
    const call = (wait: number) =>
      ({ method: "PUT", target: withQuery(place.base, { parties, request, ...waitQuery(wait) }), copies: "harmless" }) as const;
    const send = (stop: StopSignal) => session.calls.repeatUntil(until, () => session.loss() === undefined, call, stop);
    return json<Tripped>(await session.wait(send, signal), { index: "integer", parties: "integer", generation: "integer" });
  };
  try {
    const tripped = await attempt().catch((error: unknown) => {
      const newest = newestRequest(error);
      if (newest === undefined) throw error;
      request = numberAfter(newest);
      return attempt();
    });
    return { tripped, place };
  } catch (error) {
    const isOver = error instanceof BusyError || error instanceof RejectedError || !session.mayRelease;
    if (isOver) place.unuse();
    else void session.track(withdraw(place, { request }, {}));
    throw error;
  }
}

/**
 * Ends what the cluster may have, until the outcome is certain: an arrival by its number, or a place inside. No other
 * arrival has the place, because the owner is unique.
 */
async function withdraw({ session, base, unuse }: BarrierPlace, ...queries: readonly Query[]): Promise<void> {
  for (const query of queries) {
    const call = { method: "DELETE", target: withQuery(base, query), copies: "harmless" } as const;
    await session.sendUntilCertain(call);
  }
  unuse();
}
