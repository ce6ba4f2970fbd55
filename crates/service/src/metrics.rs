//! Prometheus metrics of locks, sessions and the log. The registry adds the prefix `holdfast_`.
//!
//! No labels by lock or session: their number has no bound. The number of namespaces has one.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use holdfast_types::{LossCause, QuotaOwner, millis};
use parking_lot::Mutex;
use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::health::alarms::{Alarm, AlarmKind, AlarmSeverity};

/// Upper bounds of the buckets of waits and holds, seconds: the longest wait is 5 minutes, and a hold may last for hours.
pub const WAIT_BUCKETS: [f64; 14] =
    [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 1_800.0, 7_200.0];

/// A histogram of durations, whose counts this node also reads.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seconds(Arc<Mutex<SecondsCounts>>);

/// The counts of a histogram of durations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SecondsCounts {
    /// One for each of [`WAIT_BUCKETS`], and one for longer durations.
    buckets: [u64; WAIT_BUCKETS.len() + 1],
    sum_ms: u64,
}

impl Seconds {
    pub(crate) fn note_ms(&self, ms: u64) {
        let seconds = Duration::from_millis(ms).as_secs_f64();
        let mut counts = self.0.lock();
        let bucket = WAIT_BUCKETS.partition_point(|end| *end < seconds);
        if let Some(count) = counts.buckets.get_mut(bucket) {
            *count += 1;
        }
        counts.sum_ms = counts.sum_ms.saturating_add(ms);
    }

    pub(crate) fn counts(&self) -> SecondsCounts {
        self.0.lock().clone()
    }
}

impl SecondsCounts {
    /// The durations that were counted after `before`.
    pub(crate) fn since(&self, before: &Self) -> Self {
        let mut counts = self.clone();
        for (count, before) in counts.buckets.iter_mut().zip(before.buckets) {
            *count = count.saturating_sub(before);
        }
        counts.sum_ms = counts.sum_ms.saturating_sub(before.sum_ms);
        counts
    }

    fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Estimates a percentile, as if the durations were spread evenly in their bucket; `None` without durations.
    pub(crate) fn percentile_ms(&self, percent: u64) -> Option<u64> {
        let rank = (self.count() * percent).div_ceil(100);
        let (mut below, mut start_ms) = (0, 0);
        for (count, end) in self.buckets.iter().zip(WAIT_BUCKETS) {
            let end_ms = millis(Duration::from_secs_f64(end));
            if *count > 0 && below + count >= rank {
                return Some(start_ms + (end_ms - start_ms) * (rank - below) / count);
            }
            (below, start_ms) = (below + count, end_ms);
        }
        (self.count() > 0).then_some(start_ms)
    }
}

impl EncodeMetric for Seconds {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> std::fmt::Result {
        let counts = self.counts();
        let ends = WAIT_BUCKETS.into_iter().chain([f64::INFINITY]);
        let buckets: Vec<(f64, u64)> = ends.zip(counts.buckets).collect();
        let sum = Duration::from_millis(counts.sum_ms).as_secs_f64();
        encoder.encode_histogram::<NoLabelSet>(sum, counts.count(), &buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Histogram
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
    critical_alarms: Family<[(&'static str, &'static str); 1], Gauge>,
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
        let help = "Acquire calls on this node that returned a grant";
        registry.register("lock_acquire_granted", help, self.granted.clone());
        let help =
            "Acquire calls on this node that were rejected at once because the lock was busy";
        registry.register("lock_acquire_busy", help, self.busy.clone());
        let help = "Acquire calls on this node whose wait ended without a grant";
        registry.register("lock_acquire_timeout", help, self.timed_out.clone());
        let help = "Wake-ups of acquire calls that wait on this node";
        registry.register("lock_wake_ups", help, self.wake_ups.clone());
        let help = "Session renewals served by this node";
        registry.register("keepalives", help, self.keepalives.clone());
        let help = "Calls that this node refused for their credential or a missing permission, or would refuse in the mode on";
        registry.register("auth_refused", help, self.auth_refused.clone());
        let help = "Sessions that expired. Replicated: every node counts all of them";
        registry.register("session_expired", help, self.session_expired.clone());
    }

    fn register_locks(&self, registry: &mut Registry) {
        for cause in LossCause::ALL {
            self.holds_ended(cause);
        }
        let help = "Holds that ended, by cause. Replicated: every node counts all of them";
        registry.register("lock_holds_ended", help, self.holds_ended.clone());
        let help = "Seconds from an acquire to its grant, of acquires that waited. Replicated: every node counts all of them";
        registry.register("lock_wait_seconds", help, self.wait_seconds.clone());
        let help = "Seconds from a grant to the end of the hold. Replicated: every node counts all of them";
        registry.register("lock_hold_seconds", help, self.hold_seconds.clone());
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
        let help = "1 while this node raises the alarm as critical, otherwise 0";
        registry.register("alarm_critical", help, self.critical_alarms.clone());
        let help = "Limit of the memory of the process: of its control group, or the memory of the machine";
        registry.register("memory_limit_bytes", help, self.memory_limit.clone());
        let help = "Unix time at which the certificate of a listener, or of its issuer, expires";
        registry.register(
            "certificate_expires_timestamp_seconds",
            help,
            self.certificate_expires.clone(),
        );
    }

