//! The changes that the leader proposes without an operator: an emptied node returns, and a standby gets the vote of a
//! voter that does not answer.
//!
//! A cluster without a standby replaces no voter, and an emptied node must ask for its return. The functions are pure. The
//! leader proposes one change at a time, while it has a quorum and nothing else is unfinished. Only the cancellation ends an
//! unfinished change. The number of voters stays the
//! same: more voters would need a larger quorum, and fewer would survive fewer failures.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use holdfast_types::{Member, NodeId, PendingChange, SecretHash, Stamp, VotingRole};

use super::plan::RaftView;

/// After a replacement, the leader waits this long before the next one. A fault that hits one voter after another needs an
/// operator.
const PAUSE_MS: u64 = 3_600_000;
/// The node of a member has been silent for this long before an emptied node at its address is invited in its place.
const EMPTIED_SILENCE: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AutomaticChange {
    /// The emptied node of a member joins in the place of the member, with this secret.
    Readmit { member: NodeId, secret: SecretHash },
    /// A readmitted node was emptied again before its change was finished: the change ends, and the node is readmitted.
    Cancel { joiner: NodeId },
    /// A standby gets the vote of a voter.
    Replace { standby: NodeId, voter: NodeId },
}

/// The facts that the changes depend on.
#[derive(Clone, Debug)]
pub(super) struct AutomaticFacts<'a> {
    pub(super) members: &'a [(NodeId, Member)],
    pub(super) view: &'a RaftView,
    /// How long each unhealthy node has been silent for this leader.
    pub(super) silent: BTreeMap<NodeId, Duration>,
    /// The members whose emptied nodes ask for their return.
    pub(super) emptied: Vec<(NodeId, SecretHash)>,
    /// The time of the last replacement of a member, and now.
    pub(super) replaced_at: Option<Stamp>,
    pub(super) now: Stamp,
}

impl AutomaticFacts<'_> {
    /// The next change. A standby replaces a voter that has been silent for `after`.
    pub(super) fn choose(&self, after: Duration) -> Option<AutomaticChange> {
        let [voters] = self.view.voters.as_slice() else { return None };
        let has_quorum = voters.intersection(&self.view.healthy).count() > voters.len() / 2;
        if !has_quorum {
            return None;
        }
        match self.members.iter().find(|(_, member)| !self.is_finished(member)) {
            Some((node, member)) => self.cancellation(*node, member, voters),
            None => self.readmission().or_else(|| self.replacement(voters, after)),
        }
    }

    fn cancellation(
        &self,
        joiner: NodeId,
        member: &Member,
        voters: &BTreeSet<NodeId>,
    ) -> Option<AutomaticChange> {
        let Some(PendingChange::Join { replaces: Some(replaced), .. }) = member.pending else {
            return None;
        };
        let (_, asked) = self.emptied.iter().find(|(member, _)| *member == replaced)?;
        let is_lost = match member.invitation() {
            // The invitation was lost with the directory, unless it is for another machine.
            Some(invitation) => {
                invitation.secret != *asked
                    && self.member(replaced).is_some_and(|it| it.addresses == member.addresses)
                    && self.silent_for(replaced) >= EMPTIED_SILENCE
            }
            None => !voters.contains(&joiner) && self.silent_for(joiner) >= EMPTIED_SILENCE,
        };
        is_lost.then_some(AutomaticChange::Cancel { joiner })
    }

    /// Whether no change of the member is unfinished. An expired invitation is finished.
    fn is_finished(&self, member: &Member) -> bool {
        member.pending.is_none() || member.invitation().is_some_and(|it| it.expires_at <= self.now)
    }

    fn readmission(&self) -> Option<AutomaticChange> {
        let is_gone = |node: &NodeId| self.silent_for(*node) >= EMPTIED_SILENCE;
        let mut gone = self.emptied.iter().filter(|(member, _)| is_gone(member));
        let (member, secret) = *gone.next().filter(|_| self.members.len() < Member::COUNT_MAX)?;
        Some(AutomaticChange::Readmit { member, secret })
    }

    /// The replacement of the only silent voter. `None` if a second voter is silent: then the network is the likelier cause.
    fn replacement(&self, voters: &BTreeSet<NodeId>, after: Duration) -> Option<AutomaticChange> {
        let unhealthy: Vec<NodeId> = voters.difference(&self.view.healthy).copied().collect();
        let [voter] = unhealthy[..] else { return None };
        let is_paused =
            self.replaced_at.is_some_and(|at| self.now.0 < at.0.saturating_add(PAUSE_MS));
        if is_paused || self.silent_for(voter) < after {
            return None;
        }
        let zone = self.member(voter)?.zone.as_ref();
        let standbys = self.members.iter().filter(|(node, member)| {
            member.role == VotingRole::Standby && self.view.caught_up.contains(node)
        });
        // A standby in the zone of the voter keeps the voters as far apart as they were.
        let best = standbys.min_by_key(|(node, member)| (member.zone.as_ref() != zone, *node));
        best.map(|(standby, _)| AutomaticChange::Replace { standby: *standby, voter })
    }

    fn silent_for(&self, node: NodeId) -> Duration {
        self.silent.get(&node).copied().unwrap_or_default()
    }

    fn member(&self, node: NodeId) -> Option<&Member> {
        self.members.iter().find(|(id, _)| *id == node).map(|(_, member)| member)
    }
}

