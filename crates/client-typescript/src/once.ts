/** Calls of the client's session that the cluster executes once, however many copies arrive. */
import type { HttpAnswer } from "./answer.js";
import type { Call } from "./call.js";
import { LostError } from "./errors.js";
import type { Sessions } from "./sessions.js";
import { withQuery } from "./target.js";

/** Sends a change with the client's session and a new request number. */
export async function sendOnce(sessions: Sessions, call: Omit<Call, "copies">): Promise<HttpAnswer> {
  for (let isLast = false; ; isLast = true) {
    const session = await sessions.live(undefined);
    const unuse = session.use();
    try {
      return await session.numberedCalls.send(async (request) => {
        const numbered = withQuery(call.target, { session: session.name, request });
        return await sessions.calls.answer({ ...call, target: numbered, copies: "harmless" });
      });
    } catch (error) {
      if (!(error instanceof LostError)) throw error;
      // The session ended while it was idle, so the call was not executed.
      session.end({ cause: "session-ended" });
      if (isLast || !sessions.mayReplace) throw error;
    } finally {
      unuse();
    }
  }
}
