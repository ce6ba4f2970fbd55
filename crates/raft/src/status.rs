//! The status of a node, for metrics, health checks and the cluster view.

use std::collections::BTreeMap;
use std::time::Duration;

use holdfast_types::{NodeId, Revision};
use serde::{Deserialize, Serialize};

use crate::counters::RaftCounts;

/// The Raft role of a node. Sent between services: append-only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    Leader,
    /// Follows a leader, or waits for one.
    Follower,
    Candidate,
    /// Receives the log and has no vote.
    Learner,
    /// Shut down, or failed.
    Stopped,
}

/// A peer as this node sees it. The leader alone knows `matched` and `contact`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerStatus {
    /// The last log position that the peer acknowledged.
    pub matched: Option<u64>,
    /// The time since the peer last acknowledged anything.
    pub contact: Option<Duration>,
    /// Whether a connection to the peer is open.
    pub connected: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RaftStatus {
    pub node: NodeId,
    pub role: Role,
    /// The highest term that the node has seen.
    pub term: u64,
    pub leader: Option<NodeId>,
    /// Revision of the last applied command.
    pub applied_revision: Revision,
    /// The last applied position of the log.
    pub applied_index: Option<u64>,
    /// The last position known to be committed.
    pub committed_index: Option<u64>,
    /// The last position of the log.
    pub last_log_index: Option<u64>,
    /// The last position the newest snapshot covers.
    pub snapshot_index: Option<u64>,
    /// The last position purged from the log.
    pub purged_index: Option<u64>,
    /// The time since the node last heard from the leader; on the leader, from a quorum.
    pub leader_contact: Option<Duration>,
    /// Free bytes on the disk of the data directory at the last check.
    pub disk_free_bytes: u64,
    /// Whether `disk_free_bytes` is below the reserve.
    pub disk_low: bool,
    /// What a node without a log waits for, and what an operator can do about it.
    pub waits_for: Option<String>,
    pub voters: Vec<NodeId>,
    /// The other members.
    pub peers: BTreeMap<NodeId, PeerStatus>,
    pub counts: RaftCounts,
}
