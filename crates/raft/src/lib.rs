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
//! - `barrier`: linearizable reads. `leadership`: who leads, and since when this node may act as the leader.
//! - `transport`, `peers`, `network`, `dispatch`: TCP between nodes, calls, and their replies. `wire`: their bytes.
//! - `log_store`, `cache`, `snapshot`, `state_machine`: openraft's storage traits over `holdfast_storage` and
//!   `holdfast_machine`.
//! - `bootstrap`, `initial_members`, `join`, `emptied`, `identity`: how a cluster starts, how a node joins it, also with an
//!   emptied disk, and which data directory belongs to which node id. `members`, `membership`: the members, and their changes.
//! - `backup`: the state as a stream of bytes, and its reader. `new_cluster`, `stopped_node`: the directory of a restored
//!   cluster, written from a backup or from the directory of one survivor.
//! - `fast_election`, `handover`: a short time without a leader after a crash and at a shutdown.
//! - `stamps`: the time in the log. `disk`, `failure`, `supervisor`: what stops a node or its writes.
//!
//! The crate does not know clients, sessions and HTTP, nor what commands do. It notifies an [`Observer`] of everything
//! applied.
//!
//! Bounds: `proposer`, `barrier` and `transport` name the bounds of their queues, `cache` the bound of the log's tail.

mod acknowledged;
mod background;
mod backup;
mod barrier;
mod bootstrap;
mod cache;
mod committed;
mod config;
mod disk;
mod dispatch;
mod emptied;
mod error;
mod failure;
mod fast_election;
mod handover;
mod identity;
mod initial_members;
mod join;
mod leader_contact;
mod leadership;
mod log_store;
mod members;
mod membership;
mod metrics;
mod network;
mod new_cluster;
mod node;
mod owner_proof;
mod peers;
mod proposer;
mod scrub;
mod snapshot;
mod stamps;
mod state_machine;
mod status;
mod stopped_node;
mod supervisor;
mod transport;
mod type_config;
mod wire;

pub use backup::{Backup, BackupEnd, BackupError, BackupHead, BackupPart};
pub use bootstrap::permit_new_cluster;
pub use committed::Committed;
pub use config::{Clock, FreeBytes, PeerListen, RaftConfig, Timing};
pub use emptied::readmitted_as;
pub use error::{CallError, ProposeError, ReadError, StartError};
pub use failure::StopReason;
pub use holdfast_machine::RestoreError;
pub use holdfast_storage::{LATENCY_BUCKETS, RecentSyncs, SLOW_SYNC};
pub use identity::is_new_data_dir;
pub use join::{JoinRequest, write_join_request};
pub use leadership::Leadership;
pub use metrics::RaftMetrics;
pub use new_cluster::{NewCluster, RestoreFailure, RestoredCluster};
pub use node::RaftNode;
pub use owner_proof::take_owner_proof;
pub use stamps::agreement::{ClockComparison, ClockSample, ClockVerdict};
pub use state_machine::Observer;
pub use status::{PeerStatus, RaftStatus, Role};
pub use stopped_node::{LogPosition, Recovery, StoppedNode, directory_before_recovery};
pub use type_config::LeaderEpoch;
pub use wire::Urgency;

#[cfg(test)]
mod tests;
