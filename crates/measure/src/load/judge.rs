//! Checks during a load that a lock has one holder and that its tokens grow.
//!
//! A hold lasts from the reply that grants the lock to the sending of the release, so reordering in the network is no
//! violation. After a call with an unknown outcome, the next grant may repeat an earlier one, and a late copy of the
//! release may end it. Such a grant may therefore have the newest token again, and may overlap with another hold.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The newest token, the holder and the violations of one lock.
#[derive(Debug, Default)]
pub struct LoadJudge {
    newest: AtomicU64,
    held: AtomicBool,
    violations: AtomicU64,
}

impl LoadJudge {
    /// Records a grant. `repeated`: the client's last call has an unknown outcome, so the client may have received this
    /// grant before. A lock without tokens repeats no grants.
    pub fn granted(&self, token: Option<u64>, repeated: bool) {
        let has_grown = token.is_none_or(|token| {
            let before = self.newest.fetch_max(token, Ordering::SeqCst);
            token > before || (repeated && token == before)
        });
        let is_alone = !self.held.swap(true, Ordering::SeqCst) || (repeated && token.is_some());
        if !has_grown || !is_alone {
            self.violations.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Records that the client is about to send the release.
    pub fn releasing(&self) {
        self.held.store(false, Ordering::SeqCst);
    }

    pub fn violations(&self) -> u64 {
        self.violations.load(Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growing_tokens_and_one_holder_are_no_violation() {
        let judge = LoadJudge::default();
        for token in [1, 2, 10] {
            judge.granted(Some(token), false);
            judge.releasing();
        }
        assert_eq!(judge.violations(), 0);
    }

    #[test]
    fn a_token_that_does_not_grow_is_a_violation() {
        let judge = LoadJudge::default();
        judge.granted(Some(2), false);
        judge.releasing();
        judge.granted(Some(2), false);
        assert_eq!(judge.violations(), 1);
    }

    #[test]
    fn two_holders_are_a_violation() {
        let judge = LoadJudge::default();
        judge.granted(Some(1), false);
        judge.granted(Some(2), false);
        assert_eq!(judge.violations(), 1);
    }

    #[test]
    fn the_same_grant_may_be_received_twice_after_a_lost_reply() {
        let judge = LoadJudge::default();
        judge.granted(Some(1), false);
        judge.granted(Some(1), true);
        assert_eq!(judge.violations(), 0);
        judge.granted(Some(0), true);
        assert_eq!(judge.violations(), 1);
    }
}
