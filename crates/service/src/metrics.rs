//! What a node counts about locks and sessions, as Prometheus metrics (prefix `holdfast_` set by the registry).
//!
//! No labels by lock or session: their number has no bound.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Handles to the service's metrics; clones share them.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    pub(crate) granted: Counter,
    pub(crate) busy: Counter,
    pub(crate) timed_out: Counter,
    pub(crate) keepalives: Counter,
    pub(crate) session_expired: Counter,
    pub(crate) lost_expired: Counter,
    pub(crate) lost_closed: Counter,
    pub(crate) lost_deleted: Counter,
    pub(crate) lost_overdue: Counter,
    pub(crate) has_leader: Gauge,
    pub(crate) is_leader: Gauge,
    pub(crate) term: Gauge,
    pub(crate) revision: Gauge,
    pub(crate) sessions: Gauge,
    pub(crate) znodes: Gauge,
    pub(crate) locks_held: Gauge,
    pub(crate) waiters: Gauge,
    pub(crate) parked: Gauge,
    pub(crate) disk_free: Gauge,
    pub(crate) streams: Gauge,
    pub(crate) watches: Gauge,
    pub(crate) followers: Gauge,
}

impl Metrics {
    /// Makes the metrics and puts them into a registry.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        metrics.register_counters(registry);
        metrics.register_gauges(registry);
        metrics
    }

    fn register_counters(&self, registry: &mut Registry) {
        let counters: [(&str, &str, &Counter); 9] = [
            ("lock_acquire_granted", "Acquire calls answered with a new grant", &self.granted),
            ("lock_acquire_busy", "Acquire calls answered busy at once", &self.busy),
            ("lock_acquire_timeout", "Acquire calls whose wait ended", &self.timed_out),
            ("keepalives", "Renewals answered by this node", &self.keepalives),
            ("session_expired", "Sessions whose lease ran out", &self.session_expired),
            ("lock_lost_expired", "Holds that ended with an expiry", &self.lost_expired),
            ("lock_lost_closed", "Holds that ended with a closed session", &self.lost_closed),
            ("lock_lost_deleted", "Holds deleted through the tree", &self.lost_deleted),
            ("lock_lost_overdue", "Holds that lasted too long", &self.lost_overdue),
        ];
        for (name, help, counter) in counters {
            registry.register(name, help, counter.clone());
        }
    }

    fn register_gauges(&self, registry: &mut Registry) {
        let gauges: [(&str, &str, &Gauge); 13] = [
            ("has_leader", "1 if this node knows a leader", &self.has_leader),
            ("is_leader", "1 if this node leads", &self.is_leader),
            ("raft_term", "The present term", &self.term),
            ("applied_revision", "The last applied revision", &self.revision),
            ("sessions", "Open sessions", &self.sessions),
            ("znodes", "Nodes of the tree", &self.znodes),
            ("locks_held", "Locks held", &self.locks_held),
            ("lock_waiters", "Contenders in queues", &self.waiters),
            ("parked_calls", "Calls waiting on this node", &self.parked),
            ("disk_free_bytes", "Free bytes where the data directory is", &self.disk_free),
            ("streams", "Connections of this node that speak for a session", &self.streams),
            ("watches", "Watches of streams; a persistent one counts twice", &self.watches),
            ("followers", "Watches of changes from a revision on", &self.followers),
        ];
        for (name, help, gauge) in gauges {
            registry.register(name, help, gauge.clone());
        }
    }
}
