//! The laboratory of the whole-system tests: real `holdfast serve` processes, real sockets, real disks, and judges.
//!
//! A [`Cluster`] starts, kills, pauses and restarts processes; [`Links`] cuts and delays the network between nodes. [`Http`]
//! and [`zk`] are the test clients, [`History`] records what clients did and saw, and [`judge`] checks the record. It links
//! two crates of holdfast: `zkwire` for the frames of `ZooKeeper`, and `client` for requests over HTTP. Dropping a value ends everything that it started, also in a panic.
//!
//! Bounds: a log tail has 60 lines a node; a history is as long as the test's load, which has a number of rounds or a
//! deadline; a proxied connection buffers 16 KiB a direction. Every wait is a condition with a deadline ([`until`]), and a
//! condition that does not hold in time is a panic with its name.
#![expect(
    clippy::missing_panics_doc,
    reason = "a harness: a condition that does not hold is a failed test, everywhere"
)]

mod actor;
mod binary;
mod clock;
mod cluster;
mod config;
mod descriptors;
mod disk;
mod events;
mod history;
mod http;
pub mod judge;
mod links;
mod load;
mod locks;
mod ports;
mod process;
mod program;
mod store;
mod unread;
mod until;
pub mod zk;

pub use actor::{Actor, Attempt};
pub use binary::binary;
pub use clock::WallClock;
pub use cluster::{Cluster, ClusterBuilder, ClusterView, Node, NodeView};
pub use config::{Member, NodeConfig, Timing};
pub use descriptors::raise_descriptor_limit;
pub use disk::{LoopImage, Tmpfs, is_root};
pub use events::{Events, Notice};
pub use history::{Answer, Call, Completion, Event, History, Operation, What};
pub use holdfast_client::http::{Method, SendError};
pub use http::{Http, Reply, Request};
pub use links::{Flow, Links};
pub use load::{Load, LoadReport};
pub use ports::Ports;
pub use process::{Process, is_running, send};
pub use program::{End, Program};
pub use store::{FencedStore, StoreOp};
pub use unread::Unread;
pub use until::{DEADLINE, LONG_DEADLINE, eventually, until, until_some};
