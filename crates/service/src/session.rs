//! Opening, renewing and closing sessions.

use std::time::Instant;

use holdfast_types::{
    Command, Identity, Labels, Rejection, Reply, SessionId, SessionName, SessionStatus,
    SessionView, Ttl,
};

use crate::acquire::{opening, server_made_name};
use crate::answer::{Answer, Failure, Response};
use crate::request::Call;
use crate::service::{Service, respond};

impl Service {
    pub(crate) async fn open_session(
        &self,
        session: Option<SessionName>,
        ttl: Option<Ttl>,
        labels: Labels,
    ) -> Result<Response, Failure> {
        let arrived = Instant::now();
        let session = match session {
            Some(session) => session,
            None => server_made_name()?,
        };
        let command = Command::OpenSession(opening(session.clone(), ttl, labels));
        let (outcome, revision) = self.propose(command).await?;
        let (created, ttl) = match outcome {
            Ok(Reply::SessionOpened { created, ttl, .. }) => (created, ttl),
            Ok(_) => return Err(Failure::OutcomeUnknown),
            Err(rejection) => return Err(Failure::Rejected(rejection)),
        };
        // The view must show the session just opened, so this node has to have applied it. The session is open by
        // now, so a failure here says nothing about it.
        let barrier = self.raft().read_barrier(self.deadline()).await;
        barrier.map_err(|_| Failure::OutcomeUnknown)?;
        let view = self.view(&session)?;
        let expires_in = ttl.as_duration().saturating_sub(arrived.elapsed());
        Ok(respond(Answer::Session { view, created, expires_in }, revision))
    }

    pub(crate) async fn keep_alive(&self, session: SessionName) -> Result<Response, Failure> {
        let arrived = Instant::now();
        let renewed = self.renew(&session, None, self.deadline()).await?;
        let view = if let Ok(view) = self.view(&session) {
            view
        } else {
            // Opened through another node a moment ago: catch up with the leader first.
            let barrier = self.raft().read_barrier(self.deadline()).await;
            barrier.map_err(|_| Failure::OutcomeUnknown)?;
            self.view(&session)?
        };
        let expires_in = renewed.ttl.as_duration().saturating_sub(arrived.elapsed());
        Ok(respond(Answer::Session { view, created: false, expires_in }, renewed.revision))
    }

    pub(crate) async fn close_session(
        &self,
        session: SessionName,
        incarnation: Option<SessionId>,
    ) -> Result<Response, Failure> {
        let (outcome, revision) =
            self.propose(Command::CloseSession { session, attachment: None, incarnation }).await?;
        match outcome {
            Ok(Reply::SessionEnded) => Ok(respond(Answer::SessionClosed, revision)),
            Ok(_) => Err(Failure::OutcomeUnknown),
            Err(rejection) => Err(Failure::Rejected(rejection)),
        }
    }

    /// Ends a session because an operator says so, and says who, what and why in the audit trail.
    pub(crate) async fn end_session(
        &self,
        call: Call,
        session: SessionName,
        incarnation: Option<SessionId>,
        reason: String,
    ) -> Result<Response, Failure> {
        self.raft().read_barrier(self.deadline()).await?;
        let view = self.view(&session)?;
        if incarnation.is_some_and(|meant| meant != view.id) {
            // The session that is meant has ended before.
            let revision = self.raft().read(holdfast_machine::Machine::revision);
            return Ok(respond(Answer::SessionClosed, revision));
        }
        let held = view.holds;
        let held: Vec<_> = held.iter().map(|(lock, token)| format!("{lock}#{token}")).collect();
        let by: Vec<_> = call.principal.identities().iter().map(known_as).collect();
        let (by, held) = (by.join(" "), held.join(" "));
        let known = session.as_str();
        let ended = self.close_session(session.clone(), Some(view.id)).await;
        let done = match &ended {
            Ok(_) => "yes",
            Err(Failure::OutcomeUnknown) => "unknown",
            Err(_) => "no",
        };
        tracing::info!(target: "audit", action = "end-session", session = known, reason, by, held, done,
            request = call.request_id, "an operator ended a session");
        ended
    }

    /// A session as this node has it.
    pub(crate) fn view(&self, session: &SessionName) -> Result<SessionView, Failure> {
        let rejection = match self.raft().read(|machine| machine.session(session)) {
            SessionStatus::Open(view) => return Ok(view),
            SessionStatus::Expired => Rejection::SessionExpired { session: session.clone() },
            SessionStatus::Closed | SessionStatus::Unknown => {
                Rejection::NoSession { session: session.clone() }
            }
        };
        Err(Failure::Rejected(rejection))
    }
}

/// A caller's name as the audit trail shows it: without what proves it.
pub(crate) fn known_as(identity: &Identity) -> String {
    let name = identity.id.split(':').next().unwrap_or_default();
    format!("{}:{name}", identity.scheme)
}
