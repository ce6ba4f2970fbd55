//! Executes a numbered call once, and remembers answers.

use holdfast_types::{CallScope, NumberedCall, Outcome, Rejection, RequestNumber, SessionId};

use crate::Machine;
use crate::context::ApplyContext;
use crate::session::memo::{AnsweredCall, RememberedAnswer};

impl Machine {
    /// Runs a command, once if the call has a number. The session of the call must be open.
    pub(crate) fn once(
        &mut self,
        call: Option<NumberedCall>,
        ctx: &mut ApplyContext<'_>,
        run: impl FnOnce(&mut Self, &mut ApplyContext<'_>) -> Outcome,
    ) -> Outcome {
        let Some(NumberedCall { session, request, scope }) = call else { return run(self, ctx) };
        let session = self.open_session_named(&session)?;
        if let Some(first) = self.recalled_request(session, request, scope)? {
            return first;
        }
        self.check_room_for_reply(session)?;
        let outcome = run(self, ctx);
        self.remember(session, AnsweredCall::Request(request, scope), outcome.clone());
        outcome
    }

    /// The outcome of a copy of a numbered call; `None` if the call is new.
    pub(crate) fn recalled_request(
        &self,
        session: SessionId,
        request: RequestNumber,
        scope: CallScope,
    ) -> Result<Option<Outcome>, Rejection> {
        let Some(session) = self.sessions.get(session) else { return Ok(None) };
        Ok(session.memo.recall_request(request, scope)?.map(RememberedAnswer::repeated))
    }

    /// The outcome of a copy of a call; `None` if the call is new or forgotten.
    pub(crate) fn recalled(&self, session: SessionId, call: AnsweredCall) -> Option<Outcome> {
        self.sessions.get(session)?.memo.recall(call).map(RememberedAnswer::repeated)
    }

    /// Remembers the answer of this command to a call.
    pub(crate) fn remember(&mut self, session: SessionId, call: AnsweredCall, outcome: Outcome) {
        let answer = RememberedAnswer { call, outcome, revision: self.revision };
        self.sessions.remember(session, answer, self.limits.memo_per_session_max);
    }
}
