//! Calls from the service of one node to the service of another.
//!
//! A [`ServiceCall`] pairs a request with the type of its reply. [`Service::call_service`], [`Service::called`] and the
//! list at the end of the file are the only code that encodes or decodes calls. A new call is a struct, its
//! `ServiceCall`, and its name at the end of that list.
//!
//! A caller can repeat a failed call that may have reached the peer: it reads, or renews a lease. The transfer of the
//! leadership is an exception.

use std::future::Future;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::FutureExt;
use holdfast_codec::Kind;
use holdfast_machine::DIGEST_SCHEMA;
use holdfast_raft::Role;
use holdfast_types::{
    Actor, ClockReading, EntryState, FeatureLevel, LockName, NodeId, Owner, Rejection, Revision,
    SessionId, SessionName, Stamp, Ticket, Ttl,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::health::alarms::Alarm;
use crate::request::Failure;
use crate::service::Service;

/// The pause between two attempts of a call to the leader, unless the leader changes.
const RETRY_PAUSE: Duration = Duration::from_millis(50);

/// A request to the service of another node, with the type of its reply.
pub(crate) trait ServiceCall: Clone + Into<ServiceRequest> + Send + Sync {
    type Reply: Serialize + DeserializeOwned + Send;

    /// Handles the call on this node.
    fn answer(
        self,
        service: &Service,
        deadline: Instant,
    ) -> impl Future<Output = Result<Self::Reply, CallFailure>> + Send;
}

/// The reason why a call has no reply. Append-only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum CallFailure {
    /// The called node does not lead, or no usable reply arrived. A later attempt may succeed.
    Unavailable,
    /// The state machine rejects the request.
    Rejected(Rejection),
}

/// Renews sessions, with one quorum round for all of them. Leader only.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Renew {
    /// The caller.
    pub(crate) actor: Actor,
    pub(crate) sessions: Vec<SessionToRenew>,
    /// Whether the leader also renews the sessions that are renewed only through the log. Otherwise their result is
    /// [`CallFailure::Unavailable`].
    pub(crate) through_the_log: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SessionToRenew {
    pub(crate) session: SessionName,
    /// The number of the session, if a later session of the same name must not be renewed.
    pub(crate) id: Option<SessionId>,
    /// The hold or queue entry whose state the renewal also returns.
    pub(crate) queue_entry: Option<(LockName, Owner, Ticket)>,
}

/// A renewal that a quorum confirmed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Renewed {
    pub(crate) id: SessionId,
    pub(crate) ttl: Ttl,
    pub(crate) entry: Option<EntryState>,
    pub(crate) revision: Revision,
}

impl ServiceCall for Renew {
    /// One for each session, in order.
    type Reply = Vec<Result<Renewed, CallFailure>>;

    async fn answer(
        self,
        service: &Service,
        deadline: Instant,
    ) -> Result<Self::Reply, CallFailure> {
        service.renew_as_leader(self, deadline).await
    }
}

/// Returns the state of the called node.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ReadReport;

/// The state of one node.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct NodeReport {
    pub(crate) term: u64,
    pub(crate) leader: Option<NodeId>,
    pub(crate) role: Role,
    pub(crate) applied: Revision,
    pub(crate) digest: u64,
    pub(crate) failed: bool,
    /// What the unfinished change of a member waits for. Only the leader has it.
    pub(crate) change_waits_for: Option<String>,
    pub(crate) version: String,
    /// The highest feature level that its program knows.
    pub(crate) level_max: FeatureLevel,
}

impl ServiceCall for ReadReport {
    type Reply = NodeReport;

    async fn answer(self, service: &Service, _: Instant) -> Result<NodeReport, CallFailure> {
        Ok(service.report())
    }
}

/// Returns what the called node knows about its machine and its connections. An older program does not know the call.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ReadHost;

/// The machine and the connections of one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HostReport {
    /// Free bytes on the disk of the data directory; `None` before the first check.
    pub(crate) disk_free: Option<u64>,
    pub(crate) log_bytes: u64,
    /// When the first certificate of its listeners expires.
    pub(crate) certificate_expires_at: Option<Stamp>,
    /// The members that do not answer this node.
    pub(crate) cannot_reach: Vec<NodeId>,
}

impl ServiceCall for ReadHost {
    type Reply = HostReport;

