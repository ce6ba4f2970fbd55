//! The status of a node, for metrics, health checks and the cluster view.

use std::collections::BTreeMap;
use std::time::Duration;

use holdfast_storage::RecentSyncs;
use holdfast_types::{NodeId, Revision};
use serde::{Deserialize, Serialize};

/// The Raft role of a node. Services exchange it: append-only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    Leader,
    /// The node follows a leader, or waits for one.
    Follower,
    Candidate,
    /// The node receives the log and has no vote.
    Learner,
    /// The node is shut down, or has failed.
    Stopped,
}

/// A peer as seen by this node. Only the leader has `matched` and `contact`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerStatus {
    /// The last log position that the peer acknowledged.
    pub matched: Option<u64>,
    /// The time since the peer's last acknowledgement.
    pub contact: Option<Duration>,
    /// How long the peer has been behind without progress.
    pub stalled: Option<Duration>,
    /// Whether a connection to the peer is open.
    pub connected: bool,
    /// The address that does not answer and the reason, and how long it has not answered.
    pub unreachable: Option<(String, Duration)>,
    /// Why the peer refused the last handshake of this node.
    pub refusal: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RaftStatus {
    pub node: NodeId,
    pub role: Role,
    /// The highest term that the node has seen.
    pub term: u64,
    /// The last known leader, which may be silent.
    pub leader: Option<NodeId>,
    /// The revision of the last applied command.
    pub applied_revision: Revision,
    /// The last applied position of the log.
    pub applied_index: Option<u64>,
    /// The last position known to be committed.
    pub committed_index: Option<u64>,
    /// The last position of the log.
    pub last_log_index: Option<u64>,
    /// The last log position in the newest snapshot.
    pub snapshot_index: Option<u64>,
    /// The last position purged from the log.
    pub purged_index: Option<u64>,
    /// The time since the last message from the leader; on the leader, from a quorum.
    pub leader_contact: Option<Duration>,
    /// Whether this node is in contact with the leader; on the leader, with a quorum.
    pub has_quorum: bool,
    /// How long this node has known of a committed position that it has not applied.
    pub behind_for: Duration,
    /// The free bytes on the disk of the data directory at the last check.
    pub disk_free_bytes: u64,
    /// Whether `disk_free_bytes` is below the reserve.
    pub disk_low: bool,
    /// The bytes of the log on the disk.
    pub log_bytes: u64,
    /// The syncs of the log in the last minute.
    pub recent_syncs: RecentSyncs,
    /// The condition that a node without a log waits for, and the options of an operator.
    pub waiting_for: Option<String>,
    pub voters: Vec<NodeId>,
    /// What the unfinished change of a member waits for. Only the leader has it.
    pub change_waits_for: Option<String>,
    /// The other members.
    pub peers: BTreeMap<NodeId, PeerStatus>,
}
