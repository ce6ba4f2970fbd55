//! Where `apply` meets this node's own memory: what an entry changed reaches leases and parked callers here, and
//! nowhere else, in log order, before the entry's outcomes are answered.
//!
//! Runs inside the apply step with the machine locked: it must not block, wait, propose, or read the machine again.
//! Requests of other nodes' services enter here too and are passed on to the service.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use holdfast_machine::Machine;
use holdfast_raft::Observer;
use holdfast_types::{Applied, Event, LossCause, NodeId, SessionEnd};
use parking_lot::Mutex;

use crate::audit::Notes;
use crate::lease::Leases;
use crate::metrics::Metrics;
use crate::reach::Reach;
use crate::service::{Service, ServiceConfig};
use crate::stream::Streams;
use crate::waiters::Waiters;
use crate::watch::History;

/// See the module.
#[derive(Debug)]
pub(crate) struct Hub {
    pub(crate) leases: Mutex<Leases>,
    pub(crate) waiters: Waiters,
    pub(crate) notes: Mutex<Notes>,
    pub(crate) streams: Streams,
    pub(crate) history: History,
    pub(crate) reach: Reach,
    pub(crate) metrics: Metrics,
    service: OnceLock<Service>,
}

impl Hub {
    pub(crate) fn new(config: &ServiceConfig, metrics: Metrics) -> Arc<Self> {
        let ServiceConfig { history_events_max, history_bytes_max, followers_max, .. } = *config;
        Arc::new(Self {
            leases: Mutex::default(),
            waiters: Waiters::new(config.waiters_max),
            notes: Mutex::default(),
            streams: Streams::new(config.streams_max, config.watches_max),
            history: History::new(history_events_max, history_bytes_max, followers_max),
            reach: Reach::default(),
            metrics,
            service: OnceLock::new(),
        })
    }

    /// Opens the way for requests of other nodes. The cycle it makes lives as long as the process.
    pub(crate) fn connect(&self, service: Service) {
        let _only_once = self.service.set(service);
    }

    fn see(&self, event: &Event) {
        match event {
            Event::Granted(grant) => self.waiters.granted(grant),
            Event::Left { ticket, cause, .. } => self.waiters.left(*ticket, *cause),
            Event::Lost { ticket, cause, .. } => {
                // A holder may wait to hold otherwise.
                self.waiters.left(*ticket, *cause);
                self.count_loss(*cause);
            }
            Event::SessionTouched { id, ttl, generation } => {
                self.leases.lock().touch(*id, *ttl, *generation, Instant::now());
            }
            Event::SessionEnded { id, session, end } => {
                self.leases.lock().end(*id);
                if *end == SessionEnd::Expired {
                    self.metrics.session_expired.inc();
                    tracing::info!(%session, "session expired");
                }
            }
            Event::NodeCreated { .. }
            | Event::NodeDeleted { .. }
            | Event::NodeChanged { .. }
            | Event::SessionAttached { .. }
            | Event::Converted(_)
            | Event::PolicySet { .. }
            | Event::Closed { .. }
            | Event::Opened { .. }
            | Event::NodeRegistered { .. } => {}
            Event::QuotaPassed { path } => tracing::warn!(%path, "a soft quota is passed"),
        }
    }

    fn count_loss(&self, cause: LossCause) {
        match cause {
            LossCause::SessionClosed => drop(self.metrics.lost_closed.inc()),
            LossCause::SessionExpired => drop(self.metrics.lost_expired.inc()),
            LossCause::Deleted | LossCause::Broken => drop(self.metrics.lost_deleted.inc()),
            LossCause::MaxHold | LossCause::Revoked => drop(self.metrics.lost_overdue.inc()),
            // Given up, or a waiter's.
            LossCause::Released | LossCause::LimitLowered | LossCause::HandedOver => {}
        }
    }
}

impl Observer for Hub {
    fn applied(&self, machine: &Machine, applied: &Applied) {
        for (revision, event) in &applied.events {
            self.see(event);
            self.streams.see(machine, *revision, event);
        }
        self.history.see(applied);
        self.notes.lock().see(applied.revision, || machine.digest());
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
        self.waiters.look();
        self.streams.diverged();
        self.history.restart(machine.revision());
        self.reach.reached(machine.revision());
    }

    fn called(&self, from: NodeId, request: Bytes) -> BoxFuture<'static, Bytes> {
        match self.service.get().cloned() {
            Some(service) => async move { service.called(from, &request).await }.boxed(),
            // A moment after the start; the peer asks again.
            None => async { crate::leader::not_leader() }.boxed(),
        }
    }
}