    async fn answer(self, service: &Service, _: Instant) -> Result<HostReport, CallFailure> {
        Ok(service.host_report())
    }
}

/// Returns the alarms of the called node.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ReadAlarms;

impl ServiceCall for ReadAlarms {
    type Reply = Vec<Alarm>;

    async fn answer(self, service: &Service, _: Instant) -> Result<Vec<Alarm>, CallFailure> {
        Ok(service.own_alarms())
    }
}

/// Returns the digests that the called node recorded.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ReadDigests;

/// The digests of one node, oldest first.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct NodeDigests {
    /// Digests of different schemas are not comparable.
    pub(crate) schema: u16,
    pub(crate) digests: Vec<(Revision, u64)>,
}

impl ServiceCall for ReadDigests {
    type Reply = NodeDigests;

    async fn answer(self, service: &Service, _: Instant) -> Result<NodeDigests, CallFailure> {
        Ok(service.digests())
    }
}

/// Returns the wall clock of the called node.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ReadClock;

impl ServiceCall for ReadClock {
    type Reply = ClockReading;

    async fn answer(self, service: &Service, _: Instant) -> Result<ClockReading, CallFailure> {
        Ok(service.clock_reading())
    }
}

/// Returns the priority of the called node as a leader; nothing from a node that should not lead now.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ReadPriority;

impl ServiceCall for ReadPriority {
    type Reply = u8;

    async fn answer(self, service: &Service, _: Instant) -> Result<u8, CallFailure> {
        let should_lead = !service.raft().status().disk_low && !service.draining().is_cancelled();
        if should_lead { Ok(service.config().priority) } else { Err(CallFailure::Unavailable) }
    }
}

/// Returns the digest of the whole state that a `VerifyState` command requested.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct ReadStateDigest {
    /// The revision of the command.
    pub(crate) requested_in: Revision,
}

impl ServiceCall for ReadStateDigest {
    /// With the schema of the digest; `None` until the node has computed it.
    type Reply = Option<(u16, u64)>;

    async fn answer(self, service: &Service, _: Instant) -> Result<Self::Reply, CallFailure> {
        let digest = service.observer().state_digests.get(self.requested_in);
        Ok(digest.map(|digest| (DIGEST_SCHEMA, digest)))
    }
}

/// Returns the leases of sessions. Leader only.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ReadLeases {
    pub(crate) sessions: Vec<SessionName>,
}

/// A session's lease in the leader's lease table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseView {
    /// The lifetime that a renewal sets.
    pub ttl: Ttl,
    /// Milliseconds until the lease expires unless the session is renewed.
    pub left_ms: u64,
}

impl LeaseView {
    /// Milliseconds since the last renewal. Too small if the leader extended the lease after a pause of its own.
    pub fn renewed_ago_ms(&self) -> u64 {
        u64::from(self.ttl.as_millis()).saturating_sub(self.left_ms)
    }
}

impl ServiceCall for ReadLeases {
    /// One for each session, in order; `None` for a session without a lease.
    type Reply = Vec<Option<LeaseView>>;

    async fn answer(
        self,
        service: &Service,
        deadline: Instant,
    ) -> Result<Self::Reply, CallFailure> {
        service.leases_as_leader(&self.sessions, deadline).await
    }
}

/// Transfers leadership. Leader only.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct TransferLeadership {
    /// `None`: to any voter. A repeated call without it would end the leadership of the successor, too.
    pub(crate) to: Option<NodeId>,
}

impl ServiceCall for TransferLeadership {
    type Reply = ();

    async fn answer(self, service: &Service, _: Instant) -> Result<(), CallFailure> {
        if service.leader() != Some(service.node()) {
            return Err(CallFailure::Unavailable);
        }
        if self.to != Some(service.node()) {
            service.raft().transfer_leadership(self.to).await;
        }
        Ok(())
    }
}

