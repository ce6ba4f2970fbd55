//! Opening a session for a connection, or attaching a session to it with the session's password.
//!
//! Both are commands. The revision of the command, the *attachment*, names the connection that acts for the session. A
//! stream starts after this node has applied everything that the client has seen.

use std::sync::Arc;
use std::time::{Duration, Instant};

use holdfast_machine::Machine;
use holdfast_types::{
    Actor, Command, Labels, OpenSession, Password, Reply, Revision, SessionId, SessionName,
    SessionOpenedReply, Ttl,
};

use super::handle::SessionStream;
use super::liveness::{Liveness, slack};
use super::order::Attachment;
use super::outbox::{Outbox, StreamLimits};
use crate::context::Response;
use crate::failure::Failure;
use crate::service::Service;
use crate::session::random_bytes;

impl Service {
    /// Opens a session for a connection, with a generated name and password. `seen` is the newest revision that the
    /// client has seen, or 0: this node catches up with it first.
    ///
    /// # Errors
    /// [`Failure::Lagging`] if this node does not catch up in time; otherwise the errors of any write. After
    /// [`Failure::OutcomeUnknown`] there may be an unused session, which expires.
    pub async fn open_stream_session(
        &self,
        ttl: Ttl,
        labels: Labels,
        seen: Revision,
    ) -> Result<Attachment, Failure> {
        self.catch_up(seen).await?;
        let (session, password) = (stream_session_name()?, Password(random_bytes()?));
        let open = OpenSession {
            session: session.clone(),
            ttl: Some(lease_ttl(ttl)),
            anonymous: false,
            labels,
            password: Some(password),
        };
        let since = Instant::now();
        // A client proves who it is after it has connected. Until then its session has no subject.
        let caller = match self.actor() {
            Actor::Anonymous => self.as_node(),
            Actor::Node | Actor::Token(_) | Actor::Subject(_) => self.clone(),
        };
        let opened = caller
            .propose_for(Command::OpenSession { open, attempt: None }, Reply::into_session_opened);
        let Response {
            value: SessionOpenedReply { id, created, .. }, revision: attachment, ..
        } = opened.await?;
        if !created {
            // Another client has the same 64 random bits.
            return Err(Failure::NoLeader);
        }
        self.catch_up(attachment).await?;
        Ok(Attachment { id, session, password, ttl, attachment, since })
    }

    /// Attaches a session to a connection. An older stream of the session on this node ends with `Moved`; one on
    /// another node continues, but its writes are rejected. `seen` as in [`Service::open_stream_session`].
    ///
    /// # Errors
    /// A rejection if the password is wrong or the session has ended; [`Failure::Lagging`] as above.
    pub async fn attach_session(
        &self,
        id: SessionId,
        password: Password,
        ttl: Ttl,
        seen: Revision,
    ) -> Result<Attachment, Failure> {
        self.catch_up(seen).await?;
        let since = Instant::now();
        let attach = Command::AttachSession { session: id, password, ttl: lease_ttl(ttl) };
        // The password proves that the session is the client's own.
        let attached = self.as_node().propose_for(attach, Reply::into_session_attached).await?;
        let Response { value: session, revision: attachment, .. } = attached;
        self.catch_up(attachment).await?;
        Ok(Attachment { id, session, password, ttl, attachment, since })
    }

    /// Makes the caller's subject the subject of a connection's session that has none. Below the feature level of the
    /// command, the session stays without a subject.
    ///
    /// # Errors
    /// A rejection if the session has ended, or the namespace of the subject has no room for a session; the errors of any
    /// write.
    pub async fn claim_session(&self, session: SessionId) -> Result<(), Failure> {
        let claim = Command::ClaimSession { session };
        let needed = claim.level();
        let has_subject = |machine: &Machine| {
            machine
                .session_name(session)
                .is_some_and(|name| machine.subject_of_session(&name).is_some())
        };
        if self.raft().read(|machine| machine.level() < needed || has_subject(machine)) {
            return Ok(());
        }
        self.propose_for(claim, Reply::into_session_claimed).await.map(drop)
    }

    /// Starts the stream. Returns the handle for requests, and the outbox for the client.
    ///
    /// # Errors
    /// [`Failure::TooManyStreams`]; a rejection if the session has been attached again or has ended;
    /// [`Failure::ShuttingDown`].
    pub fn stream(
        &self,
        attached: &Attachment,
        limits: StreamLimits,
    ) -> Result<(SessionStream, Outbox), Failure> {
        if self.is_draining() {
            return Err(Failure::ShuttingDown);
        }
        let entered =
            self.raft().read(|machine| self.observer().streams.enter(machine, attached, limits))?;
        let Attachment { id, session, ttl, since, .. } = attached.clone();
        let liveness = Arc::new(Liveness::new(id, session, ttl, since));
        let outbox = Outbox::new(entered.queue.clone(), liveness.clone());
        Ok((SessionStream::new(self.clone(), attached, entered, liveness), outbox))
    }
}

/// Returns the session's TTL in the log: longer than the client's TTL by the slack of renewals.
fn lease_ttl(ttl: Ttl) -> Ttl {
    let ms = ttl.as_duration().saturating_add(slack(ttl)).min(Duration::from_hours(24)).as_millis();
    u64::try_from(ms).ok().and_then(|ms| Ttl::from_millis(ms).ok()).unwrap_or(Ttl::MAX)
}

fn stream_session_name() -> Result<SessionName, Failure> {
    let name = format!("zk-{:016x}", u64::from_le_bytes(random_bytes()?));
    SessionName::new(name).map_err(|error| Failure::Failed(error.to_string()))
}
