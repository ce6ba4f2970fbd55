//! What a node says about itself, for metrics, health checks and the view of the cluster.

use std::collections::BTreeMap;
use std::time::Duration;

use holdfast_types::{NodeId, Revision};

use crate::counters::RaftCounts;

/// What a node is in the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It leads.
    Leader,
    /// It follows, or waits for a leader.
    Follower,
    /// It stands for election.
    Candidate,
    /// It has no vote.
    Learner,
    /// It has stopped, or failed.
    Stopped,
}

/// How far the leader knows a peer to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerStatus {
    /// The last position it acknowledged.
    pub matched: Option<u64>,
    /// How long ago it last acknowledged anything, as far as the leader knows.
    pub contact: Option<Duration>,
    /// Whether a connection to it is open.
    pub connected: bool,
}

/// A node at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RaftStatus {
    /// Which node.
    pub node: NodeId,
    /// What it is.
    pub role: Role,
    /// The newest term it has seen.
    pub term: u64,
    /// The leader, if one is known.
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
    /// How long ago the leader was last heard; on the leader, how long ago a quorum was.
    pub leader_contact: Option<Duration>,
    /// Bytes free on the disk of the data directory at the last look.
    pub disk_free_bytes: u64,
    /// Whether that is below the reserve.
    pub disk_low: bool,
    /// What a node without a log waits for, and what an operator can do about it.
    pub waits_for: Option<String>,
    /// Who has a vote.
    pub voters: Vec<NodeId>,
    /// The other members.
    pub peers: BTreeMap<NodeId, PeerStatus>,
    /// What the metrics count.
    pub counts: RaftCounts,
}
