//! The harness of the whole-system tests: `holdfast serve` processes, real sockets and disks, and history checks.
//!
//! A [`Cluster`] starts, kills, pauses and restarts processes; [`Links`] cuts and delays the network between nodes.
//! [`Http`] and [`zk`] are the test clients, [`History`] records their calls, and [`judge`] checks the record. The
//! harness uses two holdfast crates: `zkwire` for ZooKeeper frames, and `client` for HTTP. A dropped value stops
//! everything that it started, also during a panic. Every wait has a condition and a deadline ([`until`]).
//!
//! Bounds: a log tail has 60 lines per node; a history grows with the load, which has a number of rounds or a
//! deadline; a proxied connection buffers 16 KiB per direction.
#![expect(clippy::missing_panics_doc, reason = "test harness: every panic is a failed test")]

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
mod shown;
mod store;
mod unread;
mod until;
pub mod zk;

pub use actor::{Actor, Attempt};
pub use binary::{binary, newer_binary};
pub use clock::WallClock;
pub use cluster::{Cluster, ClusterBuilder, ClusterView, Node, NodeView};
pub use config::{NodeAddresses, NodeConfig, Timing};
pub use descriptors::raise_descriptor_limit;
pub use disk::{LoopImage, Tmpfs, is_root};
pub use events::{Events, Notice};
pub use history::{CallReply, ClientCall, Completion, Event, History, HistoryEventKind, Operation};
pub use holdfast_client::http::{Method, SendError};
pub use http::{Http, Reply, Request};
pub use links::{Flow, Links};
pub use load::{Load, LoadReport};
pub use ports::{PortRange, Ports};
pub use process::{Process, is_running, send};
pub use program::{End, Program};
pub use shown::as_shown;
pub use store::{FencedStore, StoreOp};
pub use unread::LateCopies;
pub use until::{DEADLINE, LONG_DEADLINE, eventually, until, until_some};
