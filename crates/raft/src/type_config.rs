//! The type parameters of openraft, and short names for its types.
//!
//! A log entry carries a [`Batch`] and its reply has one [`Committed`] for each command. A batch is encoded once, when it is proposed or
//! received, and carries its bytes: the log, every follower and the snapshot's byte count use them unchanged.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use holdfast_codec::{DecodeError, EncodeError, Kind};
use holdfast_trace::Spans;
use holdfast_types::{Entry, NodeId, Outcome, Revision};
use openraft::alias::{LogIdOf, SnapshotMetaOf, StoredMembershipOf, VoteOf};
use openraft::{EmptyNode, RaftTypeConfig};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

openraft::declare_raft_types!(
    pub(crate) TypeConfig:
        D = Batch,
        R = Vec<Committed>,
        NodeId = u64,
        Node = EmptyNode,
        AsyncRuntime = openraft_rt_tokio::TokioRuntime,
);

pub(crate) type RaftEntry = <TypeConfig as RaftTypeConfig>::Entry;
pub(crate) type LeaderId = <TypeConfig as RaftTypeConfig>::LeaderId;
pub(crate) type Payload = <TypeConfig as RaftTypeConfig>::Payload;
pub(crate) type Membership = openraft::Membership<u64, EmptyNode>;
pub(crate) type LogId = LogIdOf<TypeConfig>;
pub(crate) type Vote = VoteOf<TypeConfig>;
pub(crate) type StoredMembership = StoredMembershipOf<TypeConfig>;
pub(crate) type SnapshotMeta = SnapshotMetaOf<TypeConfig>;

/// An applied command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Committed {
    /// The result of the state machine.
    pub outcome: Outcome,
    /// The revision of the command.
    pub revision: Revision,
}

/// One leadership. A term alone does not identify it: two nodes may lead in one term, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaderEpoch {
    pub term: u64,
    pub node: NodeId,
}

impl LeaderEpoch {
    pub(crate) fn new(id: LeaderId) -> Self {
        Self { term: id.term, node: NodeId(id.node_id) }
    }

    pub(crate) fn leader_id(self) -> LeaderId {
        LeaderId { term: self.term, node_id: self.node.0 }
    }
}

impl fmt::Display for LeaderEpoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "term {} of node {}", self.term, self.node)
    }
}

/// The commands of one log entry, with the bytes in which they are stored and sent. Clones share both.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Batch {
    bytes: Bytes,
    #[serde(skip)]
    pending: Arc<Mutex<PendingBatch>>,
}

/// What a batch needs until it is applied. The log's cache keeps many applied entries.
#[derive(Default)]
struct PendingBatch {
    /// The decoded entry, which needs several times the memory of its bytes.
    entry: Option<Entry>,
    /// The spans `commit` of its traced runs, on the node that proposed it.
    spans: Spans,
}

impl Batch {
    pub(crate) fn encode(entry: Entry) -> Result<Self, EncodeError> {
        let bytes = holdfast_codec::encode(Kind::Batch, &entry)?.into();
        Ok(Self::new(bytes, entry))
    }

    pub(crate) fn decode(bytes: Bytes) -> Result<Self, DecodeError> {
        let entry = holdfast_codec::decode(Kind::Batch, &bytes)?;
        Ok(Self::new(bytes, entry))
    }

    fn new(bytes: Bytes, entry: Entry) -> Self {
        let pending = PendingBatch { entry: Some(entry), spans: Spans::default() };
        Self { bytes, pending: Arc::new(Mutex::new(pending)) }
    }

    /// The entry for `apply`. Decodes the bytes if the entry was taken before.
    pub(crate) fn take(&self) -> Result<Entry, DecodeError> {
        let entry = self.pending.lock().entry.take();
        entry.map_or_else(|| holdfast_codec::decode(Kind::Batch, &self.bytes), Ok)
    }

    /// Sets the spans `commit` of the traced runs.
    pub(crate) fn trace(&self, spans: Spans) {
        self.pending.lock().spans = spans;
    }

    pub(crate) fn spans(&self) -> Spans {
        self.pending.lock().spans.clone()
    }

    pub(crate) fn take_spans(&self) -> Spans {
        std::mem::take(&mut self.pending.lock().spans)
    }

    pub(crate) fn bytes(&self) -> &Bytes {
        &self.bytes
    }
}

impl PartialEq for Batch {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl Eq for Batch {}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a batch of {} bytes", self.bytes.len())
    }
}

#[cfg(test)]
mod tests {
    use holdfast_types::{Command, Limits, Stamp};

    use super::*;

    #[test]
    fn a_batch_that_was_taken_is_decoded_again() {
        let entry =
            Entry { stamped_at: Stamp(1), commands: vec![Command::SetLimits(Limits::default())] };
        let batch = Batch::encode(entry.clone()).unwrap();
        let clone = batch.clone();
        assert_eq!(clone.take().unwrap(), entry);
        assert!(batch.pending.lock().entry.is_none(), "a clone keeps the taken entry");
        assert_eq!(batch.take().unwrap(), entry);
    }
}
