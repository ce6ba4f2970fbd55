//! Checks during a load that a lock has one holder and that its tokens grow.
//!
//! A hold lasts from the reply that grants the lock to the sending of the release, so a reordering in the network cannot
//! look like a violation. After a call with an unknown outcome the next grant may be a renewal, and a late copy of the
//! release may end it; such a grant is excused from the rules that it cannot be held to.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What is known of one lock.
#[derive(Debug, Default)]
pub struct LoadJudge {
    newest: AtomicU64,
    held: AtomicBool,
    violations: AtomicU64,
}

impl LoadJudge {
    /// A client received a grant. `repeated`: it does not know the outcome of its last call, so this may be a grant that
    /// it has received before. A lock without tokens has no such grants.
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

    /// The client is about to send the release.
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
