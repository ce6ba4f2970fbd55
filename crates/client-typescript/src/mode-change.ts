/**
 * Changes the mode of a held lock without releasing it. Each call names the attempt that it changes and has a larger
 * number, so a late copy converts nothing.
 *
 * While the mode is unknown, the entry is `converting`, so that its new token does not look like a loss. An upgrade that
 * ends early restores the old mode. Bounds: one change of a hold at a time, with one call in flight.
 */
import { LinkedAbort } from "./abort.js";
import { grantBody, type GrantBody } from "./bodies.js";
import type { Delivery } from "./call.js";
import { untilRetry, WAIT_MAX } from "./calls.js";
import { monotonic, now } from "./clock.js";
import { BusyError, InvalidArgumentError, isRejectedWith, isUncertain, isUnclear, LostError, newestAttempt, retryAt, UnavailableError } from "./errors.js";
import type { HoldfastError, UnexpectedResponseError } from "./errors.js";
import type { HeldLock } from "./held-lock.js";
import { changeCall, type Mode } from "./lock-options.js";
import { numberAfter } from "./numbers.js";
import { sleep } from "./sleep.js";

const STRENGTH: Readonly<Record<Mode, number>> = { shared: 0, upgradable: 1, exclusive: 2 };

/** The minimum pause between two calls for the fallback. */
const FALLBACK_PAUSE = 200;

/** The result of one call. */
interface Changed {
  readonly result: { readonly grant: GrantBody; readonly sent: number } | { readonly error: HoldfastError };
  readonly inDoubt: boolean;
}

/** Another server may answer without a grant. */
function changed({ result, inDoubt }: Delivery): Changed {
  if ("error" in result) return { result, inDoubt };
  try {
    return { result: { grant: grantBody(result.answer), sent: result.sent }, inDoubt };
  } catch (error) {
    return { result: { error: error as UnexpectedResponseError }, inDoubt: true };
  }
}

export class ModeChange {
  readonly #held: HeldLock;
  /** A mode that is not stronger than the present one, so the cluster always grants it. */
  readonly #fallback: Mode;
  /** Each call of the change has a larger number. */
  #newest: bigint;
  #isRenumbered = false;

  private constructor(held: HeldLock, fallback: Mode) {
    held.ensure();
    if (held.entry.stage !== "held") throw new InvalidArgumentError("another change of the mode is in progress");
    this.#held = held;
    this.#fallback = fallback;
    this.#newest = held.entry.attempt;
    held.entry.stage = "converting";
  }

  /** Becomes exclusive within `wait`. */
  static async upgrade(held: HeldLock, wait: number): Promise<void> {
    if (held.lost === undefined && held.grant.mode === "exclusive") return;
    const change = new ModeChange(held, held.grant.mode);
    await held.session.track(change.#upgrade(monotonic() + wait));
  }

  async #upgrade(until: number): Promise<void> {
    for (;;) {
      const left = Math.max(Math.min(Math.trunc(until - monotonic()), WAIT_MAX), 0);
      const { result, inDoubt } = await this.#call("exclusive", left);
      if ("grant" in result && result.grant.mode === "exclusive") return this.#completed("exclusive", result.grant, result.sent);
      const error = "error" in result ? result.error : new UnavailableError("the lock kept its mode");
      if (this.#mayRepeat(error, Math.max(monotonic(), retryAt(error)) >= until)) {
        await this.#held.session.wait((stop) => untilRetry(error, stop), this.#held.signal);
        continue;
      }
      // The cluster may still have granted the upgrade.
      const isCertain = (error instanceof BusyError || isRejectedWith(error, "mode-conflict")) && !inDoubt;
      if (isCertain) this.#unchanged();
      else if (!(error instanceof LostError)) await this.#completeFallback();
      throw error;
    }
  }