#[cfg(test)]
mod tests {
    use holdfast_types::{Address, Incarnation, Invitation, MemberAddresses, Zone};

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

    fn facts<'a>(members: &'a [(NodeId, Member)], view: &'a RaftView) -> AutomaticFacts<'a> {
        AutomaticFacts {
            members,
            view,
            silent: BTreeMap::from([(NodeId(3), AFTER)]),
            emptied: Vec::new(),
            replaced_at: None,
            now: Stamp(PAUSE_MS * 2),
        }
    }

    fn replacement(standby: u64) -> AutomaticChange {
        AutomaticChange::Replace { standby: NodeId(standby), voter: NodeId(3) }
    }

    const SECRET: SecretHash = SecretHash([7; 32]);

    fn readmission(member: u64) -> AutomaticChange {
        AutomaticChange::Readmit { member: NodeId(member), secret: SECRET }
    }

    fn join(expires_at: u64, replaces: Option<u64>) -> PendingChange {
        let invitation = Invitation { secret: SECRET, expires_at: Stamp(expires_at) };
        PendingChange::Join { invitation, replaces: replaces.map(NodeId) }
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

    #[test]
    fn an_emptied_node_of_a_silent_member_returns_before_a_standby_replaces_it() {
        let (members, view) = (members(), view());
        let mut facts = facts(&members, &view);
        facts.emptied = vec![(NodeId(2), SECRET), (NodeId(3), SECRET)];
        assert_eq!(facts.choose(AFTER), Some(readmission(3)));
        facts.silent.insert(NodeId(3), EMPTIED_SILENCE);
        assert_eq!(facts.choose(AFTER), Some(readmission(3)));
        facts.silent.insert(NodeId(3), EMPTIED_SILENCE.mul_f64(0.999));
        assert_eq!(facts.choose(AFTER), None);
    }

    #[test]
    fn a_cluster_with_the_most_members_readmits_no_node() {
        let (mut members, view) = (members(), view());
        let others = 7..=Member::COUNT_MAX as u64;
        members.extend(others.map(|id| (NodeId(id), Member::INITIAL)));
        assert_eq!(members.len(), Member::COUNT_MAX);
        let mut full = facts(&members, &view);
        full.emptied = vec![(NodeId(3), SECRET)];
        assert_eq!(full.choose(AFTER), Some(replacement(6)));
        let mut room = facts(&members[1..], &view);
        room.emptied = vec![(NodeId(3), SECRET)];
        assert_eq!(room.choose(AFTER), Some(readmission(3)));
    }

    #[test]
    fn a_leader_without_a_quorum_changes_nothing() {
        let (members, mut view) = (members(), view());
        view.healthy = ids(&[1, 4, 5, 6]);
        let mut facts = facts(&members, &view);
        facts.emptied = vec![(NodeId(3), SECRET)];
        assert_eq!(facts.choose(AFTER), None);
    }

    #[test]
    fn the_change_of_a_readmitted_node_that_was_emptied_again_is_cancelled() {
        let (mut members, mut view) = (members(), view());
        members[3].1.pending = Some(join(PAUSE_MS, Some(3)));
        members[3].1.incarnation = Some(Incarnation(1));
        view.healthy.remove(&NodeId(4));
        let lost = |members, view, silent| {
            let mut facts = facts(members, view);
            facts.emptied = vec![(NodeId(3), SECRET)];
            facts.silent.insert(NodeId(4), silent);
            facts.choose(AFTER)
        };
        let cancel = Some(AutomaticChange::Cancel { joiner: NodeId(4) });
        assert_eq!(lost(&members, &view, EMPTIED_SILENCE), cancel);
        // It may only be slow, it has not joined yet, it votes already, or no emptied node asks.
        assert_eq!(lost(&members, &view, EMPTIED_SILENCE.mul_f64(0.999)), None);
        let mut votes = view.clone();
        votes.voters = vec![ids(&[1, 2, 4])];
        assert_eq!(lost(&members, &votes, EMPTIED_SILENCE), None);
        let mut silent = facts(&members, &view);
        silent.silent.insert(NodeId(4), EMPTIED_SILENCE);
        assert_eq!(silent.choose(AFTER), None);
        let mut added = members.clone();
        added[3].1.pending = Some(join(PAUSE_MS, None));
        assert_eq!(lost(&added, &view, EMPTIED_SILENCE), None);
    }

    /// It asks with the secret of its new directory, and nobody has the one of its invitation.
    #[test]
    fn the_invitation_of_a_node_that_was_emptied_again_is_cancelled() {
        let (mut members, view) = (members(), view());
        members[3].1.pending = Some(join(PAUSE_MS * 3, Some(3)));
        let asking = |members: &[(NodeId, Member)], secret, silent| {
            let mut facts = facts(members, &view);
            facts.emptied = vec![(NodeId(3), secret)];
            facts.silent.insert(NodeId(3), silent);
            facts.choose(AFTER)
        };
        let other = SecretHash([8; 32]);
        let cancel = Some(AutomaticChange::Cancel { joiner: NodeId(4) });
        assert_eq!(asking(&members, other, EMPTIED_SILENCE), cancel);
        assert_eq!(asking(&members, SECRET, EMPTIED_SILENCE), None, "it will join");
        assert_eq!(asking(&members, other, EMPTIED_SILENCE.mul_f64(0.999)), None);
        let address = Address::parse("other:7401").unwrap();
        let addresses =
            MemberAddresses { peer: address.clone(), http: address.clone(), zookeeper: address };
        members[3].1.addresses = Some(addresses);
        assert_eq!(asking(&members, other, EMPTIED_SILENCE), None, "of another machine");
    }

    #[test]
    fn nothing_changes_while_a_change_is_unfinished() {
        let (mut members, view) = (members(), view());
        members[3].1.pending = Some(join(PAUSE_MS * 2 + 1, None));
        assert_eq!(facts(&members, &view).choose(AFTER), None);
        // The invitation has expired.
        members[3].1.pending = Some(join(PAUSE_MS * 2, None));
        assert_eq!(facts(&members, &view).choose(AFTER), Some(replacement(6)));
        members[3].1.pending = Some(PendingChange::SetRole);
        assert_eq!(facts(&members, &view).choose(AFTER), None);
    }
}
