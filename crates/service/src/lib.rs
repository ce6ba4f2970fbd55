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
mod acquiring;
mod answer;
mod audit;
mod bundle;
mod census;
mod chronicle;
mod cluster;
mod contention;
mod custody;
mod departure;
mod expiry;
mod explain;
mod fullness;
mod history;
mod hold;
mod hub;
mod keepalive;
mod leader;
mod lease;
mod leases;
mod line;
mod metrics;
mod notices;
mod patience;
mod pulse;
mod reach;
mod read;
mod recipes;
mod request;
mod service;
mod session;
mod stream;
mod tree;
mod waiters;
mod watch;

pub use acquiring::{Acquiring, Progress};
pub use answer::{
    Answer, Check, ClusterView, Failure, Health, KeptAlive, NodeView, Response, Role,
};
pub use contention::{Estimate, LockTimes, Times};
pub use explain::{Explanation, HistoryRequest, LockHistory};
pub use history::{Bounds, PastHold};
pub use hold::{ConnectionHold, HoldEnd, HoldNews};
pub use holdfast_machine::{BlockingLink, Counts, LockFilter};
pub use keepalive::ListenRequest;
pub use leases::{LeaseView, RENEWED_MAX};
pub use line::QueuePosition;
pub use metrics::Metrics;
pub use notices::{Heard, SessionEvent};
pub use recipes::{ArriveRequest, NotYet, RecipeAnswer, RecipeRequest};
pub use request::{
    AcquireAllRequest, AcquireRequest, Call, FenceMode, MultiRequest, Principal, ReadMode, Request,
    Terms,
};
pub use service::{Service, ServiceConfig};
pub use stream::{
    Attached, Ended, Notice, NoticeKind, Outbox, Outgoing, Stream, StreamAnswer, StreamLimits,
    StreamRead, StreamReply, StreamView, WatchCounts, WatchKind, WatchMode, WatchSet,
};
pub use watch::{ChangeKind, WatchFilter, WatchItem, WatchRequest, WatchStream, Watched};
