import { BusyError, LostError } from "holdfast";

/**
 * Returns a handler for Express or `node:http` that runs `work` under the lock that the request names. Its signal aborts at
 * the loss of the lock, and when the caller leaves. A busy lock is answered by 423.
 */
export const locked = (hf, nameOf, work) => async (request, response) => {
  const left = new AbortController();
  response.once("close", () => left.abort(new Error("the caller left")));
  try {
    await hf.withLock(nameOf(request), { wait: "1s", signal: left.signal }, (guard) => {
      const signal = AbortSignal.any([guard.signal, left.signal]);
      return work(request, response, { guard, signal });
    });
  } catch (error) {
    const status = error instanceof BusyError ? 423 : error instanceof LostError ? 503 : 500;
    // A part of the answer may be on its way when the lock is lost.
    if (response.headersSent) response.destroy();
    else response.writeHead(status, { "content-type": "text/plain" }).end(error.message);
  }
};
