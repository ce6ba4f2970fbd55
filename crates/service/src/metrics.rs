//! What a node counts about locks and sessions, as Prometheus metrics (prefix `holdfast_` set by the registry).
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

/// A histogram of how long something took.
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
    log: [Counter; LOG_COUNTS.len()],
}

/// What the node has done for the log since it started: names, help, and where each count is.
type LogCount = (&'static str, &'static str, fn(&RaftCounts) -> u64);
const LOG_COUNTS: [LogCount; 12] = [
    ("raft_entries_proposed", "Entries written as leader", |c| c.proposed_entries),
    ("raft_commands_proposed", "Commands in them", |c| c.proposed_commands),
    ("raft_batches_forwarded", "Batches sent to the leader", |c| c.forwarded_batches),
    ("raft_commands_forwarded", "Commands in them", |c| c.forwarded_commands),
    ("raft_outcomes_unknown", "Commands of unknown outcome", |c| c.unknown_outcomes),
    ("raft_read_rounds", "Rounds that confirmed a leader", |c| c.read_rounds),
    ("raft_reads", "Reads and renewals that they served", |c| c.reads),
    ("raft_entries_applied", "Entries applied", |c| c.applied_entries),
    ("raft_commands_applied", "Commands in them", |c| c.applied_commands),
    ("snapshots_built", "Snapshots made", |c| c.snapshots_built),
    ("snapshots_installed", "Snapshots taken over", |c| c.snapshots_installed),
    ("snapshots_refused", "Snapshots of peers that cannot be used", |c| c.snapshots_refused),
];

impl ServiceMetrics {
    /// Makes the metrics and puts them into a registry.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        metrics.register_counters(registry);
        metrics.register_gauges(registry);
        metrics.register_locks(registry);
        for ((name, help, _), counter) in LOG_COUNTS.iter().zip(&metrics.log) {
            registry.register(*name, *help, counter.clone());
        }
        metrics
    }

    fn register_counters(&self, registry: &mut Registry) {
        let counters: [(&str, &str, &Counter); 6] = [
            ("lock_acquire_granted", "Acquire calls answered with a new grant", &self.granted),
            ("lock_acquire_busy", "Acquire calls answered busy at once", &self.busy),
            ("lock_acquire_timeout", "Acquire calls whose wait ended", &self.timed_out),
            ("lock_wake_ups", "Calls that waited for a lock and were woken", &self.wake_ups),
            ("keepalives", "Renewals answered by this node", &self.keepalives),
            ("session_expired", "Sessions whose lease ran out", &self.session_expired),
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
        let help = "From the request of a lock to its grant, of those who had to wait";
        registry.register("lock_wait_seconds", help, self.wait_seconds.0.clone());
        let help = "From the grant of a lock to the end of the hold";
        registry.register("lock_hold_seconds", help, self.hold_seconds.0.clone());
    }

    /// Brings what the log counts itself up to date.
    pub(crate) fn set_log(&self, counts: &RaftCounts) {
        for ((_, _, count), counter) in LOG_COUNTS.iter().zip(&self.log) {
            counter.inner().store(count(counts), Ordering::Relaxed);
        }
    }

    /// Holds that ended for this reason.
    pub(crate) fn lost(&self, cause: LossCause) -> Counter {
        self.lost.get_or_create(&[("cause", cause.as_str())]).clone()
    }

    fn register_gauges(&self, registry: &mut Registry) {
        let gauges: [(&str, &str, &Gauge); 15] = [
            ("has_leader", "1 if this node knows a leader", &self.has_leader),
            ("is_leader", "1 if this node leads", &self.is_leader),
            ("raft_term", "The present term", &self.term),
            ("applied_revision", "The last applied revision", &self.revision),
            ("sessions", "Open sessions", &self.sessions),
            ("znodes", "Nodes of the tree", &self.znodes),
            ("tree_bytes", "Bytes that clients have stored in the cluster", &self.tree_bytes),
            ("tree_bytes_max", "The limit of these bytes", &self.tree_bytes_max),
            ("locks_held", "Locks held", &self.locks_held),
            ("lock_waiters", "Contenders in queues", &self.waiters),
            ("parked_calls", "Calls waiting on this node", &self.parked),
            ("disk_free_bytes", "Free bytes where the data directory is", &self.disk_free),
            ("streams", "Connections of this node that speak for a session", &self.streams),
            ("watches", "Watches of streams; a persistent one counts twice", &self.watches),
            ("watch_streams", "Open watch streams", &self.watch_streams),
        ];
        for (name, help, gauge) in gauges {
            registry.register(name, help, gauge.clone());
        }
    }
}
