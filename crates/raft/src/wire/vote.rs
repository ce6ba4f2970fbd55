//! Votes, election requests and leadership transfers.

use serde::{Deserialize, Serialize};

use super::entry::LogIdDto;
use crate::type_config::{LeaderId, TypeConfig, Vote};

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
