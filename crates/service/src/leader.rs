//! What only the leader can answer: renewals and remaining leases; and the way there from any node.
//!
//! A renewal is acknowledged only after a quorum has confirmed the leadership in a round that began after the
//! request arrived (ADR: design D7), and writes no log entry. On a follower the request travels to the leader in
//! one hop; an answer lost on the way is harmless, because a renewal can be repeated.

use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::FutureExt;
use holdfast_codec::Kind;
use holdfast_machine::Machine;
use holdfast_raft::CallError;
use holdfast_types::{
    Command, LockName, NodeId, Owner, Rejection, Reply, Revision, SessionId, SessionName,
    SessionStatus, Standing, Ttl,
};
use serde::{Deserialize, Serialize};

use crate::audit::{BUILD, Note};
use crate::cluster::{self, NodeReport};
use crate::failure::Failure;
use crate::lease::Renewal;
use crate::leases::{LeaseView, NamedRenewal};
use crate::service::Service;

/// What one service asks of another. Append-only.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum PeerRequest {
    /// Renew a session, and say where one of its contenders stands.
    Renew { session: SessionName, contender: Option<(LockName, Owner)>, within_ms: u32 },
    /// How long a session's lease still runs.
    Remaining { session: SessionName, within_ms: u32 },
    /// How the node is.
    Report,
    /// Its digests at fixed points of the log.
    Notes,
    /// Renew many sessions.
    RenewMany { sessions: Vec<SessionId>, within_ms: u32 },
    /// Renew many sessions by name.
    RenewNamed { sessions: Vec<SessionName>, within_ms: u32 },
    /// How the leases of sessions stand.
    Leases { sessions: Vec<SessionName>, within_ms: u32 },
}

/// The answers. Append-only.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum PeerReply {
    /// To `Renew`.
    Renewed(Renewed),
    /// To `Remaining`.
    Remaining { ms: u64 },
    /// To `Report`.
    Report(NodeReport),
    /// The machine refuses.
    Rejected(Rejection),
    /// The node asked does not lead; nothing was done.
    NotLeader,
    /// To `Notes`.
    Notes {
        /// Of whom: digests of other builds are not comparable.
        build: String,
        /// Its digests, oldest first.
        notes: Vec<Note>,
    },
    /// To `RenewMany`: one to each, in order.
    RenewedMany(Vec<BatchRenewal>),
    /// To `RenewNamed`: one to each, in order.
    RenewedNamed(Vec<NamedRenewal>),
    /// To `Leases`: one to each, in order; none of sessions that have no lease.
    Leases(Vec<Option<LeaseView>>),
}

/// What became of one renewal of many. Append-only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum BatchRenewal {
    /// A quorum stands behind it.
    Renewed,
    /// An expiry is on its way: renew it through the log.
    Expiring,
    /// There is no such session.
    Gone,
    /// Nobody can tell.
    Unknown,
}

/// A renewal that a quorum stands behind.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Renewed {
    pub(crate) id: SessionId,
    pub(crate) ttl: Ttl,
    pub(crate) standing: Option<Standing>,
    pub(crate) revision: Revision,
}

type Contender = Option<(LockName, Owner)>;

impl Service {
    /// Renews a session wherever the leader is.
    pub(crate) async fn renew(
        &self,
        session: &SessionName,
        contender: Contender,
        deadline: Instant,
    ) -> Result<Renewed, Failure> {
        let session = session.clone();
        let request = |within_ms| PeerRequest::Renew { session, contender, within_ms };
        match self.ask_leader(request, deadline).await? {
            PeerReply::Renewed(renewed) => {
                self.metrics().keepalives.inc();
                Ok(renewed)
            }
            PeerReply::Rejected(rejection) => Err(Failure::Rejected(rejection)),
            PeerReply::Remaining { .. }
            | PeerReply::Report(_)
            | PeerReply::Notes { .. }
            | PeerReply::RenewedMany(_)
            | PeerReply::RenewedNamed(_)
            | PeerReply::Leases(_)
            | PeerReply::NotLeader => Err(Failure::OutcomeUnknown),
        }
    }

