//! The settings of a node's service.

use std::time::Duration;

use holdfast_types::Limits;

#[derive(Clone, Debug)]
pub struct ServiceConfig {
    /// The longest wait of one call.
    pub wait_max: Duration,
    /// The maximum number of calls parked on this node.
    pub waiters_max: usize,
    /// A write or a linearizable read that takes longer fails with `OutcomeUnknown` or `NoLeader`.
    pub request_timeout: Duration,
    /// The interval at which the leader checks for expired leases.
    pub tick: Duration,
    /// The leader ends an orphaned wait this long after its deadline.
    pub wait_grace: Duration,
    /// An empty container, such as a lock directory, is kept at least this long.
    pub container_idle: Duration,
    /// The time between two searches for containers and znodes to delete.
    pub sweep_every: Duration,
    /// The maximum number of streams on this node.
    pub streams_max: usize,
    /// The maximum number of watches of all streams of this node.
    pub watches_max: usize,
    /// The longest wait until this node has applied the newest revision that the client has seen.
    pub catch_up_max: Duration,
    /// The maximum number of sessions that listen with their keepalives.
    pub listeners_max: usize,
    /// The maximum number of changes kept for watchers.
    pub history_events_max: usize,
    /// The maximum bytes of these changes.
    pub history_bytes_max: usize,
    /// The maximum number of watch streams on this node.
    pub watch_streams_max: usize,
    /// The time after which a watch stream without changes sends a bookmark.
    pub bookmark_every: Duration,
    /// The maximum bytes that clients may store in the cluster. A leader replicates its own value.
    pub tree_bytes_max: u64,
    /// Whether this node applies the mode `on`, whatever the mode of the cluster is.
    pub requires_authentication: bool,
    /// An address that other machines can reach without TLS, for the alarm `open-mode`.
    pub unprotected: Option<String>,
    /// Of several voters, the one with the highest priority leads.
    pub priority: u8,
    /// The longest time between two backups, for the alarm `backup-old`; `None` expects no backups.
    pub backup_expected_every: Option<Duration>,
    /// The age of a durable hold from which on it raises the alarm `durable-hold-old`.
    pub durable_hold_alarm_after: Duration,
}

impl ServiceConfig {
    /// The priority of a node without one in its configuration.
    pub const DEFAULT_PRIORITY: u8 = 5;
}

impl Default for ServiceConfig {
    fn default() -> Self {
        Self {
            wait_max: Duration::from_mins(5),
            waiters_max: 20_000,
            request_timeout: Duration::from_secs(5),
            tick: Duration::from_millis(50),
            wait_grace: Duration::from_secs(10),
            container_idle: Duration::from_mins(1),
            sweep_every: Duration::from_secs(10),
            streams_max: 20_000,
            watches_max: 4_000_000,
            catch_up_max: Duration::from_millis(1_500),
            listeners_max: 20_000,
            history_events_max: 65_536,
            history_bytes_max: 32 << 20,
            watch_streams_max: 10_000,
            bookmark_every: Duration::from_secs(10),
            tree_bytes_max: Limits::default().tree_bytes_max,
            requires_authentication: false,
            unprotected: None,
            priority: Self::DEFAULT_PRIORITY,
            backup_expected_every: None,
            durable_hold_alarm_after: Duration::from_hours(7 * 24),
        }
    }
}
