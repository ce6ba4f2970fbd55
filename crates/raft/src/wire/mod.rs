//! What this crate writes to disk and sends to peers, as types of our own.
//!
//! Owns the conversions between openraft's values and bytes (`docs/formats/peer-protocol.md`). No openraft type has a
//! serialized form here: their layout may change with any release, ours only with a new version. Enums are
//! append-only.

mod entry;
mod hello;
mod rpc;
mod vote;

pub(crate) use entry::{LogIdDto, SnapshotMetaDto, decode_record, encode_record};
pub(crate) use hello::{Hello, HelloReply, PROTOCOL, Purpose, Refusal};
pub(crate) use rpc::{
    AppendDto, AppendReplyDto, Outgoing, ProposeRefusal, Reply, ReplyBody, Request, RequestBody,
    StatusDto, SurveyDto,
};
pub(crate) use vote::{TransferDto, TransferReplyDto, VoteDto, VoteReplyDto, VoteRequestDto};

#[cfg(test)]
mod tests;
