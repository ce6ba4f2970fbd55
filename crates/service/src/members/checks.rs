//! Checks of a change of the members before it is proposed. They refuse what would lose the quorum.
//!
//! The leader checks the quorum again before it changes the voters, because nodes may fail in between.

use std::collections::BTreeSet;

use holdfast_types::NodeId;

use crate::request::Failure;

/// What the checks read: who votes, and which nodes work.
#[derive(Clone, Debug, Default)]
pub(crate) struct VotersView {
    pub(crate) voters: BTreeSet<NodeId>,
    /// Nodes that replied, have a leader and have not failed.
    pub(crate) healthy: BTreeSet<NodeId>,
}

/// The effect of a change on the voters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VoterChange {
    Add,
    Replace(NodeId),
    Remove(NodeId),
}

impl VotersView {
    /// # Errors
    /// [`Failure::UnsafeChange`] if the change would lose the quorum, or tolerate fewer failures.
    pub(crate) fn check(&self, change: VoterChange, force: bool) -> Result<(), Failure> {
        let leaving = match change {
            VoterChange::Add => None,
            VoterChange::Replace(node) | VoterChange::Remove(node) => Some(node),
        };
        let mut after = self.voters.clone();
        if let Some(node) = leaving {
            after.remove(&node);
        }
        // A new voter has the whole log, and works, before it gets its vote.
        let added = usize::from(!matches!(change, VoterChange::Remove(_)));
        let (count, healthy) =
            (after.len() + added, after.intersection(&self.healthy).count() + added);
        if count == 0 {
            let detail = "the cluster would have no voter: add another one first".to_owned();
            return Err(Failure::UnsafeChange { detail, can_be_forced: false });
        }
        if healthy <= count / 2 {
            let silent = list(after.difference(&self.healthy));
            let detail = format!(
                "of {count} voters after the change, {healthy} work, and {} are needed: restart {silent} first",
                count / 2 + 1
            );
            return Err(Failure::UnsafeChange { detail, can_be_forced: false });
        }
        let tolerated = |voters: usize| voters.saturating_sub(1) / 2;
        let (before, now) = (tolerated(self.voters.len()), tolerated(count));
        if now < before && !force {
            let detail = format!(
                "{count} voters survive the loss of {now}, and the {} of today the loss of {before}: force the change if this is \
                 intended",
                self.voters.len()
            );
            return Err(Failure::UnsafeChange { detail, can_be_forced: true });
        }
        Ok(())
    }
}

fn list<'a>(nodes: impl Iterator<Item = &'a NodeId>) -> String {
    nodes.map(|node| format!("node {node}")).collect::<Vec<_>>().join(" and ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(voters: &[u64], healthy: &[u64]) -> VotersView {
        let set = |ids: &[u64]| ids.iter().copied().map(NodeId).collect();
        VotersView { voters: set(voters), healthy: set(healthy) }
    }

    fn refused(view: &VotersView, change: VoterChange) -> Option<(bool, String)> {
        checked(view, change, false)
    }

    fn checked(view: &VotersView, change: VoterChange, force: bool) -> Option<(bool, String)> {
        match view.check(change, force) {
            Ok(()) => None,
            Err(Failure::UnsafeChange { detail, can_be_forced }) => Some((can_be_forced, detail)),
            Err(other) => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_healthy_cluster_may_grow_and_replace() {
        let healthy = view(&[1, 2, 3], &[1, 2, 3]);
        assert_eq!(refused(&healthy, VoterChange::Add), None);
        assert_eq!(refused(&healthy, VoterChange::Replace(NodeId(3))), None);
        assert_eq!(refused(&view(&[1], &[1]), VoterChange::Add), None);
    }

    /// A dead voter of three can be replaced. A fourth voter can be added too: three of the four then work.
    #[test]
    fn a_dead_voter_is_replaced() {
        let one_dead = view(&[1, 2, 3], &[1, 2]);
        assert_eq!(refused(&one_dead, VoterChange::Replace(NodeId(3))), None);
        assert_eq!(refused(&one_dead, VoterChange::Add), None);
        let (_, detail) =
            refused(&view(&[1, 2, 3], &[1, 3]), VoterChange::Remove(NodeId(3))).unwrap();
        assert!(detail.contains("node 2"), "{detail}");
    }

    #[test]
    fn a_change_that_would_lose_the_quorum_is_refused_even_with_force() {
        let one_dead = view(&[1, 2, 3], &[1, 2]);
        let lost = checked(&one_dead, VoterChange::Remove(NodeId(2)), true).unwrap();
        assert!(!lost.0, "{lost:?}");
    }

    #[test]
    fn the_only_voter_stays() {
        let (can_be_forced, detail) =
            checked(&view(&[1], &[1]), VoterChange::Remove(NodeId(1)), true).unwrap();
        assert_eq!((can_be_forced, detail.contains("no voter")), (false, true));
    }

    #[test]
    fn a_change_that_tolerates_fewer_failures_needs_force() {
        for (voters, node) in [(&[1, 2, 3][..], 3), (&[1, 2, 3, 4, 5], 1)] {
            let healthy = view(voters, voters);
            let (can_be_forced, detail) =
                refused(&healthy, VoterChange::Remove(NodeId(node))).unwrap();
            assert!(can_be_forced && detail.contains("survive"), "{detail}");
            assert_eq!(checked(&healthy, VoterChange::Remove(NodeId(node)), true), None);
        }
        let four = view(&[1, 2, 3, 4], &[1, 2, 3, 4]);
        assert_eq!(refused(&four, VoterChange::Remove(NodeId(4))), None);
    }
}
