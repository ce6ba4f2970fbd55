/** Timers as promises. */
import { timerDelay } from "./duration.js";

/** Resolves after `millis`, or when `stop` is aborted. Never rejects. */
export async function sleep(millis: number, stop?: AbortSignal): Promise<void> {
  if (stop?.aborted) return;
  await new Promise<void>((resolve) => {
    const done = (): void => {
      clearTimeout(timer);
      stop?.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, timerDelay(millis));
    stop?.addEventListener("abort", done, { once: true });
  });
}
