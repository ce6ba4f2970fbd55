//! Consensus: the only crate that names openraft.
//!
//! Owns the log's meaning as Raft (its disk is `storage`'s), the copy of the state machine on this node, the
//! connections between nodes, and the way of a command from whoever proposes it to its outcome. Refuses to know
//! clients, leases and HTTP: it hands applied events to an [`Observer`] and asks nobody above.
//!
//! ```text
//! propose ─ proposer (packs) ─┬─ leader: openraft ─ log_store ─ storage
//!                             └─ follower: peers ─ transport ─ the leader's dispatch ─ its proposer
//! committed ─ state_machine ─ Machine::apply ─ Observer::applied ─ the proposer's answers
//! read_barrier ─ barrier (one round for all who wait) ─ leader: a quorum's heartbeat │ follower: one call
//! ```
//!
//! Why no queue can grow: each module names the bounds of its own; the proposer's, the barrier's and the
//! connections' are in `proposer`, `barrier` and `transport`, and the log's cache in `cache`.

mod barrier;
mod cache;
mod campaign;
mod config;
mod contact;
mod counters;
mod disk;
mod dispatch;
mod error;
mod failure;
mod founding;
mod handover;
mod identity;
mod leadership;
mod log_store;
mod network;
mod node;
mod peers;
mod proposer;
mod registrar;
mod snapshot;
mod stamps;
mod state_machine;
mod status;
mod supervisor;
mod transport;
mod type_config;
mod wire;

pub use config::{Clock, FreeBytes, Member, PeerListen, RaftConfig, Timing};
pub use counters::RaftCounts;
pub use error::{CallError, ProposeError, ReadError, StartError};
pub use leadership::Leadership;
pub use node::RaftNode;
pub use proposer::Committed;
pub use state_machine::Observer;
pub use status::{PeerStatus, RaftStatus, Role};
pub use type_config::LeaderEpoch;

#[cfg(test)]
mod tests;
