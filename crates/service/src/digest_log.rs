//! The digests that this node recorded. All nodes apply the same entries, so they record at the same revisions.
//!
//! Bound: the last [`DIGESTS_MAX`] digests.

use std::collections::VecDeque;

use holdfast_types::Revision;

/// A digest is recorded at the first entry that reaches the next multiple of this many revisions.
const DIGEST_INTERVAL: u64 = 1_024;
/// The maximum number of recorded digests: enough for nodes up to 65,536 revisions apart.
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

    /// Skips entries, so that the next digest is at a revision at which the other nodes also record one.
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
    fn digests_are_recorded_at_fixed_revisions_and_bounded() {
        let mut digests = DigestLog::default();
        for revision in 0..200 * DIGEST_INTERVAL {
            digests.record(Revision(revision), || revision);
        }
        assert_eq!(digests.list().len(), DIGESTS_MAX);
        assert!(digests.list().iter().all(|(revision, _)| revision.0 % DIGEST_INTERVAL == 0));
    }

    #[test]
    fn after_a_snapshot_the_next_digest_is_at_a_fixed_revision() {
        let mut digests = DigestLog::default();
        digests.skip_to(Revision(3 * DIGEST_INTERVAL + 17));
        digests.record(Revision(3 * DIGEST_INTERVAL + 18), || 1);
        assert_eq!(digests.list(), []);
        digests.record(Revision(4 * DIGEST_INTERVAL), || 2);
        assert_eq!(digests.list(), [(Revision(4 * DIGEST_INTERVAL), 2)]);
    }
}
