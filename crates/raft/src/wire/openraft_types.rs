//! openraft's types as this crate writes them: log records, positions, memberships, votes, election requests and transfers of the
//! leadership.
//!
//! A log record has the same bytes in the log and between nodes, so a follower stores the received bytes. Bound: a
//! record is at most one batch plus 64 bytes.

use std::collections::BTreeSet;

use bytes::Bytes;
use holdfast_codec::{DecodeError, EncodeError, Kind};
use serde::{Deserialize, Serialize};

use crate::type_config::{
    Batch, LeaderId, LogId, Membership, Payload, RaftEntry, SnapshotMeta, StoredMembership,
    TypeConfig, Vote,
};

/// A position in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LogIdDto {
    /// The term of the appending leader.
    pub(crate) term: u64,
    /// The appending leader.
    pub(crate) leader: u64,
    /// The index, from 0.
    pub(crate) index: u64,
}

impl From<LogId> for LogIdDto {
    fn from(id: LogId) -> Self {
        Self { term: id.leader_id.term, leader: id.leader_id.node_id, index: id.index }
    }
}

impl From<LogIdDto> for LogId {
    fn from(dto: LogIdDto) -> Self {
        LogId::new(LeaderId { term: dto.term, node_id: dto.leader }, dto.index)
    }
}

#[derive(Serialize, Deserialize)]
struct RecordDto {
    id: LogIdDto,
    payload: PayloadDto,
}

#[derive(Serialize, Deserialize)]
enum PayloadDto {
    Blank,
    /// An envelope of its own, kind `Batch`.
    Commands(Bytes),
    Membership(MembershipDto),
}

/// The voters (two sets while they change) and all nodes of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MembershipDto {
    configs: Vec<BTreeSet<u64>>,
    nodes: BTreeSet<u64>,
}

impl From<&Membership> for MembershipDto {
    fn from(membership: &Membership) -> Self {
        Self {
            configs: membership.get_joint_config().clone(),
            nodes: membership.nodes().map(|(id, _)| *id).collect(),
        }
    }
}

impl MembershipDto {
    fn into_membership(self) -> Result<Membership, DecodeError> {
        if self.configs.is_empty() && self.nodes.is_empty() {
            return Ok(Membership::default());
        }
        Membership::new(self.configs, self.nodes).map_err(|error| DecodeError::Payload {
            kind: Kind::Record,
            reason: format!("not a membership: {error}"),
        })
    }
}

pub(crate) fn encode_record(entry: &RaftEntry) -> Result<Bytes, EncodeError> {
    let payload = match &entry.payload {
        Payload::Blank => PayloadDto::Blank,
        Payload::Normal(batch) => PayloadDto::Commands(batch.bytes().clone()),
        Payload::Membership(membership) => PayloadDto::Membership(membership.into()),
    };
    let record = RecordDto { id: entry.log_id.into(), payload };
    Ok(holdfast_codec::encode(Kind::Record, &record)?.into())
}

pub(crate) fn decode_record(bytes: &[u8]) -> Result<RaftEntry, DecodeError> {
    let record: RecordDto = holdfast_codec::decode(Kind::Record, bytes)?;
    let payload = match record.payload {
        PayloadDto::Blank => Payload::Blank,
        PayloadDto::Commands(bytes) => Payload::Normal(Batch::decode(bytes)?),
        PayloadDto::Membership(dto) => Payload::Membership(dto.into_membership()?),
    };
    Ok(RaftEntry { log_id: record.id.into(), payload })
}

/// The position and the membership of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SnapshotMetaDto {
    last: Option<LogIdDto>,
    membership_at: Option<LogIdDto>,
    membership: MembershipDto,
}

impl From<&SnapshotMeta> for SnapshotMetaDto {
    fn from(meta: &SnapshotMeta) -> Self {
        Self {
            last: meta.last_log_id.map(Into::into),
            membership_at: meta.last_membership.log_id().map(Into::into),
            membership: meta.last_membership.membership().into(),
        }
    }
}

impl SnapshotMetaDto {
    pub(crate) fn into_meta(self) -> Result<SnapshotMeta, DecodeError> {
        let membership = self.membership.into_membership()?;
        Ok(SnapshotMeta {
            last_log_id: self.last.map(Into::into),
            last_membership: StoredMembership::new(self.membership_at.map(Into::into), membership),
        })
    }
}

