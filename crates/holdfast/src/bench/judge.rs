//! Checks, while everything is measured, that each lock has one holder and that its tokens only grow.
//!
//! Everything is judged between an answer that said "granted" and the sending of the release, so nothing that the
//! network reorders can look like a violation. A hold whose release may not have arrived, or whose grant may be a
//! renewal, is excused from the rules that it cannot be held to.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What is known of one lock.
#[derive(Debug, Default)]
pub(super) struct Judge {
    newest: AtomicU64,
    held: AtomicBool,
    violations: AtomicU64,
}

impl Judge {
    /// A client was told that it holds the lock. `repeated`: it asks again after a call whose outcome it does not
    /// know, so that the grant may be one it has had before.
    pub(super) fn granted(&self, token: u64, repeated: bool) {
        let before = self.newest.fetch_max(token, Ordering::SeqCst);
        let grew = token > before || (repeated && token == before);
        let alone = !self.held.swap(true, Ordering::SeqCst) || repeated;
        if !grew || !alone {
            self.violations.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// The client is about to give the lock back.
    pub(super) fn releasing(&self) {
        self.held.store(false, Ordering::SeqCst);
    }

    /// How often a rule was broken.
    pub(super) fn violations(&self) -> u64 {
        self.violations.load(Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growing_tokens_and_one_holder_are_lawful() {
        let judge = Judge::default();
        for token in [1, 2, 10] {
            judge.granted(token, false);
            judge.releasing();
        }
        assert_eq!(judge.violations(), 0);
    }

    #[test]
    fn a_token_that_does_not_grow_is_a_violation() {
        let judge = Judge::default();
        judge.granted(2, false);
        judge.releasing();
        judge.granted(2, false);
        assert_eq!(judge.violations(), 1);
    }

    #[test]
    fn two_holders_are_a_violation() {
        let judge = Judge::default();
        judge.granted(1, false);
        judge.granted(2, false);
        assert_eq!(judge.violations(), 1);
    }

    #[test]
    fn the_same_grant_may_be_heard_twice_after_a_lost_answer() {
        let judge = Judge::default();
        judge.granted(1, false);
        judge.granted(1, true);
        assert_eq!(judge.violations(), 0);
        judge.granted(0, true);
        assert_eq!(judge.violations(), 1);
    }
}
