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

mod access_token;
mod acquire;
mod alarm_facts;
mod alarms;
mod apply_observer;
mod audit;
mod audit_sink;
mod audit_sink_state;
mod auth_admin;
mod authorization;
mod backup;
mod call_rate;
mod clock_check;
mod cluster;
mod config;
mod connection_hold;
mod contention;
mod context;
mod digest_check;
mod digest_log;
mod enqueue;
mod explain;
mod failure;
mod granted;
mod hold_history;
mod hold_notice;
mod hold_recorder;
mod leader_priority;
mod leader_timers;
mod lease;
mod level;
mod listen;
mod local_uses;
mod lock;
mod members;
mod membership_checks;
mod metrics;
mod namespaces;
mod operator;
mod pause_detector;
mod pending_acquire;
mod queue_positions;
mod queued;
mod recipes;
mod refusals;
mod renewal;
mod restart_time;
mod seal;
mod service;
mod service_call;
mod session;
mod session_events;
mod start;
mod state_check;
mod state_digests;
mod stored_bytes_warning;
mod stream;
mod subject_limits;
mod tree;
mod verification;
mod waiting;
mod watch;
mod watched_queues;

pub use access_token::{AccessTokenSecret, NotAccessToken};
pub use alarm_facts::{AlarmsView, ReportedAlarm};
pub use alarms::{Alarm, AlarmKind, AlarmSeverity, ListenerCertificate, MemoryUse};
pub use audit::{AuditPage, AuditQuery};
pub use audit_sink::AuditBatch;
pub use audit_sink_state::AuditSinkState;
pub use auth_admin::{AuthStatus, FirstAdministrator, IssuedToken, KnownCaller, Verdict};
pub use backup::BackupStream;
pub use cluster::{Check, ClusterMember, ClusterView, Health, MemberRole};
pub use config::ServiceConfig;
pub use connection_hold::{ConnectionHold, HoldEnd, HoldEvent};
pub use contention::{DurationHistogram, LockTimes, WaitEstimate};
pub use context::{Principal, ReadMode, RequestContext, Response};
pub use explain::{ContendedLock, Explanation, HistoryRequest, LockHistory};
pub use failure::{Failure, NotYet};
pub use granted::Granted;
pub use hold_history::{HistoryBounds, PastHold};
pub use hold_notice::{HoldChange, HoldNotice};
pub use holdfast_machine::{AccessTokenRecord, BlockingLink, Counts, LockFilter, SubjectRecord};
pub use holdfast_raft::{LATENCY_BUCKETS, StopReason};
pub use listen::{ListenReply, ListenRequest};
pub use local_uses::{ConnectionPlace, LocalUse};
pub use lock::{FenceMode, TokenCheck};
pub use members::{ChangeMode, InvitedMember, MemberUpdate, NewMember};
pub use metrics::{ServiceMetrics, WAIT_BUCKETS};
pub use namespaces::NamespaceView;
pub use pending_acquire::{AcquireProgress, PendingAcquire};
pub use queue_positions::QueuePosition;
pub use recipes::{CountedDown, CreatedLatch};
pub use refusals::RefusalCount;
pub use renewal::{RENEWED_MAX, SessionRenewal};
pub use service::Service;
pub use service_call::LeaseView;
pub use session::{SessionLease, generate_session_name, session_or_anonymous};
pub use stream::{
    Attachment, Notice, NoticeKind, Outbox, Outgoing, SessionKey, SessionStream, StreamAnswer,
    StreamEnd, StreamLimits, StreamRead, StreamReply, StreamView, WatchCounts, WatchKind,
    WatchMode, WatchSet,
};
pub use subject_limits::SubjectLimits;
pub use tree::{ZnodeAcl, ZnodeContents};
pub use verification::StateVerification;
pub use watch::{WatchFilter, WatchItem, WatchRequest, WatchStream, WatchedItem, ZnodeChangeKind};
