//! The counters of the crate, from the start of the process.

use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn add(&self, n: usize) {
        self.0.fetch_add(n as u64, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) proposed_entries: Count,
    pub(crate) proposed_commands: Count,
    pub(crate) forwarded_batches: Count,
    pub(crate) forwarded_commands: Count,
    pub(crate) unknown_outcomes: Count,
    pub(crate) read_rounds: Count,
    pub(crate) reads: Count,
    pub(crate) applied_entries: Count,
    pub(crate) applied_commands: Count,
    pub(crate) snapshots_built: Count,
    pub(crate) snapshots_installed: Count,
    pub(crate) snapshots_refused: Count,
}

/// The values of all counters at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RaftCounts {
    /// Log entries with commands that this node proposed as the leader.
    pub proposed_entries: u64,
    /// Commands that this node proposed as the leader.
    pub proposed_commands: u64,
    /// Batches that this node forwarded to the leader.
    pub forwarded_batches: u64,
    /// Commands that this node forwarded to the leader.
    pub forwarded_commands: u64,
    /// Commands with an unknown outcome.
    pub unknown_outcomes: u64,
    /// Rounds that confirmed a leader for the read barrier.
    pub read_rounds: u64,
    /// Reads, renewals and read indexes that these rounds served.
    pub reads: u64,
    /// Applied log entries, including those that a restart applied again.
    pub applied_entries: u64,
    /// Commands in applied log entries.
    pub applied_commands: u64,
    pub snapshots_built: u64,
    /// Installed snapshots, including the one that a restart loaded.
    pub snapshots_installed: u64,
    /// Snapshots of peers that were damaged or could not be loaded.
    pub snapshots_refused: u64,
}

impl Counters {
    pub(crate) fn read(&self) -> RaftCounts {
        RaftCounts {
            proposed_entries: self.proposed_entries.get(),
            proposed_commands: self.proposed_commands.get(),
            forwarded_batches: self.forwarded_batches.get(),
            forwarded_commands: self.forwarded_commands.get(),
            unknown_outcomes: self.unknown_outcomes.get(),
            read_rounds: self.read_rounds.get(),
            reads: self.reads.get(),
            applied_entries: self.applied_entries.get(),
            applied_commands: self.applied_commands.get(),
            snapshots_built: self.snapshots_built.get(),
            snapshots_installed: self.snapshots_installed.get(),
            snapshots_refused: self.snapshots_refused.get(),
        }
    }
}