    /// Sets the gauges of each kind of alarm.
    pub(crate) fn set_alarms(&self, alarms: &[Alarm]) {
        for kind in AlarmKind::ALL {
            let raised = alarms.iter().find(|alarm| alarm.kind == kind);
            let critical = raised.is_some_and(|alarm| alarm.severity == AlarmSeverity::Critical);
            let labels = [("name", kind.as_str())];
            self.alarms.get_or_create(&labels).set(raised.is_some().into());
            self.critical_alarms.get_or_create(&labels).set(critical.into());
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
        let help = "1 if this node knows a leader, otherwise 0";
        registry.register("has_leader", help, self.has_leader.clone());
        let help = "1 if this node heard from the leader, or as leader from a quorum, within two election timeouts";
        registry.register("has_quorum", help, self.has_quorum.clone());
        let help = "1 if this node is the leader, otherwise 0";
        registry.register("is_leader", help, self.is_leader.clone());
        let help = "Raft term of this node";
        registry.register("raft_term", help, self.term.clone());
        let help = "Revision of the last command applied by this node";
        registry.register("applied_revision", help, self.revision.clone());
        let help = "Open sessions of the cluster. Replicated: equal on every node";
        registry.register("sessions", help, self.sessions.clone());
        let help = "Znodes in the tree. Replicated: equal on every node";
        registry.register("znodes", help, self.znodes.clone());
        let help = "Bytes that clients have stored in the tree and in sessions. Replicated: equal on every node";
        registry.register("tree_bytes", help, self.tree_bytes.clone());
        let help = "Limit of holdfast_tree_bytes. Replicated: equal on every node";
        registry.register("tree_bytes_max", help, self.tree_bytes_max.clone());
        let help = "Locks with a holder. Replicated: equal on every node";
        registry.register("locks_held", help, self.locks_held.clone());
        let help = "Clients that wait for a lock. Replicated: equal on every node";
        registry.register("lock_waiters", help, self.waiters.clone());
        let help = "Calls of this node that wait for a lock, latch, barrier, event or audit record";
        registry.register("parked_calls", help, self.parked.clone());
        let help =
            "Free bytes of the fullest file system of the node's data directory, log and snapshots";
        registry.register("disk_free_bytes", help, self.disk_free.clone());
        let help = "ZooKeeper and event-stream connections of this node that act for a session";
        registry.register("streams", help, self.streams.clone());
        let help = "ZooKeeper watches on this node; a persistent watch counts twice";
        registry.register("watches", help, self.watches.clone());
        let help = "Open HTTP watch streams on this node";
        registry.register("watch_streams", help, self.watch_streams.clone());
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

#[cfg(test)]
mod tests {
    use prometheus_client::metrics::histogram::Histogram;

    use super::*;

    fn counts(durations_ms: &[u64]) -> SecondsCounts {
        let seconds = Seconds::default();
        for ms in durations_ms {
            seconds.note_ms(*ms);
        }
        seconds.counts()
    }

    #[test]
    fn a_histogram_is_encoded_as_one_of_the_library() {
        let durations = [0, 1, 5, 6, 299_999, 7_200_000, 7_200_001];
        let (mut ours, mut theirs) = (Registry::default(), Registry::default());
        let (seconds, library) = (Seconds::default(), Histogram::new(WAIT_BUCKETS));
        ours.register("waits", "Waits", seconds.clone());
        theirs.register("waits", "Waits", library.clone());
        for ms in durations {
            seconds.note_ms(ms);
            library.observe(Duration::from_millis(ms).as_secs_f64());
        }
        let text = |registry: &Registry| {
            let mut text = String::new();
            prometheus_client::encoding::text::encode(&mut text, registry).unwrap();
            text
        };
        assert_eq!(text(&ours), text(&theirs));
    }

    #[test]
    fn a_percentile_is_estimated_within_its_bucket() {
        assert_eq!(counts(&[]).percentile_ms(50), None);
        assert_eq!(counts(&[0]).percentile_ms(99), Some(1), "the end of the first bucket");
        let mixed = counts(&[20, 20, 20, 20, 4_000]);
        assert_eq!((mixed.percentile_ms(50), mixed.percentile_ms(99)), (Some(40), Some(5_000)));
        assert_eq!(counts(&[9_000_000]).percentile_ms(50), Some(7_200_000), "the last bound");
        assert_eq!(mixed.since(&counts(&[20, 20, 20, 20])).percentile_ms(1), Some(5_000));
    }
}
