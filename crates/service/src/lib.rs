//! The behaviour of one node, independent of the protocol.
//!
//! A front-end builds a command of `holdfast-types` and calls the [`Service`] method of that name. The log orders the
//! command, `apply` decides it, and the method returns the typed reply. `ApplyObserver` passes each applied entry to
//! the parked calls, leases, streams and watchers of this node.
//!
//! Each node also has state in memory: parked calls, streams with their watches, recent changes and, on the leader, the
//! leases of sessions. HTTP, ZooKeeper bytes, openraft and disks stay out of this crate.
//!
//! Bounds: at most `ServiceConfig::waiters_max` parked calls on one node, one lease per session. The modules of streams
//! and watches state their bounds; the proposer's queue bounds everything else.

mod apply_observer;
mod audit;
mod auth;
mod backup;
mod config;
mod digests;
mod health;
mod history;
mod leases;
mod locks;
mod members;
mod metrics;
mod quotas;
mod recent;
mod recent_sampler;
mod recipes;
mod request;
mod service;
mod service_call;
mod session;
mod session_events;
mod start;
mod stream;
mod tree;
mod waiting;
mod watch;

pub use audit::sink::AuditSinkState;
pub use audit::{AuditBatch, AuditPage, AuditQuery};
pub use auth::access_token::{AccessTokenSecret, NotAccessToken};
pub use auth::administration::{AuthStatus, FirstAdministrator, IssuedToken, KnownCaller, Verdict};
pub use auth::refusals::RefusalCount;
pub use backup::BackupStream;
pub use config::ServiceConfig;
pub use digests::verification::StateVerification;
pub use health::alarm_facts::{AlarmsView, ReportedAlarm};
pub use health::alarms::{
    Alarm, AlarmKind, AlarmSeverity, CLOCK_OFFSET_MAX, ListenerCertificate, MemoryUse,
};
pub use health::{Check, Health};
pub use history::contention::{DurationHistogram, LockTimes, WaitEstimate};
pub use history::hold_history::{HistoryRequest, PastHold};
pub use history::hold_notice::{HoldChange, HoldNotice};
pub use holdfast_machine::{
    AccessTokenRecord, BlockingLink, Counts, LockFilter, LockUrgency, RecipeFilter, SubjectRecord,
    recipe_of_next,
};
pub use holdfast_raft::{LATENCY_BUCKETS, StopReason};
pub use leases::renewal::SessionRenewal;
pub use locks::acquire::Granted;
pub use locks::pending_acquire::{
    AcquireProgress, ConnectionHold, HoldEnd, HoldEvent, PendingAcquire,
};
pub use locks::queue_positions::QueuePosition;
pub use locks::read::{ContendedLock, Explanation, FenceMode, LockHistory, TokenCheck};
pub use members::changes::{ChangeMode, InvitedMember, MemberUpdate, NewMember};
pub use members::{ClusterMember, ClusterView, MemberRole};
pub use metrics::{ServiceMetrics, WAIT_BUCKETS};
pub use quotas::local_uses::{ConnectionPlace, LocalUse};
pub use quotas::{NamespaceView, SubjectLimits};
pub use recent::{RecentFigures, RecentValues};
pub use recipes::{CountedDown, CreatedLatch};
pub use request::{Failure, NotYet, Principal, ReadMode, RequestContext, Response};
pub use service::Service;
pub use service_call::LeaseView;
pub use session::{ListenReply, ListenRequest, SessionLease, generate_session_name};
pub use stream::{
    Attachment, Notice, NoticeKind, Outbox, Outgoing, SessionKey, SessionStream, StreamAnswer,
    StreamEnd, StreamLimits, StreamRead, StreamReply, StreamView, WatchCounts, WatchKind,
    WatchMode, WatchSet,
};
pub use tree::{ZnodeAcl, ZnodeContents};
pub use watch::{WatchFilter, WatchItem, WatchRequest, WatchStream, WatchedItem, ZnodeChangeKind};
