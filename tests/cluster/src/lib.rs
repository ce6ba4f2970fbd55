//! The laboratory of the whole-system tests: real `holdfast serve` processes, real sockets, real disks, and judges.
//!
//! Owns how a cluster of processes is started, killed, paused, cut off and brought back ([`Cluster`], [`Links`]),
//! how it is asked ([`Http`]), what clients did and saw ([`History`]), and how that is judged ([`judge`]).
//! Refuses to know anything of the implementation: it links no crate of holdfast, it speaks HTTP, `ZooKeeper`'s
//! protocol and signals, and it is written from the specification. Everything it starts dies with the value that started it, also in a panic.
//!
//! Bounds: a log tail is 60 lines a node; a history lives in memory and is as long as the test's load, which is
//! bounded by a number of rounds or a deadline; a proxied connection buffers 16 KiB a direction.
//! Every wait is a condition with a deadline ([`until`]); a condition that does not come is a failed test, so the
//! functions of this crate panic with what they waited for.
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
mod ports;
mod process;
mod store;
mod unread;
mod until;
mod zookeeper;

pub use actor::{Actor, Attempt};
pub use binary::binary;
pub use clock::WallClock;
pub use cluster::{Cluster, ClusterBuilder, ClusterView, Node, NodeView};
pub use config::{Member, NodeConfig, Timing};
pub use descriptors::raise_descriptor_limit;
pub use disk::{LoopImage, Tmpfs, is_root};
pub use events::{Events, Notice};
pub use history::{Answer, Call, Completion, Event, History, Operation, What};
pub use http::{Http, Reply, Request, Trouble};
pub use links::{Flow, Links};
pub use load::{Load, LoadReport};
pub use ports::Ports;
pub use process::Process;
pub use store::{FencedStore, StoreOp};
pub use unread::Unread;
pub use until::{DEADLINE, until, until_some};
pub use zookeeper::{Zk, ZkError, ZkEvent, ZkSession, four_letter_word};
