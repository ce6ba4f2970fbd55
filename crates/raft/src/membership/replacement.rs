//! The automatic replacement of a voter that does not answer by a standby.
//!
//! A cluster without a standby replaces nothing. The functions are pure. The leader proposes one replacement at a time, and
//! the number of voters stays the same: more voters would need a larger quorum, and fewer would survive fewer failures.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use holdfast_types::{Member, NodeId, Stamp, VotingRole};

use super::plan::RaftView;

/// After a replacement, the leader waits this long before the next one. A fault that hits one voter after another needs an
/// operator.
const PAUSE_MS: u64 = 3_600_000;

/// A member that gets the vote of another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct VoterReplacement {
    pub(super) node: NodeId,
    pub(super) replaces: NodeId,
}

/// The facts that a replacement depends on.
#[derive(Clone, Debug)]
pub(super) struct ReplacementFacts<'a> {
    pub(super) members: &'a [(NodeId, Member)],
    pub(super) view: &'a RaftView,
    /// How long each unhealthy node has been silent for this leader.
    pub(super) silent: BTreeMap<NodeId, Duration>,
    /// The time of the last replacement of a member, and now.
    pub(super) replaced_at: Option<Stamp>,
    pub(super) now: Stamp,
}

impl ReplacementFacts<'_> {
    /// The replacement of the only silent voter, if it has been silent for `after`. `None` if a second voter is silent:
    /// then the network is the likelier cause.
    pub(super) fn choose(&self, after: Duration) -> Option<VoterReplacement> {
        let [voters] = self.view.voters.as_slice() else { return None };
        let unhealthy: BTreeSet<NodeId> = voters.difference(&self.view.healthy).copied().collect();
        let [replaces] = unhealthy.into_iter().collect::<Vec<_>>()[..] else { return None };
        let is_paused =
            self.replaced_at.is_some_and(|at| self.now.0 < at.0.saturating_add(PAUSE_MS));
        if is_paused || self.silent.get(&replaces).is_none_or(|silent| *silent < after) {
            return None;
        }
        let zone = self.member(replaces)?.zone.as_ref();
        let standbys = self.members.iter().filter(|(node, member)| {
            member.role == VotingRole::Standby && self.view.caught_up.contains(node)
        });
        // A standby in the zone of the voter keeps the voters as far apart as they were.
        let best = standbys.min_by_key(|(node, member)| (member.zone.as_ref() != zone, *node));
        best.map(|(node, _)| VoterReplacement { node: *node, replaces })
    }

    fn member(&self, node: NodeId) -> Option<&Member> {
        self.members.iter().find(|(id, _)| *id == node).map(|(_, member)| member)
    }
}

#[cfg(test)]
mod tests {
    use holdfast_types::Zone;

    use super::*;

    const AFTER: Duration = Duration::from_mins(10);

    fn ids(ids: &[u64]) -> BTreeSet<NodeId> {
        ids.iter().copied().map(NodeId).collect()
    }

    /// Node 1 leads, node 3 is silent, and the standbys are in other zones but the last one.
    fn members() -> Vec<(NodeId, Member)> {
        let member = |id: u64, role| {
            let zone = if id == 3 || id == 6 { "b" } else { "a" };
            let zone = Some(Zone::new(zone).unwrap());
            (NodeId(id), Member { role, zone, ..Member::INITIAL })
        };
        let voters = (1..=3).map(|id| member(id, VotingRole::Voter));
        let learner = member(4, VotingRole::Learner);
        let standbys = [5, 6].map(|id| member(id, VotingRole::Standby));
        voters.chain([learner]).chain(standbys).collect()
    }

    fn view() -> RaftView {
        RaftView {
            own: NodeId(1),
            voters: vec![ids(&[1, 2, 3])],
            nodes: ids(&[1, 2, 3, 4, 5, 6]),
            healthy: ids(&[1, 2, 4, 5, 6]),
            caught_up: ids(&[2, 4, 5, 6]),
        }
    }

    fn facts<'a>(members: &'a [(NodeId, Member)], view: &'a RaftView) -> ReplacementFacts<'a> {
        let silent = BTreeMap::from([(NodeId(3), AFTER)]);
        ReplacementFacts { members, view, silent, replaced_at: None, now: Stamp(PAUSE_MS * 2) }
    }

    fn replacement(node: u64) -> VoterReplacement {
        VoterReplacement { node: NodeId(node), replaces: NodeId(3) }
    }

    #[test]
    fn the_caught_up_standby_of_the_same_zone_replaces_a_silent_voter() {
        let (members, mut view) = (members(), view());
        assert_eq!(facts(&members, &view).choose(AFTER), Some(replacement(6)));
        view.caught_up = ids(&[2, 4, 5]);
        assert_eq!(facts(&members, &view).choose(AFTER), Some(replacement(5)));
        // A learner is no standby.
        view.caught_up = ids(&[2, 4]);
        assert_eq!(facts(&members, &view).choose(AFTER), None);
    }

    #[test]
    fn a_voter_is_not_replaced_early_nor_soon_after_another_one() {
        let (members, view) = (members(), view());
        assert_eq!(facts(&members, &view).choose(AFTER + Duration::from_millis(1)), None);
        let mut paused = facts(&members, &view);
        paused.replaced_at = Some(Stamp(PAUSE_MS + 1));
        assert_eq!(paused.choose(AFTER), None);
        paused.replaced_at = Some(Stamp(PAUSE_MS));
        assert_eq!(paused.choose(AFTER), Some(replacement(6)));
    }

    #[test]
    fn nothing_is_replaced_if_no_voter_or_two_are_silent_or_the_voters_change() {
        let members = members();
        let mut two = view();
        two.healthy.remove(&NodeId(2));
        assert_eq!(facts(&members, &two).choose(AFTER), None);
        let mut none = view();
        none.healthy.insert(NodeId(3));
        assert_eq!(facts(&members, &none).choose(AFTER), None);
        let mut joint = view();
        joint.voters.push(ids(&[1, 2, 5]));
        assert_eq!(facts(&members, &joint).choose(AFTER), None);
    }
}
