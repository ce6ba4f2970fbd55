//! Prometheus metrics of locks, sessions and the log. The registry adds the prefix `holdfast_`.
//!
//! No labels by lock or session: their number has no bound. The number of namespaces has one.

use std::sync::atomic::AtomicU64;

use holdfast_types::{LossCause, QuotaOwner};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::health::alarms::{Alarm, AlarmKind};

/// Upper bounds of the buckets of waits and holds, seconds: the longest wait is 5 minutes, and a hold may last for hours.
pub const WAIT_BUCKETS: [f64; 14] =
    [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 1_800.0, 7_200.0];

/// A histogram of durations.
#[derive(Clone, Debug)]
pub(crate) struct Seconds(Histogram);

impl Default for Seconds {
    fn default() -> Self {
        Self(Histogram::new(WAIT_BUCKETS))
    }
}

impl Seconds {
    pub(crate) fn note_ms(&self, ms: u64) {
        self.0.observe(std::time::Duration::from_millis(ms).as_secs_f64());
    }
}

/// A gauge for each namespace and quota.
type NamespaceGauges = Family<[(&'static str, String); 2], Gauge>;

/// Handles to the service's metrics; clones share them.
#[derive(Clone, Debug, Default)]
pub struct ServiceMetrics {
    pub(crate) granted: Counter,
    pub(crate) busy: Counter,
    pub(crate) timed_out: Counter,
    pub(crate) wake_ups: Counter,
    pub(crate) keepalives: Counter,
    pub(crate) auth_refused: Counter,
    pub(crate) session_expired: Counter,
    holds_ended: Family<[(&'static str, &'static str); 1], Counter>,
    pub(crate) wait_seconds: Seconds,
    pub(crate) hold_seconds: Seconds,
    pub(crate) has_leader: Gauge,
    pub(crate) has_quorum: Gauge,
    pub(crate) is_leader: Gauge,
    pub(crate) term: Gauge,
    pub(crate) revision: Gauge,
    pub(crate) sessions: Gauge,
    pub(crate) znodes: Gauge,
    pub(crate) tree_bytes: Gauge,
    pub(crate) tree_bytes_max: Gauge,
    pub(crate) last_backup: Gauge,
    pub(crate) locks_held: Gauge,
    pub(crate) waiters: Gauge,
    pub(crate) parked: Gauge,
    pub(crate) disk_free: Gauge,
    pub(crate) streams: Gauge,
    pub(crate) watches: Gauge,
    pub(crate) watch_streams: Gauge,
    pub(crate) feature_level: Gauge,
    pub(crate) log_bytes: Gauge,
    pub(crate) follower_lag: Family<[(&'static str, u64); 1], Gauge>,
    pub(crate) follower_silent: Family<[(&'static str, u64); 1], Gauge<f64, AtomicU64>>,
    pub(crate) namespace_used: NamespaceGauges,
    pub(crate) namespace_limit: NamespaceGauges,
    alarms: Family<[(&'static str, &'static str); 1], Gauge>,
    pub(crate) memory_limit: Gauge,
    pub(crate) certificate_expires: Family<[(&'static str, &'static str); 1], Gauge>,
    calls_limited: Family<[(&'static str, String); 1], Counter>,
    subject_calls_limited: Counter,
}

impl ServiceMetrics {
    /// Registers the metrics.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        metrics.register_counters(registry);
        metrics.register_gauges(registry);
        metrics.register_locks(registry);
        metrics.register_namespaces(registry);
        metrics.register_alarms(registry);
        metrics
    }

    fn register_counters(&self, registry: &mut Registry) {
        let counters: [(&str, &str, &Counter); 7] = [
            (
                "lock_acquire_granted",
                "Acquire calls on this node that returned a grant",
                &self.granted,
            ),
            (
                "lock_acquire_busy",
                "Acquire calls on this node that were rejected at once because the lock was busy",
                &self.busy,
            ),
            (
                "lock_acquire_timeout",
                "Acquire calls on this node whose wait ended without a grant",
                &self.timed_out,
            ),
            ("lock_wake_ups", "Wake-ups of acquire calls that wait on this node", &self.wake_ups),
            ("keepalives", "Session renewals served by this node", &self.keepalives),
            (
                "auth_refused",
                "Calls that this node refused for their credential or a missing permission, or would refuse in the mode on",
                &self.auth_refused,
            ),
            (
                "session_expired",
                "Sessions that expired. Replicated: every node counts all of them",
                &self.session_expired,
            ),
        ];
        for (name, help, counter) in counters {
            registry.register(name, help, counter.clone());
        }
    }

    fn register_locks(&self, registry: &mut Registry) {
        for cause in LossCause::ALL {
            self.holds_ended(cause);
        }
        let help = "Holds that ended, by cause. Replicated: every node counts all of them";
        registry.register("lock_holds_ended", help, self.holds_ended.clone());
        let help = "Seconds from an acquire to its grant, of acquires that waited. Replicated: every node counts all of them";
        registry.register("lock_wait_seconds", help, self.wait_seconds.0.clone());
        let help = "Seconds from a grant to the end of the hold. Replicated: every node counts all of them";
        registry.register("lock_hold_seconds", help, self.hold_seconds.0.clone());
    }

    fn register_namespaces(&self, registry: &mut Registry) {
        let help = "What a namespace uses of a quota. Replicated: equal on every node";
        registry.register("namespace_used", help, self.namespace_used.clone());
        let help = "The quotas of the namespaces. Replicated: equal on every node";
        registry.register("namespace_limit", help, self.namespace_limit.clone());
        let help = "Calls to this node above the calls per second of their namespace";
        registry.register("namespace_calls_limited", help, self.calls_limited.clone());
        let help = "Calls to this node above the calls per second of their subject";
        registry.register("subject_calls_limited", help, self.subject_calls_limited.clone());
    }

    fn register_alarms(&self, registry: &mut Registry) {
        self.set_alarms(&[]);
        let help = "1 while this node raises the alarm, otherwise 0";
        registry.register("alarm", help, self.alarms.clone());
        let help = "Limit of the memory of the process: of its control group, or the memory of the machine";
        registry.register("memory_limit_bytes", help, self.memory_limit.clone());
        let help = "Unix time at which the certificate of a listener expires";
        registry.register(
            "certificate_expires_timestamp_seconds",
            help,
            self.certificate_expires.clone(),
        );
    }

    /// Sets the gauge of each kind of alarm.
    pub(crate) fn set_alarms(&self, alarms: &[Alarm]) {
        for kind in AlarmKind::ALL {
            let raised = alarms.iter().any(|alarm| alarm.kind == kind);
            self.alarms.get_or_create(&[("name", kind.as_str())]).set(raised.into());
        }
    }

    /// The counter of calls above the rate of a namespace, or of any subject.
    pub(crate) fn calls_limited(&self, owner: &QuotaOwner) -> Counter {
        match owner {
            QuotaOwner::Namespace(namespace) => {
                self.calls_limited.get_or_create(&[("namespace", namespace.to_string())]).clone()
            }
            QuotaOwner::Subject(_) => self.subject_calls_limited.clone(),
        }
    }

    /// The counter of holds that ended with this cause.
    pub(crate) fn holds_ended(&self, cause: LossCause) -> Counter {
        self.holds_ended.get_or_create(&[("cause", cause.as_str())]).clone()
    }

    fn register_gauges(&self, registry: &mut Registry) {
        let gauges: [(&str, &str, &Gauge); 16] = [
            ("has_leader", "1 if this node knows a leader, otherwise 0", &self.has_leader),
            (
                "has_quorum",
                "1 if this node heard from the leader, or as leader from a quorum, within two election timeouts",
                &self.has_quorum,
            ),
            ("is_leader", "1 if this node is the leader, otherwise 0", &self.is_leader),
            ("raft_term", "Raft term of this node", &self.term),
            (
                "applied_revision",
                "Revision of the last command applied by this node",
                &self.revision,
            ),
            (
                "sessions",
                "Open sessions of the cluster. Replicated: equal on every node",
                &self.sessions,
            ),
            ("znodes", "Znodes in the tree. Replicated: equal on every node", &self.znodes),
            (
                "tree_bytes",
                "Bytes that clients have stored in the tree and in sessions. Replicated: equal on every node",
                &self.tree_bytes,
            ),
            (
                "tree_bytes_max",
                "Limit of holdfast_tree_bytes. Replicated: equal on every node",
                &self.tree_bytes_max,
            ),
            (
                "locks_held",
                "Locks with a holder. Replicated: equal on every node",
                &self.locks_held,
            ),
            (
                "lock_waiters",
                "Clients that wait for a lock. Replicated: equal on every node",
                &self.waiters,
            ),
            (
                "parked_calls",
                "Calls of this node that wait for a lock, latch, barrier, event or audit record",
                &self.parked,
            ),
            (
                "disk_free_bytes",
                "Free bytes of the file system of the data directory",
                &self.disk_free,
            ),
            (
                "streams",
                "ZooKeeper and event-stream connections of this node that act for a session",
                &self.streams,
            ),
            (
                "watches",
                "ZooKeeper watches on this node; a persistent watch counts twice",
                &self.watches,
            ),
            ("watch_streams", "Open HTTP watch streams on this node", &self.watch_streams),
        ];
        for (name, help, gauge) in gauges {
            registry.register(name, help, gauge.clone());
        }
        self.register_cluster_and_log(registry);
    }

    fn register_cluster_and_log(&self, registry: &mut Registry) {
        let help = "Feature level of the cluster. Replicated: equal on every node";
        registry.register("feature_level", help, self.feature_level.clone());
        let help =
            "When the last complete backup ended, 0 without one. Replicated: equal on every node";
        registry.register("last_backup_timestamp_seconds", help, self.last_backup.clone());
        let help = "Bytes of the Raft log on the disk of this node";
        registry.register("raft_log_bytes", help, self.log_bytes.clone());
        let help = "Raft log entries that a follower has not acknowledged; only on the leader";
        registry.register("raft_follower_lag_entries", help, self.follower_lag.clone());
        let help = "Seconds since the last acknowledgement of a follower; only on the leader";
        registry.register("raft_follower_silent_seconds", help, self.follower_silent.clone());
    }
}
