//! Prometheus metrics of locks, sessions and the log. The registry adds the prefix `holdfast_`.
//!
//! No labels by lock or session: their number has no bound.

use std::sync::atomic::Ordering;

use holdfast_raft::RaftCounts;
use holdfast_types::LossCause;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// Upper bounds of the buckets, seconds.
const BUCKETS: [f64; 14] =
    [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 1_800.0, 7_200.0];

/// A histogram of durations.
#[derive(Clone, Debug)]
pub(crate) struct Seconds(Histogram);

impl Default for Seconds {
    fn default() -> Self {
        Self(Histogram::new(BUCKETS))
    }
}

impl Seconds {
    pub(crate) fn note_ms(&self, ms: u64) {
        self.0.observe(std::time::Duration::from_millis(ms).as_secs_f64());
    }
}

/// Handles to the service's metrics; clones share them.
#[derive(Clone, Debug, Default)]
pub struct ServiceMetrics {
    pub(crate) granted: Counter,
    pub(crate) busy: Counter,
    pub(crate) timed_out: Counter,
    pub(crate) wake_ups: Counter,
    pub(crate) keepalives: Counter,
    pub(crate) session_expired: Counter,
    lost: Family<[(&'static str, &'static str); 1], Counter>,
    pub(crate) wait_seconds: Seconds,
    pub(crate) hold_seconds: Seconds,
    pub(crate) has_leader: Gauge,
    pub(crate) is_leader: Gauge,
    pub(crate) term: Gauge,
    pub(crate) revision: Gauge,
    pub(crate) sessions: Gauge,
    pub(crate) znodes: Gauge,
    pub(crate) tree_bytes: Gauge,
    pub(crate) tree_bytes_max: Gauge,
    pub(crate) locks_held: Gauge,
    pub(crate) waiters: Gauge,
    pub(crate) parked: Gauge,
    pub(crate) disk_free: Gauge,
    pub(crate) streams: Gauge,
    pub(crate) watches: Gauge,
    pub(crate) watch_streams: Gauge,
    log: [Counter; RAFT_COUNTS.len()],
}

/// Name, help and source of a count of the log.
type LogCount = (&'static str, &'static str, fn(&RaftCounts) -> u64);
const RAFT_COUNTS: [LogCount; 12] = [
    ("raft_entries_proposed", "Log entries proposed by this node as leader", |c| {
        c.proposed_entries
    }),
    ("raft_commands_proposed", "Commands proposed by this node as leader", |c| c.proposed_commands),
    ("raft_batches_forwarded", "Batches of commands forwarded to the leader", |c| {
        c.forwarded_batches
    }),
    ("raft_commands_forwarded", "Commands forwarded to the leader", |c| c.forwarded_commands),
    ("raft_outcomes_unknown", "Commands with an unknown outcome", |c| c.unknown_outcomes),
    ("raft_read_rounds", "Quorum rounds that confirmed the leadership", |c| c.read_rounds),
    ("raft_reads", "Reads and renewals served by these rounds", |c| c.reads),
    ("raft_entries_applied", "Log entries applied", |c| c.applied_entries),
    ("raft_commands_applied", "Commands applied", |c| c.applied_commands),
    ("snapshots_built", "Snapshots built", |c| c.snapshots_built),
    ("snapshots_installed", "Snapshots installed", |c| c.snapshots_installed),
    ("snapshots_refused", "Snapshots of peers rejected as unusable", |c| c.snapshots_refused),
];

impl ServiceMetrics {
    /// Registers the metrics.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        metrics.register_counters(registry);
        metrics.register_gauges(registry);
        metrics.register_locks(registry);
        for ((name, help, _), counter) in RAFT_COUNTS.iter().zip(&metrics.log) {
            registry.register(*name, *help, counter.clone());
        }
        metrics
    }

    fn register_counters(&self, registry: &mut Registry) {
        let counters: [(&str, &str, &Counter); 6] = [
            ("lock_acquire_granted", "Acquire calls that returned a grant", &self.granted),
            (
                "lock_acquire_busy",
                "Acquire calls without a wait that were rejected as busy",
                &self.busy,
            ),
            ("lock_acquire_timeout", "Acquire calls that timed out", &self.timed_out),
            ("lock_wake_ups", "Wake-ups of calls that wait for a lock", &self.wake_ups),
            ("keepalives", "Renewals served by this node", &self.keepalives),
            ("session_expired", "Sessions that expired", &self.session_expired),
        ];
        for (name, help, counter) in counters {
            registry.register(name, help, counter.clone());
        }
    }

    fn register_locks(&self, registry: &mut Registry) {
        for cause in LossCause::ALL {
            self.lost(cause);
        }
        registry.register("lock_lost", "Holds that ended, by cause", self.lost.clone());
        let help = "Seconds from a lock request to its grant, for requests that waited";
        registry.register("lock_wait_seconds", help, self.wait_seconds.0.clone());
        let help = "Seconds from a grant to the end of the hold";
        registry.register("lock_hold_seconds", help, self.hold_seconds.0.clone());
    }

    /// Updates the counters of the log.
    pub(crate) fn set_log(&self, counts: &RaftCounts) {
        for ((_, _, count), counter) in RAFT_COUNTS.iter().zip(&self.log) {
            counter.inner().store(count(counts), Ordering::Relaxed);
        }
    }

    /// The counter of holds that ended with this cause.
    pub(crate) fn lost(&self, cause: LossCause) -> Counter {
        self.lost.get_or_create(&[("cause", cause.as_str())]).clone()
    }

    fn register_gauges(&self, registry: &mut Registry) {
        let gauges: [(&str, &str, &Gauge); 15] = [
            ("has_leader", "1 if this node has a leader", &self.has_leader),
            ("is_leader", "1 if this node leads", &self.is_leader),
            ("raft_term", "The current term", &self.term),
            ("applied_revision", "The last applied revision", &self.revision),
            ("sessions", "Open sessions", &self.sessions),
            ("znodes", "Znodes in the tree", &self.znodes),
            ("tree_bytes", "Bytes that clients have stored in the cluster", &self.tree_bytes),
            ("tree_bytes_max", "The limit of these bytes", &self.tree_bytes_max),
            ("locks_held", "Locks held", &self.locks_held),
            ("lock_waiters", "Waiters in lock queues", &self.waiters),
            ("parked_calls", "Calls parked on this node", &self.parked),
            (
                "disk_free_bytes",
                "Free bytes of the file system with the data directory",
                &self.disk_free,
            ),
            ("streams", "Streams: connections that act for a session", &self.streams),
            ("watches", "Watches of streams; a persistent one counts twice", &self.watches),
            ("watch_streams", "Open watch streams", &self.watch_streams),
        ];
        for (name, help, gauge) in gauges {
            registry.register(name, help, gauge.clone());
        }
    }
}
