//! The digests that this node recorded. Every node sees the same entries, so all nodes record at the same revisions.
//!
//! Bound: the last [`DIGESTS_MAX`] digests.

use std::collections::VecDeque;

use holdfast_types::Revision;

/// A digest is recorded at the first entry that reaches a further multiple of this many revisions.
const DIGEST_INTERVAL: u64 = 1_024;
/// Recorded digests: enough for nodes some tens of thousands of revisions apart.
const DIGESTS_MAX: usize = 64;

/// A digest at a revision.
pub(crate) type DigestAt = (Revision, u64);

#[derive(Debug, Default)]
pub(crate) struct DigestLog {
    last: VecDeque<DigestAt>,
    bucket: u64,
}

impl DigestLog {
    /// Records the digest of the first entry in each [`DIGEST_INTERVAL`].
    pub(crate) fn record(&mut self, revision: Revision, digest: impl FnOnce() -> u64) {
        if revision.0 / DIGEST_INTERVAL == self.bucket {
            return;
        }
        self.bucket = revision.0 / DIGEST_INTERVAL;
        if self.last.len() == DIGESTS_MAX {
            self.last.pop_front();
        }
        self.last.push_back((revision, digest()));
    }

    /// Entries were skipped: the next digest must be one that the other nodes record too.
    pub(crate) fn skip_to(&mut self, revision: Revision) {
        self.bucket = revision.0 / DIGEST_INTERVAL;
    }

    pub(crate) fn list(&self) -> Vec<DigestAt> {
        self.last.iter().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_taken_at_the_same_points_and_bounded() {
        let mut digests = DigestLog::default();
        for revision in 0..200 * DIGEST_INTERVAL {
            digests.record(Revision(revision), || revision);
        }
        assert_eq!(digests.list().len(), DIGESTS_MAX);
        assert!(digests.list().iter().all(|(revision, _)| revision.0 % DIGEST_INTERVAL == 0));
    }

    #[test]
    fn after_a_snapshot_the_next_note_is_one_that_the_others_take() {
        let mut digests = DigestLog::default();
        digests.skip_to(Revision(3 * DIGEST_INTERVAL + 17));
        digests.record(Revision(3 * DIGEST_INTERVAL + 18), || 1);
        assert_eq!(digests.list(), []);
        digests.record(Revision(4 * DIGEST_INTERVAL), || 2);
        assert_eq!(digests.list(), [(Revision(4 * DIGEST_INTERVAL), 2)]);
    }
}
