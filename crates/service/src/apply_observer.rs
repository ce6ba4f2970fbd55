//! Passes the changes of `apply` to this node's memory, in log order, before the entry's outcomes are returned.
//!
//! Runs inside the apply step while the machine is locked. It must not block, wait, propose, or lock the machine again.
//! Calls from the services of other nodes also arrive here.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use holdfast_machine::Machine;
use holdfast_raft::Observer;
use holdfast_types::{
    Applied, Event, LockEvent, NodeId, SessionEnd, SessionEvent, Ticket, TreeEvent,
};
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::config::ServiceConfig;
use crate::digests::{DigestLog, StateDigests};
use crate::health::quota_warnings::{StoredBytesWarning, soft_limit_crossed};
use crate::history::contention::Contention;
use crate::history::hold_history::HistoryBounds;
use crate::history::hold_recorder::HoldRecorder;
use crate::leases::lease::Leases;
use crate::leases::restart_time::RestartTime;
use crate::locks::watched_queues::WatchedQueues;
use crate::metrics::ServiceMetrics;
use crate::recipes::RecipeWaiters;
use crate::session_events::SessionEvents;
use crate::stream::{StreamEnd, Streams};
use crate::waiting::{AppliedWaiters, ParkedCalls, QueueEvent, WaiterPermits};
use crate::watch::ChangeLog;

/// Handles an encoded call of another node.
pub(crate) type AnswerPeer =
    Box<dyn Fn(NodeId, Bytes, Instant) -> BoxFuture<'static, Bytes> + Send + Sync>;

pub(crate) struct ApplyObserver {
    pub(crate) leases: Mutex<Leases>,
    pub(crate) waiter_permits: WaiterPermits,
    pub(crate) lock_waiters: ParkedCalls<Ticket, QueueEvent>,
    pub(crate) recipe_waiters: RecipeWaiters,
    pub(crate) digests: Mutex<DigestLog>,
    pub(crate) state_digests: StateDigests,
    pub(crate) streams: Streams,
    pub(crate) change_log: ChangeLog,
    pub(crate) applied_waiters: AppliedWaiters,
    pub(crate) watched_queues: WatchedQueues,
    pub(crate) session_events: SessionEvents,
    pub(crate) contention: Arc<Contention>,
    pub(crate) hold_recorder: HoldRecorder,
    pub(crate) metrics: ServiceMetrics,
    /// Changes with every change of the authorization.
    pub(crate) auth_changes: watch::Sender<()>,
    /// Changes with every new record of the audit trail.
    pub(crate) audit_records: watch::Sender<()>,
    pub(crate) restart_time: RestartTime,
    stored_bytes_warning: StoredBytesWarning,
    answer_peer: AnswerPeer,
}

impl fmt::Debug for ApplyObserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApplyObserver").finish_non_exhaustive()
    }
}

impl ApplyObserver {
    pub(crate) fn new(
        config: &ServiceConfig,
        data_dir: &Path,
        metrics: ServiceMetrics,
        restart_time: RestartTime,
        answer_peer: AnswerPeer,
    ) -> Arc<Self> {
        let ServiceConfig { history_events_max, history_bytes_max, watch_streams_max, .. } =
            *config;
        let contention = Arc::<Contention>::default();
        let (dir, bounds) = (data_dir.join("history"), HistoryBounds::DEFAULT);
        Arc::new(Self {
            hold_recorder: HoldRecorder::start(dir, bounds, contention.clone(), metrics.clone()),
            leases: Mutex::default(),
            waiter_permits: WaiterPermits::new(config.waiters_max),
            lock_waiters: ParkedCalls::new(metrics.wake_ups.clone()),
            recipe_waiters: RecipeWaiters::default(),
            digests: Mutex::default(),
            state_digests: StateDigests::new(),
            streams: Streams::new(config.streams_max, config.watches_max),
            change_log: ChangeLog::new(history_events_max, history_bytes_max, watch_streams_max),
            applied_waiters: AppliedWaiters::default(),
            watched_queues: WatchedQueues::default(),
            session_events: SessionEvents::new(config.listeners_max, history_events_max),
            contention,
            metrics,
            auth_changes: watch::Sender::new(()),
            audit_records: watch::Sender::new(()),
            restart_time,
            stored_bytes_warning: StoredBytesWarning::default(),
            answer_peer,
        })
    }