    /// Renews many sessions wherever the leader is: one answer to each, in order.
    pub(crate) async fn renew_many(
        &self,
        sessions: Vec<SessionId>,
        deadline: Instant,
    ) -> Result<Vec<BatchRenewal>, Failure> {
        let count = sessions.len();
        let request = |within_ms| PeerRequest::RenewMany { sessions, within_ms };
        match self.ask_leader(request, deadline).await? {
            PeerReply::RenewedMany(answers) if answers.len() == count => Ok(answers),
            PeerReply::RenewedMany(_)
            | PeerReply::Rejected(_)
            | PeerReply::Renewed(_)
            | PeerReply::Remaining { .. }
            | PeerReply::Report(_)
            | PeerReply::Notes { .. }
            | PeerReply::RenewedNamed(_)
            | PeerReply::Leases(_)
            | PeerReply::NotLeader => Err(Failure::OutcomeUnknown),
        }
    }

    /// What is left of a session's lease.
    pub(crate) async fn remaining(
        &self,
        session: &SessionName,
        deadline: Instant,
    ) -> Result<Duration, Failure> {
        let session = session.clone();
        let request = |within_ms| PeerRequest::Remaining { session, within_ms };
        match self.ask_leader(request, deadline).await? {
            PeerReply::Remaining { ms } => Ok(Duration::from_millis(ms)),
            PeerReply::Rejected(rejection) => Err(Failure::Rejected(rejection)),
            PeerReply::Renewed(_)
            | PeerReply::Report(_)
            | PeerReply::Notes { .. }
            | PeerReply::RenewedMany(_)
            | PeerReply::RenewedNamed(_)
            | PeerReply::Leases(_)
            | PeerReply::NotLeader => Err(Failure::OutcomeUnknown),
        }
    }

    /// Answers here if this node leads, or asks the node that does; asks again while nobody does, until the
    /// deadline. A round is on the heap: every waiter has room for a renewal, and few renew at a time.
    pub(crate) async fn ask_leader(
        &self,
        request: impl FnOnce(u32) -> PeerRequest,
        deadline: Instant,
    ) -> Result<PeerReply, Failure> {
        let mut leadership = self.raft().leadership();
        let within = deadline.saturating_duration_since(Instant::now());
        let request = request(u32::try_from(within.as_millis()).unwrap_or(u32::MAX));
        loop {
            let leader = leadership.borrow_and_update().leader;
            let reply = match leader {
                None => PeerReply::NotLeader,
                Some(leader) if leader == self.node() => self.answer(request.clone()).boxed().await,
                Some(leader) => self.ask(leader, &request, deadline).boxed().await,
            };
            if !matches!(reply, PeerReply::NotLeader) {
                return Ok(reply);
            }
            // Asking again soon is right too: the leader may just not have confirmed itself yet.
            let pause = tokio::time::sleep(Duration::from_millis(50));
            tokio::select! {
                changed = leadership.changed() => changed.map_err(|_| Failure::ShuttingDown)?,
                () = pause => {}
            }
            if Instant::now() >= deadline {
                return Err(self.no_leader());
            }
        }
    }

    /// Asks one node; whatever goes wrong counts as "not the leader", since these requests can be repeated.
    pub(crate) async fn ask(
        &self,
        node: NodeId,
        request: &PeerRequest,
        deadline: Instant,
    ) -> PeerReply {
        let Ok(bytes) = holdfast_codec::encode(Kind::ServiceRequest, request) else {
            return PeerReply::NotLeader;
        };
        match self.raft().call_peer(node, bytes.into(), deadline).await {
            Ok(reply) => {
                holdfast_codec::decode(Kind::ServiceReply, &reply).unwrap_or_else(|error| {
                    tracing::warn!(peer = node.0, %error, "a peer's service answered nonsense");
                    PeerReply::NotLeader
                })
            }
            Err(CallError::NotSent(_) | CallError::Unknown(_)) => PeerReply::NotLeader,
        }
    }

    /// A request of another node's service.
    pub(crate) async fn called(&self, from: NodeId, request: &[u8]) -> Bytes {
        let reply = match holdfast_codec::decode(Kind::ServiceRequest, request) {
            Ok(request) => self.answer(request).await,
            Err(error) => {
                tracing::warn!(peer = from.0, %error, "a peer's service asked nonsense");
                PeerReply::NotLeader
            }
        };
        encode(&reply)
    }

    async fn answer(&self, request: PeerRequest) -> PeerReply {
        match request {
            PeerRequest::Renew { session, contender, within_ms } => {
                self.renew_here(session, contender, deadline_in(within_ms)).await
            }
            PeerRequest::Remaining { session, within_ms } => {
                self.remaining_here(&session, deadline_in(within_ms)).await
            }
            PeerRequest::Report => PeerReply::Report(cluster::report(self)),
            PeerRequest::Notes => PeerReply::Notes { build: BUILD.to_owned(), notes: self.notes() },
            PeerRequest::RenewMany { sessions, within_ms } => {
                self.renew_many_here(&sessions, deadline_in(within_ms)).await
            }
            PeerRequest::RenewNamed { sessions, within_ms } => {
                self.renew_named_here(sessions, deadline_in(within_ms)).await
            }
            PeerRequest::Leases { sessions, within_ms } => {
                self.leases_here(&sessions, deadline_in(within_ms)).await
            }
        }
    }

