/** Timers as promises. */
import type { StopSignal } from "./abort.js";
import { timerDelay } from "./duration.js";

/** Resolves after `millis`, or when `stop` is aborted. Never rejects. `isKeptAlive`: the process ends no earlier. */
export async function sleep(millis: number, stop?: StopSignal, isKeptAlive = true): Promise<void> {
  if (stop?.aborted) return;
  await new Promise<void>((resolve) => {
    const done = (): void => {
      clearTimeout(timer);
      stop?.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, timerDelay(millis));
    if (!isKeptAlive) timer.unref();
    stop?.addEventListener("abort", done);
  });
}
