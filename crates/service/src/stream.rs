//! Streams: connections that act for a session, with one ordered outbox to the client. This file opens a session for a connection,
//! attaches one to it with the session's password, and lists the streams and watches of the node.
//!
//! The front-end translates bytes. Opening and attaching are commands. The revision of the command, the *attachment*, names the
//! connection that acts for the session. A stream starts after this node has applied everything that the client has seen.
//!
//! ```text
//! front-end ─ Service::open_stream_session | attach_session ─► Attached ─ Service::stream ─► SessionStream, Outbox
//! request ──► SessionStream::read | write | … ─► order ─► Outbox ─► reply, notice, end
//! apply ────► ApplyObserver ─► Streams::on_event ─► order ─┘
//! ```
//!
//! Bounds: `ServiceConfig` bounds the streams and watches of a node, [`StreamLimits`] those of one stream.

mod arming;
mod handle;
mod liveness;
mod message;
mod order;
mod outbox;
mod renewals;
mod watch_table;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use holdfast_machine::Machine;
use holdfast_types::{
    Actor, Command, Labels, OpenSession, Password, Reply, Revision, SessionId, SessionName,
    SessionOpenedReply, Ttl, ZnodePath,
};

use self::liveness::{Liveness, slack};
use self::order::RegisteredStream;
use crate::auth::access_token::random_bytes;
use crate::request::{Failure, Response};
use crate::service::Service;

pub use handle::SessionStream;
pub(crate) use liveness::RenewalQueue;
pub use message::{
    Notice, NoticeKind, Outgoing, StreamAnswer, StreamEnd, StreamRead, StreamReply, WatchKind,
    WatchMode, WatchSet,
};
pub use order::Attachment;
pub(crate) use order::Streams;
pub use outbox::{Outbox, StreamLimits};
pub(crate) use renewals::run as renew_streams;

/// What a client needs to take its session to another connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionKey {
    pub id: SessionId,
    pub password: Password,
}

impl SessionKey {
    /// The key of a session that no node has opened yet.
    ///
    /// # Errors
    /// [`Failure::Failed`] if the operating system returns no random bytes.
    pub fn generate() -> Result<Self, Failure> {
        let std::ops::Range { start, end } = SessionId::CHOSEN;
        let number = u64::from_le_bytes(random_bytes()?);
        Ok(Self {
            id: SessionId(start + number % (end - start)),
            password: Password(random_bytes()?),
        })
    }
}

impl Service {
    /// Whether calls need a credential on this node, and the caller has none.
    pub fn lacks_credential(&self) -> bool {
        *self.actor() == Actor::Anonymous && self.requires_permissions()
    }

    /// Until when a client with this TTL may count on the session of this key, if nothing renews it; `None` if it is not open.
    /// Changes nothing: neither its lease nor its connection. `seen` as in [`Service::open_stream_session`].
    ///
    /// # Errors
    /// [`Failure::Lagging`]; the errors of any read.
    pub async fn stream_session_until(
        &self,
        key: SessionKey,
        ttl: Ttl,
        seen: Revision,
    ) -> Result<Option<Instant>, Failure> {
        self.catch_up(seen).await?;
        // It may have been opened or closed through another node.
        self.read_barrier().await?;
        if !self.raft().read(|machine| machine.is_opened_by(key.id, Some(key.password))) {
            return Ok(None);
        }
        let began = Instant::now();
        let left = self.remaining(&stream_session_name(key.id)?).await?;
        Ok(Some(began + left.saturating_sub(slack(ttl))))
    }

    /// Opens a session for a connection, with the id and the password that its client gets. `seen` is the newest revision
    /// that the client has seen, or 0: this node catches up with it first.
    ///
    /// # Errors
    /// [`Failure::Lagging`] if this node does not catch up in time; otherwise the errors of any write. After
    /// [`Failure::OutcomeUnknown`] there may be an unused session, which expires.
    pub async fn open_stream_session(
        &self,
        SessionKey { id, password }: SessionKey,
        ttl: Ttl,
        labels: Labels,
        seen: Revision,
    ) -> Result<Attachment, Failure> {
        self.catch_up(seen).await?;
        let session = stream_session_name(id)?;
        let open = OpenSession {
            ttl: Some(lease_ttl(ttl)),
            labels,
            password: Some(password),
            id: Some(id),
            ..OpenSession::of(session.clone())
        };
        let since = Instant::now();
        let (caller, open) = (self.opener(), Command::OpenSession { open, attempt: None });
        let opened = caller.propose(open, Reply::into_session_opened).await?;
        let Response { value: SessionOpenedReply { created, .. }, revision: attachment, .. } =
            opened;
        if !created {
            // Another client has the same 52 random bits.
            return Err(Failure::NoLeader);
        }
        self.catch_up(attachment).await?;
        Ok(Attachment { id, session, password, ttl, attachment, since })
    }

