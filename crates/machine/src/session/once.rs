//! Runs a command once for each request id of a session.

use holdfast_types::{Outcome, RequestId, Revision, SessionId, SessionName};

use crate::Machine;
use crate::context::ApplyContext;

impl Machine {
    /// Runs a command once for each request id of a session. If the call names a session, it must be live. If the call
    /// comes from a connection, the session must be attached to it.
    pub(crate) fn once(
        &mut self,
        ctx: &mut ApplyContext<'_>,
        (session, attachment, request): (Option<SessionName>, Option<Revision>, Option<RequestId>),
        run: impl FnOnce(&mut Self, Option<SessionId>, &mut ApplyContext<'_>) -> Outcome,
    ) -> Outcome {
        let Some(name) = session else { return run(self, None, ctx) };
        let caller = self.open_session_named(&name)?;
        self.check_attachment(caller, attachment)?;
        let Some(request) = request else { return run(self, Some(caller), ctx) };
        let session = self.sessions.get(caller);
        let first = session.and_then(|session| session.memo.recall(&request));
        if let Some(first) = first {
            return first.clone();
        }
        let outcome = run(self, Some(caller), ctx);
        let count_max = self.limits.memo_per_session_max;
        self.sessions.remember(caller, request, outcome.clone(), count_max);
        outcome
    }
}
