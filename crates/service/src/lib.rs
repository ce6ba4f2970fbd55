//! One node's behaviour, whatever the protocol: requests in, answers out.
//!
//! Owns what a node knows beside the replicated state: the leases of sessions (on the leader), the callers parked
//! for a grant, streams and their watches, what changed lately, admission, and the mapping from requests to commands.
//! Refuses to know HTTP or `ZooKeeper` bytes, status codes, openraft and disks.
//!
//! Data flows one way: a front-end makes a [`Request`], [`Service::call`] turns it into a command or a read, the
//! log orders it, `apply` decides it, and the answer comes back. What `apply` changed reaches parked callers, leases,
//! streams and followers through one place, `hub`.
//!
//! Bounds: callers parked on one node are at most `ServiceConfig::waiters_max`; leases are as many as sessions
//! (bounded by the replicated limits); streams and followers: see their modules; everything else is bounded by the
//! proposer's queue.

mod acquire;
mod answer;
mod audit;
mod census;
mod cluster;
mod departure;
mod expiry;
mod hub;
mod leader;
mod lease;
mod metrics;
mod patience;
mod pulse;
mod reach;
mod read;
mod request;
mod service;
mod session;
mod stream;
mod tree;
mod waiters;
mod watch;

pub use answer::{Answer, Check, ClusterView, Failure, Health, NodeView, Response, Role};
pub use holdfast_machine::{Counts, LockFilter};
pub use metrics::Metrics;
pub use request::{
    AcquireRequest, Call, FenceMode, MultiRequest, Principal, ReadMode, Request, Terms,
};
pub use service::{Service, ServiceConfig};
pub use stream::{
    Attached, Ended, Notice, NoticeKind, Outbox, Outgoing, Stream, StreamAnswer, StreamLimits,
    StreamRead, StreamReply, StreamView, WatchCounts, WatchKind, WatchMode, WatchSet,
};
pub use watch::{ChangeKind, WatchFilter, WatchItem, WatchRequest, WatchStream, Watched};
