//! Runs a command once for each request id of a session.

use holdfast_types::{Outcome, RequestId, Revision, SessionEnd, SessionId, SessionName};

use crate::Machine;
use crate::context::{ApplyContext, expired, no_session};
use crate::session::store::KnownSession;

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
        let caller = match self.sessions.named(&name) {
            Some(KnownSession::Open(id)) => id,
            Some(KnownSession::Ended { end: SessionEnd::Expired, .. }) => {
                return Err(expired(name));
            }
            Some(KnownSession::Ended { end: SessionEnd::Closed, .. }) | None => {
                return Err(no_session(name));
            }
        };
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
