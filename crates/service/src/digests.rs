//! The digests that this node keeps, by which nodes find that they have diverged.
//!
//! All nodes apply the same entries, so they record the digests of entries at the same revisions. For `holdfast cluster verify`,
//! each takes a copy of its whole state after the same entry, and a thread hashes the copy.
//!
//! Bounds: the last [`DIGESTS_MAX`] digests of entries at fixed revisions, for nodes that are far apart, and those of the last
//! [`RECENT_MAX`] entries, for a node that starts; [`STATE_DIGESTS_MAX`] digests of states, and [`RUNNING_MAX`] threads. A further
//! request has no digest.

pub(crate) mod entry_check;
pub(crate) mod verification;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use holdfast_machine::Machine;
use holdfast_types::{Applied, Event, Revision};
use parking_lot::Mutex;
use tokio::sync::Semaphore;

/// A digest is kept at the first entry that reaches the next multiple of this many revisions.
const DIGEST_INTERVAL: u64 = 1_024;
/// The maximum number of digests at fixed revisions: enough for nodes up to 65,536 revisions apart.
const DIGESTS_MAX: usize = 64;
/// The maximum number of digests of the last entries.
const RECENT_MAX: usize = 256;

/// A digest at a revision.
pub(crate) type DigestAt = (Revision, u64);

/// Whether the state of this node was compared with the other nodes since its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StateCheck {
    /// The node does not serve clients yet.
    Pending,
    /// The node serves clients; a majority did not confirm its state yet.
    Unverified,
    Verified,
}

#[derive(Debug, Default)]
pub(crate) struct DigestLog {
    fixed: VecDeque<DigestAt>,
    recent: VecDeque<DigestAt>,
    bucket: u64,
}

impl DigestLog {
    pub(crate) fn record(&mut self, revision: Revision, digest: u64) {
        push(&mut self.recent, RECENT_MAX, (revision, digest));
        let bucket = revision.0 / DIGEST_INTERVAL;
        if bucket != self.bucket {
            self.bucket = bucket;
            push(&mut self.fixed, DIGESTS_MAX, (revision, digest));
        }
    }

    /// Records the state at the start of the node, unless it has applied an entry since.
    pub(crate) fn start(&mut self, revision: Revision, digest: u64) {
        if self.recent.is_empty() {
            self.restart(revision, digest);
        }
    }

    /// Continues with a loaded state. The next fixed digest is at a revision at which the other nodes also record one.
    pub(crate) fn restart(&mut self, revision: Revision, digest: u64) {
        self.bucket = revision.0 / DIGEST_INTERVAL;
        self.recent.clear();
        self.recent.push_back((revision, digest));
    }

    /// All digests, the oldest first.
    pub(crate) fn list(&self) -> Vec<DigestAt> {
        let all: BTreeMap<Revision, u64> = self.fixed.iter().chain(&self.recent).copied().collect();
        all.into_iter().collect()
    }
}

fn push(digests: &mut VecDeque<DigestAt>, most: usize, digest: DigestAt) {
    if digests.len() == most {
        digests.pop_front();
    }
    digests.push_back(digest);
}

const STATE_DIGESTS_MAX: usize = 8;
const RUNNING_MAX: usize = 2;

#[derive(Debug)]
pub(crate) struct StateDigests {
    /// By the revisions of the commands that requested them, oldest first.
    computed: Arc<Mutex<VecDeque<(Revision, u64)>>>,
    /// A permit for each thread.
    threads: Arc<Semaphore>,
}

impl StateDigests {
    pub(crate) fn new() -> Self {
        Self { computed: Arc::default(), threads: Arc::new(Semaphore::new(RUNNING_MAX)) }
    }

    /// Runs inside the apply step.
    pub(crate) fn on_applied(&self, machine: &Machine, applied: &Applied) {
        for (revision, event) in &applied.events {
            if *event == Event::VerifyState {
                self.compute(*revision, machine.clone());
            }
        }
    }

    pub(crate) fn get(&self, requested_in: Revision) -> Option<u64> {
        let computed = self.computed.lock();
        computed.iter().find(|(revision, _)| *revision == requested_in).map(|(_, digest)| *digest)
    }

    fn compute(&self, requested_in: Revision, machine: Machine) {
        let Ok(permit) = self.threads.clone().try_acquire_owned() else { return };
        let computed = self.computed.clone();
        let named = std::thread::Builder::new().name("state-digest".to_owned());
        let spawned = named.spawn(move || {
            let _permit = permit;
            let digest = machine.state_digest();
            let mut computed = computed.lock();
            computed.push_back((requested_in, digest));
            if computed.len() > STATE_DIGESTS_MAX {
                computed.pop_front();
            }
        });
        if let Err(error) = spawned {
            tracing::warn!(%error, "cannot start the thread that computes the digest of the state");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_kept_at_fixed_revisions_and_after_the_last_entries() {
        let mut digests = DigestLog::default();
        let last = 200 * DIGEST_INTERVAL - 1;
        for revision in 0..=last {
            digests.record(Revision(revision), revision);
        }
        let all = digests.list();
        assert_eq!(all.len(), DIGESTS_MAX + RECENT_MAX);
        assert!(all.is_sorted());
        let (fixed, recent) = all.split_at(DIGESTS_MAX);
        assert!(fixed.iter().all(|(revision, _)| revision.0 % DIGEST_INTERVAL == 0));
        assert_eq!(recent[RECENT_MAX - 1].0, Revision(last));
    }

    #[test]
    fn after_a_snapshot_the_next_digest_is_at_a_fixed_revision() {
        let mut digests = DigestLog::default();
        let start = (Revision(3 * DIGEST_INTERVAL + 17), 1);
        digests.restart(start.0, start.1);
        assert_eq!(digests.list(), [start]);
        for entry in 0..=RECENT_MAX as u64 {
            digests.record(Revision(4 * DIGEST_INTERVAL + entry), entry);
        }
        let kept = digests.list();
        assert_eq!(kept.first(), Some(&(Revision(4 * DIGEST_INTERVAL), 0)));
        assert_eq!(kept.len(), RECENT_MAX + 1);
    }
}