type VoteRequest = openraft::raft::VoteRequest<TypeConfig>;
type VoteResponse = openraft::raft::VoteResponse<TypeConfig>;
type TransferRequest = openraft::raft::TransferLeaderRequest<TypeConfig>;
type TransferResponse = openraft::raft::TransferLeaderResponse<TypeConfig>;
type TransferError = openraft::raft::TransferLeaderError<TypeConfig>;

/// A node's vote, and whether a quorum granted it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct VoteDto {
    pub(crate) term: u64,
    pub(crate) node: u64,
    pub(crate) committed: bool,
}

impl From<Vote> for VoteDto {
    fn from(vote: Vote) -> Self {
        Self { term: vote.leader_id.term, node: vote.leader_id.node_id, committed: vote.committed }
    }
}

impl From<VoteDto> for Vote {
    fn from(dto: VoteDto) -> Self {
        Vote { leader_id: LeaderId { term: dto.term, node_id: dto.node }, committed: dto.committed }
    }
}

/// A request for a vote or a pre-vote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct VoteRequestDto {
    vote: VoteDto,
    last: Option<LogIdDto>,
    transfer: bool,
}

impl From<VoteRequest> for VoteRequestDto {
    fn from(request: VoteRequest) -> Self {
        Self {
            vote: request.vote.into(),
            last: request.last_log_id.map(Into::into),
            transfer: request.leadership_transfer,
        }
    }
}

impl From<VoteRequestDto> for VoteRequest {
    fn from(dto: VoteRequestDto) -> Self {
        let mut request = VoteRequest::new(dto.vote.into(), dto.last.map(Into::into));
        request.leadership_transfer = dto.transfer;
        request
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct VoteReplyDto {
    vote: VoteDto,
    granted: bool,
    last: Option<LogIdDto>,
}

impl From<VoteResponse> for VoteReplyDto {
    fn from(response: VoteResponse) -> Self {
        Self {
            vote: response.vote.into(),
            granted: response.vote_granted,
            last: response.last_log_id.map(Into::into),
        }
    }
}

impl From<VoteReplyDto> for VoteResponse {
    fn from(dto: VoteReplyDto) -> Self {
        VoteResponse::new(Vote::from(dto.vote), dto.last.map(Into::into), dto.granted)
    }
}

/// A leader's request to a voter to take over the leadership.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TransferDto {
    from: VoteDto,
    to: u64,
    last: Option<LogIdDto>,
}

impl From<TransferRequest> for TransferDto {
    fn from(request: TransferRequest) -> Self {
        Self {
            from: (*request.from_leader()).into(),
            to: *request.to_node_id(),
            last: request.last_log_id().copied().map(Into::into),
        }
    }
}

impl From<TransferDto> for TransferRequest {
    fn from(dto: TransferDto) -> Self {
        TransferRequest::new(dto.from.into(), dto.to, dto.last.map(Into::into))
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum TransferReplyDto {
    Accepted,
    VoteChanged { expected: VoteDto, actual: VoteDto },
    NotFlushed { expected: Option<LogIdDto>, actual: Option<LogIdDto> },
}

impl From<TransferResponse> for TransferReplyDto {
    fn from(response: TransferResponse) -> Self {
        match response {
            Ok(()) => Self::Accepted,
            Err(TransferError::VoteChanged { expected, actual }) => {
                Self::VoteChanged { expected: expected.into(), actual: actual.into() }
            }
            Err(TransferError::LogNotFlushed { expected, actual }) => Self::NotFlushed {
                expected: expected.map(Into::into),
                actual: actual.map(Into::into),
            },
        }
    }
}

impl From<TransferReplyDto> for TransferResponse {
    fn from(dto: TransferReplyDto) -> Self {
        match dto {
            TransferReplyDto::Accepted => Ok(()),
            TransferReplyDto::VoteChanged { expected, actual } => {
                Err(TransferError::VoteChanged { expected: expected.into(), actual: actual.into() })
            }
            TransferReplyDto::NotFlushed { expected, actual } => {
                Err(TransferError::LogNotFlushed {
                    expected: expected.map(Into::into),
                    actual: actual.map(Into::into),
                })
            }
        }
    }
}
