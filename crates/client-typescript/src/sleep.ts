/** Timers as promises. */
import type { StopSignal } from "./abort.js";
import { timerDelay } from "./duration.js";

/** Resolves after `millis`, unless the process ends before. */
export async function idle(millis: number): Promise<void> {
  await new Promise<void>((resolve) => setTimeout(resolve, millis).unref());
}

/** Resolves after `millis`, or when `stop` is aborted. Never rejects. */
export async function sleep(millis: number, stop?: StopSignal): Promise<void> {
  if (stop?.aborted) return;
  await new Promise<void>((resolve) => {
    const done = (): void => {
      clearTimeout(timer);
      stop?.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, timerDelay(millis));
    stop?.addEventListener("abort", done);
  });
}