  /** Becomes weaker at once. */
  static async downgrade(held: HeldLock, mode: Mode): Promise<void> {
    held.ensure();
    // After a rejection the cluster may keep a stronger mode than the guard, so the same mode sends the call too.
    if (STRENGTH[mode] > STRENGTH[held.grant.mode]) {
      throw new InvalidArgumentError(`mode: ${mode} is not weaker than ${held.grant.mode}, use upgrade()`);
    }
    await new ModeChange(held, mode).#completeFallback();
  }

  /** Asks for the fallback until the cluster confirms it. Throws the rejection of the cluster, which ends no hold. */
  async #completeFallback(): Promise<void> {
    for (let wasInDoubt = false; ; ) {
      const { pauses } = this.#held.session;
      const { result, inDoubt } = await this.#call(this.#fallback, 0);
      if ("grant" in result) return this.#completed(this.#fallback, result.grant, result.sent);
      const { error } = result;
      wasInDoubt ||= inDoubt || isUnclear(error);
      if (isUnclear(error)) {
        const stop = new LinkedAbort(this.#held.signal, pauses);
        await sleep(Math.max(FALLBACK_PAUSE, retryAt(error) - monotonic()), stop).finally(() => stop.unlink());
      } else if (!this.#mayRepeat(error, true)) {
        // An earlier call may have made the hold weaker.
        if (wasInDoubt) this.#held.grant = { ...this.#held.grant, mode: this.#fallback };
        this.#unchanged();
        throw error;
      }
    }
  }

  /** Sends one call. Throws if the hold is lost meanwhile. */
  async #call(mode: Mode, wait: number): Promise<Changed> {
    const { session, entry, signal } = this.#held;
    const by = numberAfter(this.#newest);
    const call = changeCall(entry.lock, session, entry.owner, entry.attempt, by, { mode }, wait);
    for (let isGrantedElsewhere = false; ; isGrantedElsewhere = true) {
      this.#held.ensure();
      const elsewhere = new LinkedAbort();
      entry.onGrantedElsewhere = () => elsewhere.abort();
      const route = wait === 0 ? "copied" : isGrantedElsewhere ? "elsewhere" : "alone";
      // The fallback, which does not wait, still completes while the client closes.
      const stop = new LinkedAbort(signal, elsewhere, wait > 0 ? session.ending : undefined);
      try {
        return changed(await session.deliverAt(call, route, stop));
      } catch (error) {
        if (signal.aborted) throw signal.reason;
        if (wait > 0 && session.ending.aborted) {
          await this.#completeFallback();
          throw session.ending.reason;
        }
        // A renewal listed the new token: the node that holds the call is behind, so the call is sent again.
        if (!elsewhere.aborted) throw error;
      } finally {
        stop.unlink();
        entry.onGrantedElsewhere = undefined;
      }
    }
  }

  /** Whether another call may succeed. Throws if the cluster no longer has the hold. */
  #mayRepeat(error: Error, isOver: boolean): boolean {
    const newest = newestAttempt(error);
    if (newest !== undefined && !this.#isRenumbered) {
      // Another program of the session has a larger number.
      this.#newest = newest;
      this.#isRenumbered = true;
      return true;
    }
    if (isRejectedWith(error, "not-holder", "attempt-over")) throw this.#held.gone();
    return !isOver && (isUncertain(error) || error instanceof BusyError);
  }

  /** Each guard of an owner keeps its mode, although the answer has the strongest one. */
  #completed(mode: Mode, grant: GrantBody, sent: number): void {
    const { session, entry } = this.#held;
    const countedFrom = sent + grant.waited_ms;
    session.acknowledge({ countedFrom, held: grant.expires_in_ms ?? 0 });
    // The hold may have been lost or released since the call was sent.
    this.#held.ensure();
    this.#held.grant = { ...this.#held.grant, ...grant, mode };
    const moment = now();
    session.followUpgrade(grant, moment);
    // The requested `maxHold` counts from the acquire, so its end is known.
    entry.granted(grant, undefined, countedFrom, moment);
    session.check();
  }

  #unchanged(): void {
    const { entry } = this.#held;
    if (entry.stage === "converting") entry.stage = "held";
  }
}