    async fn renew_here(
        &self,
        session: SessionName,
        contender: Contender,
        deadline: Instant,
    ) -> PeerReply {
        if self.raft().confirm_leadership(deadline).await.is_err() {
            return PeerReply::NotLeader;
        }
        let renewal = self.raft().read(|machine| {
            let (id, ttl) = find(machine, &session)?;
            let standing =
                contender.and_then(|(lock, owner)| machine.standing(&lock, &session, &owner));
            let renewal = self.leases().lock().renew(id, Instant::now());
            let renewed = Renewed { id, ttl, standing, revision: machine.revision() };
            Ok((renewal, renewed))
        });
        match renewal {
            Err(rejection) => PeerReply::Rejected(rejection),
            // Unknown: the leadership is so young that the full ttl has not even begun to run.
            Ok((Renewal::Renewed | Renewal::Unknown, renewed)) => PeerReply::Renewed(renewed),
            Ok((Renewal::Expiring, renewed)) => {
                self.renew_through_the_log(session, renewed, deadline).await
            }
        }
    }

    async fn renew_many_here(&self, sessions: &[SessionId], deadline: Instant) -> PeerReply {
        if self.raft().confirm_leadership(deadline).await.is_err() {
            return PeerReply::NotLeader;
        }
        PeerReply::RenewedMany(self.raft().read(|machine| {
            let (mut leases, now) = (self.leases().lock(), Instant::now());
            let renew = |id: &SessionId| match (machine.lease(*id), leases.renew(*id, now)) {
                (None, _) => BatchRenewal::Gone,
                (Some(_), Renewal::Expiring) => BatchRenewal::Expiring,
                // Unknown: see `renew_here`.
                (Some(_), Renewal::Renewed | Renewal::Unknown) => BatchRenewal::Renewed,
            };
            sessions.iter().map(renew).collect()
        }))
    }

    /// An expiry is on its way: only the log can say which of the two came first.
    pub(crate) async fn renew_through_the_log(
        &self,
        session: SessionName,
        renewed: Renewed,
        deadline: Instant,
    ) -> PeerReply {
        let command = Command::RenewSession { session, ttl: None };
        match self.raft().propose(command, deadline).await.map(|committed| committed.outcome) {
            Ok(Ok(Reply::SessionRenewed { .. })) => PeerReply::Renewed(renewed),
            Ok(Err(rejection)) => PeerReply::Rejected(rejection),
            Ok(Ok(_)) | Err(_) => PeerReply::NotLeader,
        }
    }

    async fn remaining_here(&self, session: &SessionName, deadline: Instant) -> PeerReply {
        if self.raft().confirm_leadership(deadline).await.is_err() {
            return PeerReply::NotLeader;
        }
        let now = Instant::now();
        let found = self.raft().read(|machine| find(machine, session));
        match found {
            Err(rejection) => PeerReply::Rejected(rejection),
            Ok((id, ttl)) => {
                let left = self.leases().lock().remaining(id, now).unwrap_or(ttl.as_duration());
                PeerReply::Remaining { ms: holdfast_types::millis(left) }
            }
        }
    }
}

/// What a node answers whose service is not up yet.
pub(crate) fn not_leader() -> Bytes {
    encode(&PeerReply::NotLeader)
}

/// Bytes that no peer understands, should the reply not fit an envelope: it then counts as unanswered.
fn encode(reply: &PeerReply) -> Bytes {
    holdfast_codec::encode(Kind::ServiceReply, reply).map(Bytes::from).unwrap_or_default()
}

pub(crate) fn find(
    machine: &Machine,
    session: &SessionName,
) -> Result<(SessionId, Ttl), Rejection> {
    match machine.session_id(session) {
        Some(found) => Ok(found),
        None if machine.session(session) == SessionStatus::Expired => {
            Err(Rejection::SessionExpired { session: session.clone() })
        }
        None => Err(Rejection::NoSession { session: session.clone() }),
    }
}

fn deadline_in(within_ms: u32) -> Instant {
    Instant::now() + Duration::from_millis(u64::from(within_ms))
}
