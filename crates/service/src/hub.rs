//! Where `apply` meets this node's own memory: what an entry changed reaches leases and parked callers here, and
//! nowhere else, in log order, before the entry's outcomes are answered.
//!
//! Runs inside the apply step with the machine locked: it must not block, wait, propose, or read the machine again.
//! Requests of other nodes' services enter here too and are passed on to the service.

use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use holdfast_machine::Machine;
use holdfast_raft::Observer;
use holdfast_types::{
    Applied, Event, LockEvent, NodeId, SessionEnd, SessionEvent, Ticket, TreeEvent,
};
use parking_lot::Mutex;

use crate::audit::Notes;
use crate::chronicle::{Chronicle, Keep};
use crate::contention::Contention;
use crate::fullness::Fullness;
use crate::history::HistoryBounds;
use crate::lease::Leases;
use crate::line::Lines;
use crate::metrics::Metrics;
use crate::notices::Listeners;
use crate::queued::QueueEvent;
use crate::reach::Reach;
use crate::recipes::RecipeWaiters;
use crate::service::{Service, ServiceConfig};
use crate::stream::Streams;
use crate::waiting::{ParkedCalls, WaiterPermits};
use crate::watch::History;

/// See the module.
#[derive(Debug)]
pub(crate) struct Hub {
    pub(crate) leases: Mutex<Leases>,
    pub(crate) permits: WaiterPermits,
    pub(crate) lock_waiters: ParkedCalls<Ticket, QueueEvent>,
    pub(crate) recipe_waiters: RecipeWaiters,
    pub(crate) notes: Mutex<Notes>,
    pub(crate) streams: Streams,
    pub(crate) history: History,
    pub(crate) reach: Reach,
    pub(crate) lines: Lines,
    pub(crate) listeners: Listeners,
    pub(crate) contention: Arc<Contention>,
    pub(crate) chronicle: Chronicle,
    pub(crate) metrics: Metrics,
    fullness: Fullness,
    service: OnceLock<Service>,
}

impl Hub {
    pub(crate) fn new(config: &ServiceConfig, data_dir: &Path, metrics: Metrics) -> Arc<Self> {
        let ServiceConfig { history_events_max, history_bytes_max, followers_max, .. } = *config;
        let contention = Arc::<Contention>::default();
        let HistoryBounds { holds_max, per_lock_max } = config.past_holds;
        let bounds =
            HistoryBounds { holds_max: holds_max.max(1), per_lock_max: per_lock_max.max(1) };
        let keep = Keep { dir: data_dir.join("history"), bounds };
        Arc::new(Self {
            chronicle: Chronicle::start(keep, contention.clone(), metrics.clone()),
            leases: Mutex::default(),
            permits: WaiterPermits::new(config.waiters_max),
            lock_waiters: ParkedCalls::new(metrics.wake_ups.clone()),
            recipe_waiters: RecipeWaiters::default(),
            notes: Mutex::default(),
            streams: Streams::new(config.streams_max, config.watches_max),
            history: History::new(history_events_max, history_bytes_max, followers_max),
            reach: Reach::default(),
            lines: Lines::default(),
            listeners: Listeners::new(config.listeners_max, history_events_max),
            contention,
            metrics,
            fullness: Fullness::default(),
            service: OnceLock::new(),
        })
    }

    /// Opens the way for requests of other nodes. The cycle it makes lives as long as the process.
    pub(crate) fn connect(&self, service: Service) {
        let _only_once = self.service.set(service);
    }

    fn wake(&self, ticket: Ticket, event: &QueueEvent) {
        self.lock_waiters.wake(ticket..=ticket, |_| Some(event.clone()));
    }

    fn see(&self, event: &Event) {
        match event {
            Event::Lock(LockEvent::Granted(grant)) => {
                self.wake(grant.ticket, &QueueEvent::Granted(grant.clone()));
            }
            Event::Lock(LockEvent::WaitEnded { ticket, cause, .. }) => {
                self.wake(*ticket, &QueueEvent::Left(*cause));
            }
            Event::Lock(LockEvent::HoldEnded { ticket, cause, .. }) => {
                self.metrics.lost(*cause).inc();
                // A holder may wait to hold otherwise.
                self.wake(*ticket, &QueueEvent::Left(*cause));
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
                LockEvent::ModeChanged(_)
                | LockEvent::ValueChanged(_)
                | LockEvent::PolicyChanged { .. }
                | LockEvent::CooldownStarted { .. }
                | LockEvent::CooldownEnded { .. }
                | LockEvent::BrokenByOperator { .. }
                | LockEvent::ReleaseRequested { .. },
            )
            | Event::NodeRegistered { .. } => {}
            Event::Recipe(event) => self.recipe_waiters.see(event),
            Event::Tree(TreeEvent::SoftQuotaExceeded { path }) => {
                tracing::warn!(%path, "a soft quota is passed");
            }
        }
    }
}

impl Observer for Hub {
    fn applied(&self, machine: &Machine, applied: &Applied) {
        for (revision, event) in &applied.events {
            self.see(event);
            self.streams.see(machine, *revision, event);
            self.lines.see(event);
        }
        self.chronicle.see(machine, applied);
        self.history.see(applied);
        // After the history, in which whoever begins to listen looks back.
        self.listeners.see(applied);
        self.notes.lock().see(applied.revision, || machine.digest());
        self.fullness.see(machine);
        // Last, so that whoever waits for this revision finds its notices dispatched.
        self.reach.reached(applied.revision);
    }

    fn restored(&self, machine: &Machine) {
        let mut leases = self.leases.lock();
        if leases.is_active() {
            leases.reset(machine.leases(), Instant::now());
        }
        drop(leases);
        self.notes.lock().skip_to(machine.revision());
        self.fullness.see(machine);
        self.lock_waiters.wake_all();
        self.recipe_waiters.wake_all();
        self.streams.diverged();
        self.chronicle.restart(machine.revision());
        self.history.restart(machine.revision());
        self.listeners.restart(machine.revision());
        self.reach.reached(machine.revision());
    }

    fn called(&self, from: NodeId, request: Bytes, deadline: Instant) -> BoxFuture<'static, Bytes> {
        match self.service.get().cloned() {
            Some(service) => async move { service.called(from, &request, deadline).await }.boxed(),
            // A moment after the start; the peer calls again.
            None => async { crate::service_call::unavailable() }.boxed(),
        }
    }
}
