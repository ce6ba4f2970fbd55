//! Log records, positions and memberships.
//!
//! A log record has the same bytes in the log and between nodes, so a follower stores the received bytes. Bound: a
//! record is at most one batch plus 64 bytes.

use std::collections::BTreeSet;

use bytes::Bytes;
use holdfast_codec::{DecodeError, EncodeError, Kind};
use serde::{Deserialize, Serialize};

use crate::type_config::{
    Batch, LeaderId, LogId, Membership, Payload, RaftEntry, SnapshotMeta, StoredMembership,
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
