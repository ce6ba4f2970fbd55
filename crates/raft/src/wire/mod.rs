//! The serialized form of all data that this crate writes to disk and sends to peers.
//!
//! The crate serializes no openraft type, because the layout of openraft's types may change with any release.
//! `docs/contributing/formats/peer-protocol.md` describes the formats, and golden bytes in `tests.rs` verify them. Enums are
//! append-only.

mod calls;
mod hello;
mod openraft_types;

pub use calls::Urgency;
pub(crate) use calls::{
    AcceptMembers, Append, AppendReply, BootstrapState, CheckPeer, CommandRun, ConfirmLoss,
    DISK_LOW, InitialMembers, LossReply, PeerCall, Ping, Propose, ProposeRefusal,
    ReadBootstrapState, ReadIndex, ReadStatus, Reply, Request, RequestBody, RequestPreVote,
    RequestVote, ServiceRequest, SnapshotBegin, SnapshotEnd, SnapshotPiece, StatusDto,
    TransferLeader,
};
#[cfg(test)]
pub(crate) use hello::ProtocolRange;
pub(crate) use hello::{
    Hello, HelloAccepted, HelloReply, InvitationRefusal, JOIN_SECRET, LOG_END, MUST_HAVE,
    PROTOCOLS, Purpose, READMISSION, Refusal,
};
pub(crate) use openraft_types::{LogIdDto, SnapshotMetaDto, VoteDto, decode_record, encode_record};

#[cfg(test)]
mod tests;
