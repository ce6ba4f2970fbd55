//! Warnings in the log: once when the bytes that clients have stored reach [`WARN_PERCENT`] of `tree_bytes_max`, and once
//! when a subtree of znodes grows above a soft limit of its quota.
//!
//! The next warning about the bytes requires that they fall below [`REARM_PERCENT`] first, so a value that varies around the
//! threshold causes one warning.

use std::sync::atomic::{AtomicBool, Ordering};

use holdfast_machine::Machine;
use holdfast_types::{SubtreeQuotaView, ZnodePath};

/// Percent of the bound at which a node logs the warning.
const WARN_PERCENT: u64 = 80;
/// Percent of the bound below which the next warning is armed.
const REARM_PERCENT: u64 = 75;

#[derive(Debug, Default)]
pub(crate) struct StoredBytesWarning {
    warned: AtomicBool,
}

impl StoredBytesWarning {
    pub(crate) fn check(&self, machine: &Machine) {
        let (used, max) = (machine.counts().tree_bytes, machine.limits().tree_bytes_max);
        if self.crosses(used, max) {
            tracing::warn!(
                used,
                limit = max,
                "clients have stored {WARN_PERCENT} % of limits.tree_bytes_max; at the limit, writes that store more \
                 are rejected with quota-exceeded. Delete nodes or sessions, or raise the limit on all nodes if their \
                 memory allows it"
            );
        }
    }

    /// Returns true once per crossing.
    fn crosses(&self, used: u64, max: u64) -> bool {
        let reaches =
            |percent: u64| u128::from(used) * 100 >= u128::from(max) * u128::from(percent);
        if reaches(WARN_PERCENT) {
            return !self.warned.swap(true, Ordering::Relaxed);
        }
        if !reaches(REARM_PERCENT) {
            self.warned.store(false, Ordering::Relaxed);
        }
        false
    }
}

/// Logs that a subtree has crossed a soft limit.
pub(crate) fn soft_limit_crossed(machine: &Machine, path: &ZnodePath) {
    let Some(quota) = machine.subtree_quota(path) else { return };
    let SubtreeQuotaView { path, limits, used_znodes, used_bytes } = quota;
    tracing::warn!(
        %path,
        used_znodes,
        soft_znodes = limits.soft_znodes,
        used_bytes,
        soft_bytes = limits.soft_bytes,
        "the subtree is above a soft limit of its quota; writes continue up to the hard limits. Delete znodes, or raise the \
         limit with holdfast tree quota set"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_crossing_warns_once_and_variation_around_the_threshold_is_one_crossing() {
        let stored_bytes_warning = StoredBytesWarning::default();
        let warned = [79, 80, 90, 79, 75, 80, 100, 74, 79, 81]
            .map(|used| stored_bytes_warning.crosses(used, 100));
        let expected = [false, true, false, false, false, false, false, false, false, true];
        assert_eq!(warned, expected);
        assert!(StoredBytesWarning::default().crosses(u64::MAX, u64::MAX), "no overflow");
    }
}
