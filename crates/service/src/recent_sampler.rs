//! Samples the figures of this node once a second, and reads them.

use std::time::Instant;

use holdfast_machine::Machine;
use holdfast_types::{LossCause, RecentMetric};
use tokio::time::MissedTickBehavior;

use crate::recent::{FigureReading, INTERVAL, RecentFigures};
use crate::service::Service;

impl Service {
    /// Returns the figures of this node in the last `rows_max` seconds, joined in groups of `step` seconds.
    pub fn recent(&self, metrics: &[RecentMetric], rows_max: usize, step: usize) -> RecentFigures {
        self.parts.recent.read(metrics, rows_max, step)
    }
}

/// Runs until the service is stopped.
pub(crate) async fn run(service: Service) {
    let mut period = tokio::time::interval(INTERVAL);
    period.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        tokio::select! {
            () = service.stopped().cancelled() => return,
            _ = period.tick() => {}
        }
        let wall = service.raft().wall_clock();
        service.parts.recent.add(read_figures(&service), Instant::now(), wall);
    }
}

fn read_figures(service: &Service) -> FigureReading {
    let (metrics, raft) = (service.metrics(), service.raft());
    let counts = raft.read(Machine::counts);
    let ended = LossCause::ALL.map(|cause| metrics.holds_ended(cause).get());
    FigureReading {
        grants: counts.grants,
        holds_ended: ended.iter().sum(),
        sessions_expired: metrics.session_expired.get(),
        acquires_busy: metrics.busy.get(),
        acquires_timed_out: metrics.timed_out.get(),
        keepalives: metrics.keepalives.get(),
        log_entries: raft.metrics().entries_applied.get(),
        locks_held: counts.locks_held,
        lock_waiters: counts.waiters,
        sessions: counts.sessions,
        parked_calls: service.observer().waiter_permits.in_use() as u64,
        waits: metrics.wait_seconds.counts(),
        holds: metrics.hold_seconds.counts(),
    }
}