    fn wake(&self, ticket: Ticket, event: &QueueEvent) {
        self.lock_waiters.wake(ticket..=ticket, |_| Some(event.clone()));
    }

    fn on_event(&self, machine: &Machine, event: &Event) {
        match event {
            Event::Lock(LockEvent::Granted(grant)) => {
                self.wake(grant.ticket, &QueueEvent::Granted(grant.clone()));
            }
            Event::Lock(LockEvent::WaitEnded { ticket, cause, .. }) => {
                self.wake(*ticket, &QueueEvent::Left(*cause));
            }
            Event::Lock(LockEvent::HoldEnded { ticket, cause, .. }) => {
                self.metrics.holds_ended(*cause).inc();
                // The holder may have a parked call that waits for another mode.
                self.wake(*ticket, &QueueEvent::Left(*cause));
            }
            Event::Lock(LockEvent::ModeChanged(grant)) => {
                // A parked call may wait for an upgrade that was withdrawn.
                self.lock_waiters.wake(grant.ticket..=grant.ticket, |_| None);
            }
            Event::Session(SessionEvent::LeaseStarted { id, ttl, generation }) => {
                self.leases.lock().touch(*id, *ttl, *generation, Instant::now());
            }
            Event::Session(SessionEvent::Ended { id, session, end }) => {
                self.leases.lock().end(*id);
                if *end == SessionEnd::Expired {
                    self.metrics.session_expired.inc();
                    tracing::info!(%session, "session expired");
                }
            }
            Event::Tree(
                TreeEvent::Created { .. }
                | TreeEvent::Deleted { .. }
                | TreeEvent::DataChanged { .. },
            )
            | Event::Session(SessionEvent::Attached { .. })
            | Event::Lock(
                LockEvent::ValueChanged(_)
                | LockEvent::PolicyChanged { .. }
                | LockEvent::CooldownStarted { .. }
                | LockEvent::CooldownEnded { .. }
                | LockEvent::BrokenByOperator { .. }
                | LockEvent::ReleaseRequested { .. },
            )
            | Event::MemberChanged { .. }
            | Event::LevelChanged { .. }
            | Event::SealChanged
            | Event::VerifyState => {}
            Event::AuthChanged => self.auth_changes.send_replace(()),
            Event::Audited { .. } => self.audit_records.send_replace(()),
            Event::Recipe(event) => self.recipe_waiters.on_event(event),
            Event::Tree(TreeEvent::SoftQuotaExceeded { path }) => {
                soft_limit_crossed(machine, path);
            }
        }
    }
}

impl Observer for ApplyObserver {
    fn applied(&self, machine: &Machine, applied: &Applied) {
        self.restart_time.applied(machine);
        for (revision, event) in &applied.events {
            self.on_event(machine, event);
            self.streams.on_event(machine, *revision, event);
            self.watched_queues.on_event(event);
        }
        self.hold_recorder.on_applied(machine, applied);
        self.change_log.on_applied(applied);
        // Runs after the change log, which a new listener reads.
        self.session_events.on_applied(applied);
        self.digests.lock().record(applied.revision, machine.digest());
        self.state_digests.on_applied(machine, applied);
        self.stored_bytes_warning.check(machine);
        // Runs last, so that a caller waiting for this revision finds all notices dispatched.
        self.applied_waiters.reached(applied.revision);
    }

    fn restored(&self, machine: &Machine) {
        let mut leases = self.leases.lock();
        if leases.is_active() {
            leases.reset(machine.leases(), machine.leases_used(), Instant::now());
        }
        drop(leases);
        self.digests.lock().restart(machine.revision(), machine.digest());
        self.restart_time.applied(machine);
        self.stored_bytes_warning.check(machine);
        self.lock_waiters.wake_all();
        self.recipe_waiters.wake_all();
        // Watches may have missed changes. A client that sets them again, relative to the revision that it has seen last, gets
        // the missed notices.
        self.streams.end_all(StreamEnd::EntriesSkipped);
        // Skipped entries may have deleted credentials, and have records.
        self.auth_changes.send_replace(());
        self.audit_records.send_replace(());
        self.hold_recorder.restart(machine.revision());
        self.change_log.restart(machine.revision());
        self.session_events.restart(machine.revision());
        self.applied_waiters.reached(machine.revision());
    }

    fn called(&self, from: NodeId, request: Bytes, deadline: Instant) -> BoxFuture<'static, Bytes> {
        (self.answer_peer)(from, request, deadline)
    }
}