    /// Attaches a session to a connection. An older stream of the session on this node ends with `Moved`; one on
    /// another node continues, but its writes are rejected. A session without a subject becomes the caller's. `seen` as in
    /// [`Service::open_stream_session`].
    ///
    /// # Errors
    /// A rejection if the password is wrong, the session has ended or belongs to another subject; [`Failure::Lagging`] as
    /// above.
    pub async fn attach_session(
        &self,
        SessionKey { id, password }: SessionKey,
        ttl: Ttl,
        seen: Revision,
    ) -> Result<Attachment, Failure> {
        self.catch_up(seen).await?;
        let since = Instant::now();
        let attach = Command::AttachSession { session: id, password, ttl: lease_ttl(ttl) };
        let attached = self.opener().propose(attach, Reply::into_session_attached).await?;
        let Response { value: session, revision: attachment, .. } = attached;
        if *self.actor() != Actor::Anonymous {
            self.claim_session(id).await?;
        }
        self.catch_up(attachment).await?;
        Ok(Attachment { id, session, password, ttl, attachment, since })
    }

    /// The caller of the command that opens or attaches a session. A client without a credential may do both where it
    /// proves who it is later, or never: the password proves that an attached session is its own.
    fn opener(&self) -> Self {
        match self.actor() {
            Actor::Anonymous => self.as_node(),
            Actor::Node | Actor::Token(_) | Actor::Subject(_) => self.clone(),
        }
    }

    /// Makes the caller's subject the subject of a connection's session that has none.
    ///
    /// # Errors
    /// A rejection if the session has ended, or the namespace of the subject has no room for a session; the errors of any
    /// write.
    pub async fn claim_session(&self, session: SessionId) -> Result<(), Failure> {
        let claim = Command::ClaimSession { session };
        let has_subject = |machine: &Machine| {
            machine
                .session_name(session)
                .is_some_and(|name| machine.subject_of_session(&name).is_some())
        };
        if self.raft().read(has_subject) {
            return Ok(());
        }
        self.propose(claim, Reply::into_session_claimed).await.map(drop)
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

fn stream_session_name(id: SessionId) -> Result<SessionName, Failure> {
    SessionName::new(format!("zk-{:x}", id.0)).map_err(|error| Failure::Failed(error.to_string()))
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamView {
    pub session: SessionId,
    /// The revision of the attachment.
    pub attachment: Revision,
    pub since: Instant,
    /// A persistent watch counts twice.
    pub watches: usize,
    /// Items in the outbox.
    pub queued: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WatchCounts {
    /// Streams with at least one watch.
    pub streams: usize,
    pub paths: usize,
    /// A persistent watch counts twice.
    pub watches: usize,
}

impl Service {
    /// Returns the streams of this node, the oldest first.
    pub fn streams_list(&self) -> Vec<StreamView> {
        let registry = self.observer().streams.registry.lock();
        let view = |(number, stream): (&_, &RegisteredStream)| StreamView {
            session: stream.session,
            attachment: stream.attachment,
            since: stream.since,
            watches: registry.table.len_of(*number),
            queued: stream.queue.len(),
        };
        registry.streams.iter().map(view).collect()
    }

    /// Returns the numbers of watching streams, watched paths and watches. O(1).
    pub fn watch_counts(&self) -> WatchCounts {
        let registry = self.observer().streams.registry.lock();
        let table = &registry.table;
        WatchCounts { streams: table.streams(), paths: table.paths(), watches: table.len() }
    }

    /// Returns the watched paths by session. `apply` waits while they are copied.
    pub fn watches_by_session(&self) -> BTreeMap<SessionId, Vec<ZnodePath>> {
        let registry = self.observer().streams.registry.lock();
        let mut found: BTreeMap<SessionId, Vec<ZnodePath>> = BTreeMap::new();
        for (number, stream) in &registry.streams {
            let mut paths = registry.table.paths_of(*number).cloned().peekable();
            if paths.peek().is_some() {
                found.entry(stream.session).or_default().extend(paths);
            }
        }
        found
    }

    /// Returns the watching sessions by path.
    pub fn watches_by_path(&self) -> BTreeMap<ZnodePath, Vec<SessionId>> {
        let mut found: BTreeMap<ZnodePath, Vec<SessionId>> = BTreeMap::new();
        for (session, paths) in self.watches_by_session() {
            for path in paths {
                found.entry(path).or_default().push(session);
            }
        }
        found
    }
}
