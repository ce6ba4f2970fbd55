//! The calls between nodes: each request with the type of its reply.
//!
//! Every request has a number that its reply repeats, so one connection carries many requests at once. The request
//! also has the remaining timeout of its caller in milliseconds, so a peer does not work for a caller that has given
//! up.
//!
//! A new call is a struct, and one row at the end of the table in this file.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use holdfast_trace::TraceContext;
use holdfast_types::{ClusterId, Command, FeatureLevel, Incarnation, NodeId};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::openraft_types::{
    LogIdDto, SnapshotMetaDto, TransferDto, TransferReplyDto, VoteDto, VoteReplyDto, VoteRequestDto,
};
use crate::type_config::{Committed, TypeConfig};

type AppendResponse = openraft::raft::AppendEntriesResponse<TypeConfig>;

/// A request to a peer, with the type of its reply.
pub(crate) trait PeerCall: Into<RequestBody> {
    type Reply: Serialize + DeserializeOwned;
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Request {
    pub(crate) id: u64,
    pub(crate) remaining_ms: u32,
    pub(crate) body: RequestBody,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Reply<T> {
    /// The number of the request.
    pub(crate) id: u64,
    /// The result, or the reason of the peer's rejection. A rejected request has no effect.
    pub(crate) result: Result<T, String>,
}

macro_rules! peer_calls {
    ($($call:ident => $reply:ty,)*) => {
        /// Any request. Append-only: the position in the table is part of the format.
        #[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
        pub(crate) enum RequestBody {
            $($call($call)),*
        }

        $(
            impl From<$call> for RequestBody {
                fn from(call: $call) -> Self {
                    Self::$call(call)
                }
            }

            impl PeerCall for $call {
                type Reply = $reply;
            }
        )*
    };
}

peer_calls! {
    Ping => (),
    Append => AppendReply,
    RequestVote => VoteReplyDto,
    RequestPreVote => VoteReplyDto,
    TransferLeader => TransferReplyDto,
    SnapshotBegin => (),
    SnapshotPiece => (),
    SnapshotEnd => VoteDto,
    Propose => Vec<Result<Vec<Committed>, ProposeRefusal>>,
    ReadIndex => u64,
    ReadStatus => StatusDto,
    ServiceRequest => Bytes,
    ReadBootstrapState => BootstrapState,
    AcceptMembers => (),
    CheckPeer => (),
    ConfirmLoss => LossReply,
}

/// Keeps an idle connection open, and proves that the peer is alive.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ping;

/// Appends entries. Without records it is a heartbeat.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Append {
    pub(crate) vote: VoteDto,
    pub(crate) previous: Option<LogIdDto>,
    pub(crate) commit: Option<LogIdDto>,
    /// Log records, each in its own envelope.
    pub(crate) records: Vec<Bytes>,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum AppendReply {
    Success,
    /// Everything through this position is appended.
    Partial(Option<LogIdDto>),
    Conflict,
    HigherVote(VoteDto),
}

impl From<AppendResponse> for AppendReply {
    fn from(response: AppendResponse) -> Self {
        match response {
            AppendResponse::Success => Self::Success,
            AppendResponse::PartialSuccess(through) => Self::Partial(through.map(Into::into)),
            AppendResponse::Conflict => Self::Conflict,
            AppendResponse::HigherVote(vote) => Self::HigherVote(vote.into()),
        }
    }
}

impl From<AppendReply> for AppendResponse {
    fn from(reply: AppendReply) -> Self {
        match reply {
            AppendReply::Success => Self::Success,
            AppendReply::Partial(through) => Self::PartialSuccess(through.map(Into::into)),
            AppendReply::Conflict => Self::Conflict,
            AppendReply::HigherVote(vote) => Self::HigherVote(vote.into()),
        }
    }
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RequestVote(pub(crate) VoteRequestDto);

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RequestPreVote(pub(crate) VoteRequestDto);

/// Asks a voter whether the process of this leader has ended, as far as the voter sees.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ConfirmLoss {
    pub(crate) leader: NodeId,
    pub(crate) term: u64,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LossReply {
    pub(crate) is_lost: bool,
    /// The voter's last log entry: the voter with the most entries starts the election.
    pub(crate) last: Option<LogIdDto>,
    /// The binary logarithm of the milliseconds since the start of its process. Among voters with the same entries, one that
    /// runs for long starts the election: a leader that has just restarted may have to wait for the clocks of a majority.
    pub(crate) uptime: u8,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TransferLeader(pub(crate) TransferDto);

/// Announces a snapshot, which follows on the same connection in [`SnapshotPiece`]s and a [`SnapshotEnd`].
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SnapshotBegin {
    pub(crate) vote: VoteDto,
    pub(crate) meta: SnapshotMetaDto,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SnapshotPiece(pub(crate) Bytes);

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SnapshotEnd;

/// Proposes independent runs of commands. The reply has one result for each run, in order.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Propose {
    pub(crate) runs: Vec<CommandRun>,
    /// The span `forward` of each run, in order; empty without a traced run. The log does not get them.
    pub(crate) traces: Vec<Option<TraceContext>>,
}

/// Commands that share one log entry, in order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CommandRun {
    pub(crate) commands: Vec<Command>,
    pub(crate) urgency: Urgency,
}

/// Whether a command may wait for the log entry of another command. The caller decides, because this crate does not
/// interpret commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Urgency {
    /// The command leaves with the next batch.
    Immediate,
    /// The command waits on the leader for another command's entry, up to 4 ms.
    MayWait,
}

/// The reason with which a node rejects entries and snapshots while its disk is below its reserve. The leader compares it.
pub(crate) const DISK_LOW: &str = "the peer's disk is below its reserve";

/// The reason for a forwarded run without an application. Append-only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ProposeRefusal {
    /// Not appended: the peer does not lead.
    NotLeader,
    /// Not appended: the peer's queue is full.
    Overloaded,
    /// Not appended: the peer's disk is below its reserve. Programs before `DisksFull` send it.
    DiskFull,
    /// Not appended: a command is too large.
    TooLarge,
    /// The run may or may not take effect.
    Unknown,
    /// Not appended: the disks of these members are below their reserves, so no majority can append.
    DisksFull(BTreeSet<NodeId>),
}

/// Requests the position that a read must see, after a quorum has confirmed the leadership.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ReadIndex;

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ReadStatus;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StatusDto {
    /// Free bytes on the disk of the data directory.
    pub(crate) disk_free_bytes: u64,
    /// Whether the free bytes are below the reserve.
    pub(crate) disk_low: bool,
    /// The last applied position.
    pub(crate) applied: Option<LogIdDto>,
}

/// A request to the peer's service. This crate does not interpret the bytes of the request and the reply.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ServiceRequest(pub(crate) Bytes);

/// Requests that the peer connects to another node.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CheckPeer(pub(crate) NodeId);

/// Requests a member's state for the bootstrap of the cluster.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ReadBootstrapState;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BootstrapState {
    /// The data directory of the replying node.
    pub(crate) incarnation: Incarnation,
    /// The node has never had a log and has never voted.
    pub(crate) blank: bool,
    /// The node has registered the caller with the caller's current data directory.
    pub(crate) has_registered_caller: bool,
    /// The highest feature level that its program knows.
    pub(crate) level_max: FeatureLevel,
    pub(crate) initial_members: Option<InitialMembers>,
}

/// Requests that a blank member stores the initial members of the cluster.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AcceptMembers(pub(crate) InitialMembers);

/// The data directories that agreed to form one cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct InitialMembers {
    pub(crate) cluster_id: ClusterId,
    /// The feature level of the new cluster: the highest that all members know.
    pub(crate) level: FeatureLevel,
    /// The member that bootstraps the cluster. Only the initiator may change the members, and only before a log
    /// exists.
    pub(crate) initiator: Incarnation,
    /// All members, the initiator included.
    pub(crate) members: BTreeMap<NodeId, Incarnation>,
}
