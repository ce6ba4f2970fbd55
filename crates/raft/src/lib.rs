//! Consensus: the replicated log, the connections between nodes, and the proposal of commands. Only this crate uses
//! openraft.
//!
//! ```text
//! write  RaftNode::propose ─► proposer ─┬─ leader:   openraft ─► log_store ─► storage
//!                                       └─ follower: peers ─► transport ═► the leader's dispatch ─► its proposer
//! apply  committed entry ─► state_machine ─► Machine::apply ─► Observer ─► result to the proposer's caller
//! read   RaftNode::read_barrier ─► barrier ─┬─ leader:   heartbeats to a quorum
//!                                           └─ follower: one call to the leader
//! ```
//!
//! The modules:
//!
//! - `node`: the public interface, and the order of start and shutdown. Start reading here.
//! - `proposer`: batches of commands, in this node's log or forwarded to the leader. Its first page explains retries.
//! - `barrier`: linearizable reads.
//! - `transport`, `peers`, `network`, `dispatch`: TCP between nodes, calls, and their replies. `wire`: their bytes.
//! - `store`, `state_machine`: openraft's storage traits over `holdfast_storage` and `holdfast_machine`, and what stops the
//!   writes of a node.
//! - `start`: how a cluster starts, how a node joins it, also with an emptied disk, and which data directory belongs to which
//!   node id; the directory of a restored cluster, written from a backup or from the directory of one survivor.
//! - `members`: the members, and their changes. `backup`: the state as a stream of bytes, and its reader.
//! - `leadership`: who leads, since when this node may act as the leader, and a short time without a leader after a crash
//!   and at a shutdown.
//! - `stamps`: the time in the log. `failure`, `supervisor`: what stops a node.
//!
//! The crate does not know clients, sessions and HTTP, nor what commands do. It notifies an [`Observer`] of everything
//! applied.
//!
//! Bounds: `proposer`, `barrier` and `transport` name the bounds of their queues, `cache` the bound of the log's tail.

mod backup;
mod barrier;
mod config;
mod dispatch;
mod error;
mod failure;
mod leadership;
mod members;
mod metrics;
mod network;
mod node;
mod peers;
mod proposer;
mod stamps;
mod start;
mod state_machine;
mod store;
mod supervisor;
mod transport;
mod type_config;
mod wire;

pub use backup::{Backup, BackupEnd, BackupError, BackupHead, BackupPart};
pub use config::{Clock, FreeBytes, PeerListen, RaftConfig, Timing};
pub use error::{CallError, ProposeError, ReadError, StartError};
pub use failure::StopReason;
pub use holdfast_machine::RestoreError;
pub use holdfast_storage::{LATENCY_BUCKETS, RecentSyncs, SLOW_SYNC, free_bytes};
pub use leadership::Leadership;
pub use metrics::RaftMetrics;
pub use node::{PeerStatus, RaftNode, RaftStatus, Role};
pub use stamps::agreement::{ClockComparison, ClockSample, ClockVerdict};
pub use start::bootstrap::permit_new_cluster;
pub use start::identity::{directory_before_recovery, is_new_data_dir, take_owner_proof};
pub use start::join::{JoinRequest, readmitted_as, write_join_request};
pub use start::new_cluster::{NewCluster, RestoreFailure, RestoredCluster};
pub use start::stopped_node::{LogPosition, Recovery, StoppedNode};
pub use state_machine::Observer;
pub use type_config::{Committed, LeaderEpoch};
pub use wire::Urgency;

#[cfg(test)]
mod tests;
