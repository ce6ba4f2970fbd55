//! The metrics of the log of this node, counted from the start of the process.

use holdfast_storage::LATENCY_BUCKETS;
use holdfast_types::NodeId;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// A histogram for each peer.
type PeerSeconds = Family<[(&'static str, u64); 1], Histogram, fn() -> Histogram>;

/// Handles to the metrics; clones share them.
#[derive(Clone, Debug)]
pub struct RaftMetrics {
    /// Log entries with commands that this node proposed as the leader.
    pub entries_proposed: Counter,
    /// Commands that this node proposed as the leader.
    pub commands_proposed: Counter,
    /// Batches that this node forwarded to the leader.
    pub batches_forwarded: Counter,
    /// Commands that this node forwarded to the leader.
    pub commands_forwarded: Counter,
    /// Commands with an unknown outcome.
    pub outcomes_unknown: Counter,
    /// Rounds that confirmed a leader for the read barrier.
    pub read_rounds: Counter,
    /// Reads, renewals and read indexes that these rounds served.
    pub reads: Counter,
    /// Applied log entries, including those that a restart applied again.
    pub entries_applied: Counter,
    /// Commands in applied log entries.
    pub commands_applied: Counter,
    /// Leaders and terms that this node has followed, including the first.
    pub leader_changes: Counter,
    pub snapshots_built: Counter,
    /// Installed snapshots, including the one that a restart loaded.
    pub snapshots_installed: Counter,
    /// Snapshots of peers that were damaged or could not be loaded.
    pub snapshots_refused: Counter,
    /// The time from the proposal of an entry by this node as the leader to its application.
    pub commit_seconds: Histogram,
    /// The time that this node took to apply an entry, including its notifications.
    pub apply_seconds: Histogram,
    /// The time of a command in the queue of the proposer, until its batch leaves.
    pub propose_wait_seconds: Histogram,
    /// The time from a heartbeat of this node as the leader to the reply of the peer.
    peer_round_trip_seconds: PeerSeconds,
    /// The time to write a snapshot to the disk.
    pub snapshot_seconds: Histogram,
    /// The bytes of the current snapshot; 0 without one.
    pub snapshot_bytes: Gauge,
    /// When the last scrub ended without damage, seconds since 1970; 0 before the first.
    pub last_scrub: Gauge,
}

impl Default for RaftMetrics {
    fn default() -> Self {
        Self {
            entries_proposed: Counter::default(),
            commands_proposed: Counter::default(),
            batches_forwarded: Counter::default(),
            commands_forwarded: Counter::default(),
            outcomes_unknown: Counter::default(),
            read_rounds: Counter::default(),
            reads: Counter::default(),
            entries_applied: Counter::default(),
            commands_applied: Counter::default(),
            leader_changes: Counter::default(),
            snapshots_built: Counter::default(),
            snapshots_installed: Counter::default(),
            snapshots_refused: Counter::default(),
            commit_seconds: latency(),
            apply_seconds: latency(),
            propose_wait_seconds: latency(),
            peer_round_trip_seconds: Family::new_with_constructor(latency),
            snapshot_seconds: latency(),
            snapshot_bytes: Gauge::default(),
            last_scrub: Gauge::default(),
        }
    }
}

fn latency() -> Histogram {
    Histogram::new(LATENCY_BUCKETS)
}

impl RaftMetrics {
    /// The round trips to a peer.
    pub(crate) fn peer_round_trip_seconds(&self, peer: NodeId) -> Histogram {
        self.peer_round_trip_seconds.get_or_create(&[("node", peer.0)]).clone()
    }

    /// Registers the metrics; the registry adds the prefix.
    pub(crate) fn register(&self, registry: &mut Registry) {
        let metrics = [
            (
                "raft_entries_proposed",
                "Raft log entries proposed by this node as leader",
                &self.entries_proposed,
            ),
            (
                "raft_commands_proposed",
                "Commands in Raft log entries proposed by this node as leader",
                &self.commands_proposed,
            ),
            (
                "raft_batches_forwarded",
                "Batches of commands that this node forwarded to the leader",
                &self.batches_forwarded,
            ),
            (
                "raft_commands_forwarded",
                "Commands that this node forwarded to the leader",
                &self.commands_forwarded,
            ),
            (
                "raft_outcomes_unknown",
                "Commands with an unknown outcome, e.g. after a lost reply of the leader",
                &self.outcomes_unknown,
            ),
            (
                "raft_read_rounds",
                "Quorum rounds that confirmed the leadership for reads and renewals",
                &self.read_rounds,
            ),
            ("raft_reads", "Reads and renewals served by quorum rounds", &self.reads),
            (
                "raft_entries_applied",
                "Raft log entries applied by this node",
                &self.entries_applied,
            ),
            ("raft_commands_applied", "Commands applied by this node", &self.commands_applied),
            (
                "raft_leader_changes",
                "Changes of the leader or its term seen by this node, including the first after its start",
                &self.leader_changes,
            ),
            ("snapshots_built", "Snapshots built by this node", &self.snapshots_built),
            (
                "snapshots_installed",
                "Snapshots installed by this node, including the one loaded at its start",
                &self.snapshots_installed,
            ),
            (
                "snapshots_refused",
                "Snapshots of other nodes that this node rejected as damaged or unreadable",
                &self.snapshots_refused,
            ),
        ];
        for (name, help, counter) in metrics {
            registry.register(name, help, counter.clone());
        }
        self.register_durations(registry);
    }

    fn register_durations(&self, registry: &mut Registry) {
        let help = "Seconds from the proposal of a Raft log entry by the leader to its application";
        registry.register("raft_commit_seconds", help, self.commit_seconds.clone());
        let help = "Seconds that this node took to apply a Raft log entry";
        registry.register("raft_apply_seconds", help, self.apply_seconds.clone());
        let help =
            "Seconds that a command waited on this node until its batch was appended or forwarded";
        registry.register("raft_propose_wait_seconds", help, self.propose_wait_seconds.clone());
        let help = "Seconds from a heartbeat to the reply of a follower; only on the leader";
        registry.register(
            "raft_peer_round_trip_seconds",
            help,
            self.peer_round_trip_seconds.clone(),
        );
        let help = "Seconds that this node took to write a snapshot";
        registry.register("snapshot_seconds", help, self.snapshot_seconds.clone());
        let help = "Bytes of the current snapshot of this node";
        registry.register("snapshot_bytes", help, self.snapshot_bytes.clone());
        let help = "When the last scrub of this node ended without damage, 0 before the first";
        registry.register("last_scrub_timestamp_seconds", help, self.last_scrub.clone());
    }
}
