/** Calls of the client's session that the cluster executes once, however many copies arrive. */
import type { HttpAnswer } from "./answer.js";
import type { Call } from "./call.js";
import { answerOf } from "./calls.js";
import { LostError, OutcomeUnknownError } from "./errors.js";
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
        const delivery = await session.deliverAt({ ...call, target: numbered, copies: "harmless" }, "copied");
        const { inDoubt, result } = delivery;
        if (inDoubt && "error" in result && result.error instanceof LostError) {
          throw new OutcomeUnknownError("the session ended, and the first answer was lost, so read the state");
        }
        return answerOf(delivery).answer;
      });
    } catch (error) {
      // The session ended while it was idle, so the call was not executed.
      if (!(error instanceof LostError) || isLast || !sessions.mayReplace) throw error;
    } finally {
      unuse();
    }
  }
}