impl Service {
    /// Runs a call on this node if it leads, or else on the leader. Retries until `deadline`, at most for
    /// [`holdfast_raft::RaftNode::leader_wait`], while no node replies as the leader.
    pub(crate) async fn call_leader<C: ServiceCall>(
        &self,
        call: C,
        deadline: Instant,
    ) -> Result<C::Reply, Failure> {
        let mut leadership = self.raft().leadership();
        let give_up_at = deadline.min(Instant::now() + self.raft().leader_wait());
        loop {
            let leader = leadership.borrow_and_update().leader;
            // Boxed: each parked waiter embeds this future, and few of them renew at a time.
            let reply = match leader {
                None => Err(CallFailure::Unavailable),
                Some(leader) if leader == self.node() => {
                    call.clone().answer(self, deadline).boxed().await
                }
                Some(leader) => {
                    self.call_while_leading(leader, call.clone(), deadline).boxed().await
                }
            };
            match reply {
                Ok(reply) => return Ok(reply),
                Err(CallFailure::Rejected(rejection)) => return Err(Failure::Rejected(rejection)),
                Err(CallFailure::Unavailable) => {}
            }
            tokio::select! {
                changed = leadership.changed() => changed.map_err(|_| Failure::ShuttingDown)?,
                // The leader may not have confirmed its leadership yet.
                () = tokio::time::sleep(RETRY_PAUSE) => {}
            }
            if Instant::now() >= give_up_at {
                return Err(self.no_leader());
            }
        }
    }

    /// Calls the service of the leader once. The call ends with its leadership.
    async fn call_while_leading<C: ServiceCall>(
        &self,
        leader: NodeId,
        call: C,
        deadline: Instant,
    ) -> Result<C::Reply, CallFailure> {
        let mut leadership = self.raft().leadership();
        tokio::select! {
            reply = self.call_service(leader, call, deadline) => reply,
            _ = leadership.wait_for(|now| now.leader != Some(leader)) => {
                Err(CallFailure::Unavailable)
            }
        }
    }

    /// Calls the service of one node once. Any transport or codec error is [`CallFailure::Unavailable`].
    pub(crate) async fn call_service<C: ServiceCall>(
        &self,
        node: NodeId,
        call: C,
        deadline: Instant,
    ) -> Result<C::Reply, CallFailure> {
        let request = holdfast_codec::encode(Kind::ServiceRequest, &call.into())
            .map_err(|_| CallFailure::Unavailable)?;
        let reply = self.raft().call_peer(node, request.into(), deadline).await;
        let reply = reply.map_err(|_| CallFailure::Unavailable)?;
        holdfast_codec::decode(Kind::ServiceReply, &reply).unwrap_or_else(|error| {
            tracing::warn!(peer = node.0, %error, "undecodable reply from a peer");
            Err(CallFailure::Unavailable)
        })
    }

    /// Handles an encoded call of another node.
    pub(crate) async fn called(&self, from: NodeId, request: &[u8], deadline: Instant) -> Bytes {
        match holdfast_codec::decode::<ServiceRequest>(Kind::ServiceRequest, request) {
            Ok(request) => request.answer(self, deadline).await,
            Err(error) => {
                tracing::warn!(peer = from.0, %error, "undecodable request from a peer");
                unavailable()
            }
        }
    }
}

/// The encoded reply of a node whose service has not started yet.
pub(crate) fn unavailable() -> Bytes {
    encode_reply::<()>(&Err(CallFailure::Unavailable))
}

/// A reply that is too large for an envelope becomes empty; the caller cannot decode it and treats it as no reply.
fn encode_reply<T: Serialize>(reply: &Result<T, CallFailure>) -> Bytes {
    holdfast_codec::encode(Kind::ServiceReply, reply).map(Bytes::from).unwrap_or_default()
}

macro_rules! service_requests {
    ($($call:ident),*) => {
        /// The wire form of any call. Append-only: the position in the list is part of the format.
        #[derive(Clone, Debug, Serialize, Deserialize)]
        pub(crate) enum ServiceRequest {
            $($call($call)),*
        }

        $(impl From<$call> for ServiceRequest {
            fn from(call: $call) -> Self {
                Self::$call(call)
            }
        })*

        impl ServiceRequest {
            async fn answer(self, service: &Service, deadline: Instant) -> Bytes {
                match self {
                    $(Self::$call(call) => encode_reply(&call.answer(service, deadline).await)),*
                }
            }
        }
    };
}

service_requests!(
    Renew,
    ReadReport,
    ReadDigests,
    ReadLeases,
    TransferLeadership,
    ReadAlarms,
    ReadClock,
    ReadStateDigest,
    ReadPriority,
    ReadHost
);
