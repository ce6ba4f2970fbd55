//! The settings of a node's service.

use std::time::Duration;

use holdfast_types::Limits;

use crate::hold_history::HistoryBounds;

/// The service's tunables.
#[derive(Clone, Debug)]
pub struct ServiceConfig {
    /// The longest wait of one acquire.
    pub wait_max: Duration,
    /// Callers parked on this node at most.
    pub waiters_max: usize,
    /// How long a write or a linearizable read may take before the answer is `OutcomeUnknown` or `NoLeader`.
    pub request_timeout: Duration,
    /// How often the leader looks for leases that ran out.
    pub tick: Duration,
    /// How much later than asked the leader ends a wait that the caller's own node did not end.
    pub wait_grace: Duration,
    /// Empty lock directories stay at least this long.
    pub container_idle: Duration,
    /// Streams on this node at most.
    pub streams_max: usize,
    /// Watches of all streams of this node at most.
    pub watches_max: usize,
    /// How long a client that has seen more than this node has applied is made to wait.
    pub catch_up_max: Duration,
    /// Sessions whose clients ask for news with their keepalives, at most.
    pub listeners_max: usize,
    /// Holds that are over, kept in this node's history.
    pub past_holds: HistoryBounds,
    /// Changes remembered for those who watch from a revision on.
    pub history_events_max: usize,
    /// Bytes of them.
    pub history_bytes_max: usize,
    /// Who follows the changes of this node at once, at most.
    pub watch_streams_max: usize,
    /// How often a follower to whom nothing happens is told up to where.
    pub bookmark_every: Duration,
    /// Bytes that clients may store in the cluster. A leader writes its own value into the replicated limits.
    pub tree_bytes_max: u64,
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
            streams_max: 20_000,
            watches_max: 4_000_000,
            catch_up_max: Duration::from_secs(3),
            listeners_max: 20_000,
            past_holds: HistoryBounds { holds_max: 100_000, per_lock_max: 1_000 },
            history_events_max: 65_536,
            history_bytes_max: 32 << 20,
            watch_streams_max: 10_000,
            bookmark_every: Duration::from_secs(10),
            tree_bytes_max: Limits::default().tree_bytes_max,
        }
    }
}
