//! The calls between nodes: each request with the type of its reply.
//!
//! Every request has a number that its reply repeats, so that one connection carries many at once. It also has the
//! milliseconds that its caller still waits, so that no peer works for a caller that is gone.
//!
//! A new call is a struct, and one row at the end of the table in this file.

use std::collections::BTreeMap;

use bytes::Bytes;
use holdfast_types::{Command, Incarnation, NodeId, Outcome, Revision};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::entry::{LogIdDto, SnapshotMetaDto};
use super::vote::{TransferDto, TransferReplyDto, VoteDto, VoteReplyDto, VoteRequestDto};
use crate::type_config::TypeConfig;

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
    /// Or why the peer refused the request; it did nothing then.
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
}

/// Keeps an idle connection open, and shows that the peer is alive.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ping;

/// Appends entries. Without records it is a heartbeat.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Append {
    pub(crate) vote: VoteDto,
    pub(crate) previous: Option<LogIdDto>,
    pub(crate) commit: Option<LogIdDto>,
    /// Log records, each in an envelope of its own.
    pub(crate) records: Vec<Bytes>,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum AppendReply {
    Success,
    /// Everything through this position.
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

/// Proposes runs of commands, independent of each other. The reply has one result for each run, in order.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Propose(pub(crate) Vec<CommandRun>);

/// Commands that go into one log entry together, in order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CommandRun {
    pub(crate) commands: Vec<Command>,
    pub(crate) urgency: Urgency,
}

/// Whether a command may wait for the log entry of another command. The caller decides: this crate does not know what
/// commands do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Urgency {
    /// The command leaves with the next batch.
    Immediate,
    /// The command waits on the leader for another command's entry, up to 1 ms.
    MayWait,
}

/// A command that was applied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Committed {
    /// What the state machine returned.
    pub outcome: Outcome,
    /// The command's own revision.
    pub revision: Revision,
}

/// Why a forwarded run was not applied. Append-only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ProposeRefusal {
    /// Not appended: the peer does not lead.
    NotLeader,
    /// Not appended: the peer's queue is full.
    Overloaded,
    /// Not appended: the peer's disk is below its reserve.
    DiskFull,
    /// Not appended: a command is too large.
    TooLarge,
    /// The run may or may not take effect.
    Unknown,
}

/// Asks the leader for the position that a read must see, after a quorum confirmed the leadership.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ReadIndex;

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ReadStatus;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StatusDto {
    /// Free bytes on the disk of the data directory.
    pub(crate) disk_free_bytes: u64,
    /// Whether that is below the reserve.
    pub(crate) disk_low: bool,
    /// The last applied position.
    pub(crate) applied: Option<LogIdDto>,
}

/// A request to the peer's service. This crate does not interpret the bytes of the request and of its reply.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ServiceRequest(pub(crate) Bytes);

/// Asks a member for its part in the bootstrap of the cluster.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ReadBootstrapState;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BootstrapState {
    /// The data directory of the node that answers.
    pub(crate) incarnation: Incarnation,
    /// The node has never had a log and has never voted.
    pub(crate) blank: bool,
    /// The node knows the caller by the caller's present data directory.
    pub(crate) knows_caller: bool,
    pub(crate) initial_members: Option<InitialMembers>,
}

/// Asks a blank member to store the initial members of the cluster.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AcceptMembers(pub(crate) InitialMembers);

/// The data directories that agreed to become one cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct InitialMembers {
    /// The member that bootstraps the cluster. It alone may change the members, and only before a log exists.
    pub(crate) initiator: Incarnation,
    /// All of them, the initiator included.
    pub(crate) members: BTreeMap<NodeId, Incarnation>,
}
