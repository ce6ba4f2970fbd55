//! Requests between nodes and their replies.
//!
//! Every request has a number that its reply repeats, so one connection carries many at once, and the milliseconds
//! its sender still waits, so that nobody works for a caller who has gone.

use bytes::Bytes;
use holdfast_types::{Command, Incarnation, Outcome, Revision};
use serde::{Deserialize, Serialize};

use crate::founding::roster::Roster;
use crate::type_config::TypeConfig;

use super::{
    LogIdDto, SnapshotMetaDto, TransferDto, TransferReplyDto, VoteDto, VoteReplyDto, VoteRequestDto,
};

type AppendResponse = openraft::raft::AppendEntriesResponse<TypeConfig>;

/// A request.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Request {
    pub(crate) id: u64,
    pub(crate) remaining_ms: u32,
    pub(crate) body: RequestBody,
}

/// A request as its sender has it: the same bytes, without giving the body away.
#[derive(Debug, Serialize)]
pub(crate) struct Outgoing<'a> {
    pub(crate) id: u64,
    pub(crate) remaining_ms: u32,
    pub(crate) body: &'a RequestBody,
}

/// What is asked.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum RequestBody {
    /// Nothing, but an answer.
    Ping,
    /// Append entries, or, without any, a heartbeat.
    Append(AppendDto),
    /// Vote.
    Vote(VoteRequestDto),
    /// Would you vote?
    PreVote(VoteRequestDto),
    /// Take over.
    Transfer(TransferDto),
    /// A snapshot follows.
    SnapshotBegin { vote: VoteDto, meta: SnapshotMetaDto },
    /// The next bytes of it.
    SnapshotPiece(Bytes),
    /// That was all: install it.
    SnapshotEnd,
    /// Propose these, each for itself. Never forwarded again.
    Propose(Vec<Command>),
    /// Which position must a read see? Answered by the leader alone, after a quorum confirmed it.
    ReadIndex,
    /// How are you?
    Status,
    /// For the service, uninterpreted.
    Service(Bytes),
    /// Do you have a log? Asked by a node that has none.
    Survey,
    /// Write down who founds the cluster with you.
    Found(Roster),
    /// Propose these runs, each for itself, and none torn apart. Never forwarded again.
    ProposeRuns(Vec<Vec<Command>>),
}

/// A reply.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Reply {
    pub(crate) id: u64,
    pub(crate) body: ReplyBody,
}

/// What is answered.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ReplyBody {
    /// To a ping.
    Pong,
    /// To an append.
    Append(AppendReplyDto),
    /// To a vote or a pre-vote.
    Vote(VoteReplyDto),
    /// To a transfer.
    Transfer(TransferReplyDto),
    /// To the beginning or a piece of a snapshot: send the next one.
    SnapshotNext,
    /// To the end of a snapshot.
    SnapshotInstalled(VoteDto),
    /// To a proposal: one to each command, in order.
    Propose(Vec<Result<(Outcome, Revision), ProposeRefusal>>),
    /// To a read index; none if this node is not the leader, or no quorum confirmed it.
    ReadIndex(Option<u64>),
    /// To a status.
    Status(StatusDto),
    /// From the service, uninterpreted.
    Service(Bytes),
    /// The disk is below its reserve: nothing was appended.
    DiskFull,
    /// Nothing was done, because.
    Refused(String),
    /// To a survey.
    Survey(SurveyDto),
    /// To a founding: written down.
    Founded,
    /// To proposed runs: one to each, in order.
    ProposeRuns(Vec<Result<Vec<(Outcome, Revision)>, ProposeRefusal>>),
}

/// See [`RequestBody::Append`].
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AppendDto {
    pub(crate) vote: VoteDto,
    pub(crate) previous: Option<LogIdDto>,
    pub(crate) commit: Option<LogIdDto>,
    /// Log records, each an envelope of its own.
    pub(crate) records: Vec<Bytes>,
}

/// See [`RequestBody::Append`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum AppendReplyDto {
    /// All of it.
    Success,
    /// Up to here.
    Partial(Option<LogIdDto>),
    /// The previous entry differs.
    Conflict,
    /// Somebody else leads.
    HigherVote(VoteDto),
}

impl From<AppendResponse> for AppendReplyDto {
    fn from(response: AppendResponse) -> Self {
        match response {
            AppendResponse::Success => Self::Success,
            AppendResponse::PartialSuccess(through) => Self::Partial(through.map(Into::into)),
            AppendResponse::Conflict => Self::Conflict,
            AppendResponse::HigherVote(vote) => Self::HigherVote(vote.into()),
        }
    }
}

impl From<AppendReplyDto> for AppendResponse {
    fn from(dto: AppendReplyDto) -> Self {
        match dto {
            AppendReplyDto::Success => Self::Success,
            AppendReplyDto::Partial(through) => Self::PartialSuccess(through.map(Into::into)),
            AppendReplyDto::Conflict => Self::Conflict,
            AppendReplyDto::HigherVote(vote) => Self::HigherVote(vote.into()),
        }
    }
}

/// Why a forwarded command was not applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ProposeRefusal {
    /// Not appended: this node does not lead.
    NotLeader,
    /// Not appended: the queue is full.
    Overloaded,
    /// Not appended: the disk is full.
    DiskFull,
    /// Not appended: the command is too large.
    TooLarge,
    /// It may or may not take effect.
    Unknown,
}

/// See [`RequestBody::Survey`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SurveyDto {
    /// The data directory of whoever answers.
    pub(crate) incarnation: Incarnation,
    /// Whether it never had a log, nor voted.
    pub(crate) blank: bool,
    /// Whether it knows the one who asks, by this very data directory.
    pub(crate) knows_you: bool,
    /// Whom it founded a cluster with, or agreed to.
    pub(crate) roster: Option<Roster>,
}

/// See [`RequestBody::Status`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StatusDto {
    /// Bytes free on the disk of its data directory.
    pub(crate) disk_free_bytes: u64,
    /// Whether that is below the reserve.
    pub(crate) disk_low: bool,
    /// The last applied position.
    pub(crate) applied: Option<LogIdDto>,
}
