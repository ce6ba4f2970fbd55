//! One node's behaviour, whatever the protocol: requests in, answers out.
//!
//! Owns what a node knows beside the replicated state: the leases of sessions (on the leader), the callers parked
//! for a grant, streams and their watches, what changed lately, admission, and the mapping from requests to commands.
//! Refuses to know HTTP or `ZooKeeper` bytes, status codes, openraft and disks.
//!
//! Data flows one way: a front-end makes a command of `holdfast-types` and calls the [`Service`] method of that name, the
//! log orders it, `apply` decides it, and the typed reply comes back. What `apply` changed reaches parked callers, leases,
//! streams and followers through one place, `hub`.
//!
//! Bounds: callers parked on one node are at most `ServiceConfig::waiters_max`; leases are as many as sessions
//! (bounded by the replicated limits); streams and followers: see their modules; everything else is bounded by the
//! proposer's queue.

mod acquire;
mod acquiring;
mod audit;
mod census;
mod chronicle;
mod cluster;
mod contention;
mod context;
mod expiry;
mod explain;
mod failure;
mod fullness;
mod history;
mod hold;
mod hub;
mod keepalive;
mod leader;
mod lease;
mod leases;
mod line;
mod lock;
mod metrics;
mod multi_lock;
mod notices;
mod operator;
mod pulse;
mod queued;
mod reach;
mod recipes;
mod service;
mod service_call;
mod session;
mod stream;
mod tree;
mod waiting;
mod watch;

pub use acquire::Granted;
pub use acquiring::{AcquireProgress, PendingAcquire};
pub use cluster::{Check, ClusterMember, ClusterView, Health, Role};
pub use contention::{DurationHistogram, LockTimes, WaitEstimate};
pub use context::{Principal, ReadMode, RequestContext, Response};
pub use explain::{ContendedLock, Explanation, HistoryRequest, LockHistory};
pub use failure::Failure;
pub use history::{HistoryBounds, PastHold};
pub use hold::{ConnectionHold, HoldEnd, HoldEvent};
pub use holdfast_machine::{BlockingLink, Counts, LockFilter};
pub use keepalive::{ListenReply, ListenRequest};
pub use leases::{KeptAlive, RENEWED_MAX};
pub use line::QueuePosition;
pub use lock::{FenceMode, TokenCheck};
pub use metrics::Metrics;
pub use multi_lock::GrantedMany;
pub use notices::HoldNotice;
pub use recipes::{CountedDown, MadeLatch, NotYet};
pub use service::{Service, ServiceConfig};
pub use service_call::LeaseView;
pub use session::{SessionLease, generate_session_name, session_or_anonymous};
pub use stream::{
    Attached, Ended, Notice, NoticeKind, Outbox, Outgoing, Stream, StreamAnswer, StreamLimits,
    StreamRead, StreamReply, StreamView, WatchCounts, WatchKind, WatchMode, WatchSet,
};
pub use tree::{Acl, ZnodeContents};
pub use watch::{ChangeKind, WatchFilter, WatchItem, WatchRequest, WatchStream, Watched};
