//! The next step from the Raft membership to the members of the replicated state.
//!
//! The functions are pure. They read the one unfinished change of a member and what the leader knows, and return one step.
//! The voters change by joint consensus in one step, so a replacement never has a quorum of fewer or more voters. Source:
//! Ongaro, "Consensus: Bridging Theory and Practice", 2014, section 4.3.

use std::collections::BTreeSet;
use std::fmt::{self, Write as _};

use holdfast_types::{Member, NodeId, PendingChange, VotingRole};

use crate::start::bootstrap::list_ids;

/// What the leader knows about the Raft membership and the nodes.
#[derive(Clone, Debug, Default)]
pub(crate) struct RaftView {
    pub(crate) own: NodeId,
    /// The voters; two sets while they change.
    pub(crate) voters: Vec<BTreeSet<NodeId>>,
    /// The voters and the learners.
    pub(crate) nodes: BTreeSet<NodeId>,
    /// Nodes that acknowledged a message recently, and this node.
    pub(crate) healthy: BTreeSet<NodeId>,
    /// Voters and learners that have had almost all entries for some time.
    pub(crate) caught_up: BTreeSet<NodeId>,
}

/// One step. Each can be repeated after a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing is unfinished.
    Idle,
    /// Wait, for this reason.
    Wait(String),
    AddLearner(NodeId),
    RemoveLearner(NodeId),
    SetVoters {
        voters: BTreeSet<NodeId>,
        /// Voters that lose their vote become learners.
        keep: bool,
    },
    /// End the change of the voters that an earlier leader began.
    LeaveJoint {
        keep: bool,
    },
    /// This node loses its vote: another voter leads first. It must have a vote afterwards.
    TransferLeadership {
        to: BTreeSet<NodeId>,
    },
    /// The Raft membership is equal to the change of this member.
    Finish(NodeId),
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Idle => f.write_str("idle"),
            Self::Wait(reason) => write!(f, "wait: {reason}"),
            Self::AddLearner(node) => write!(f, "add learner {node}"),
            Self::RemoveLearner(node) => write!(f, "remove learner {node}"),
            Self::SetVoters { voters, .. } => write!(f, "voters {}", list_ids(voters)),
            Self::LeaveJoint { .. } => f.write_str("end the change of the voters"),
            Self::TransferLeadership { to } => write!(f, "leadership to one of {}", list_ids(to)),
            Self::Finish(node) => write!(f, "finish the change of node {node}"),
        }
    }
}

pub(crate) fn next_step(members: &[(NodeId, Member)], view: &RaftView) -> Step {
    let changed =
        |(_, member): &&(NodeId, Member)| member.pending.is_some() && member.invitation().is_none();
    let changed = members.iter().find(changed);
    let keep = changed.is_some_and(|(_, it)| it.pending == Some(PendingChange::SetRole));
    let [voters] = view.voters.as_slice() else { return Step::LeaveJoint { keep } };
    let Some((node, member)) = changed else { return vote_again(members, view, voters) };
    let change = Change { node: *node, view, voters };
    match &member.pending {
        None => Step::Idle,
        Some(PendingChange::Join { replaces, .. }) => change.join(member.role, *replaces),
        Some(PendingChange::SetRole) => match member.role {
            VotingRole::Voter => change.promote(None),
            VotingRole::Learner | VotingRole::Standby => {
                change.without_vote(true, Step::Finish(*node))
            }
        },
        Some(PendingChange::Replace { replaces }) => change.join(member.role, Some(*replaces)),
        Some(PendingChange::Leave { .. }) => change.leave(*node),
    }
}

/// Gives a voter of the replicated state its vote again. The voter loses it if its successor is removed before the replacement
/// is finished, and after Raft has swapped the two.
fn vote_again(members: &[(NodeId, Member)], view: &RaftView, voters: &BTreeSet<NodeId>) -> Step {
    let is_missing = |(node, member): &&(NodeId, Member)| {
        let is_voter = member.role == VotingRole::Voter && member.pending.is_none();
        is_voter && member.incarnation.is_some() && !voters.contains(node)
    };
    let missing = members.iter().find(is_missing);
    missing.map_or(Step::Idle, |(node, _)| {
        Change { node: *node, view, voters }.join(VotingRole::Voter, None)
    })
}

struct Change<'a> {
    /// The changed member.
    node: NodeId,
    view: &'a RaftView,
    voters: &'a BTreeSet<NodeId>,
}

impl Change<'_> {
    fn join(&self, role: VotingRole, replaces: Option<NodeId>) -> Step {
        if !self.view.nodes.contains(&self.node) {
            return Step::AddLearner(self.node);
        }
        let joined = match role {
            VotingRole::Voter => self.promote(replaces),
            VotingRole::Learner | VotingRole::Standby
                if self.view.caught_up.contains(&self.node) =>
            {
                Step::Finish(self.node)
            }
            VotingRole::Learner | VotingRole::Standby => self.wait_for_log(),
        };
        match (joined, replaces) {
            // A replaced learner, and a voter that an interrupted step left as a learner.
            (Step::Finish(_), Some(old)) if self.view.nodes.contains(&old) => {
                Self { node: old, ..*self }.leave(self.node)
            }
            (joined, _) => joined,
        }
    }

    /// Gives the vote to the member, and takes that of a replaced voter in the same step.
    fn promote(&self, replaces: Option<NodeId>) -> Step {
        if self.voters.contains(&self.node) {
            return Step::Finish(self.node);
        }
        if !self.view.caught_up.contains(&self.node) {
            return self.wait_for_log();
        }
        let mut target = self.voters.clone();
        target.insert(self.node);
        // The only voter keeps its vote for now: it can hand the leadership to a voter alone.
        if let Some(replaced) = replaces.filter(|_| self.voters.len() > 1) {
            target.remove(&replaced);
        }
        self.set_voters(target, false)
    }

    /// Takes the vote of the member; then does `after`.
    fn without_vote(&self, keep: bool, after: Step) -> Step {
        if !self.voters.contains(&self.node) {
            return after;
        }
        let mut target = self.voters.clone();
        target.remove(&self.node);
        self.set_voters(target, keep)
    }

    /// Removes the member; then finishes the change of `finished`.
    fn leave(&self, finished: NodeId) -> Step {
        let after = if self.view.nodes.contains(&self.node) {
            Step::RemoveLearner(self.node)
        } else {
            Step::Finish(finished)
        };
        self.without_vote(false, after)
    }

    fn set_voters(&self, voters: BTreeSet<NodeId>, keep: bool) -> Step {
        let has_quorum =
            |nodes: &BTreeSet<NodeId>| voters.intersection(nodes).count() > voters.len() / 2;
        if !has_quorum(&self.view.healthy) {
            let healthy = voters.intersection(&self.view.healthy).count();
            let mut text =
                format!("only {healthy} of {} voters would be reachable: restart", voters.len());
            for node in voters.difference(&self.view.healthy) {
                // A write to a string cannot fail.
                write!(text, " node {node}").ok();
            }
            return Step::Wait(text);
        }
        // After the change, no entry is committed before a majority of these voters has all entries before it.
        let mut current = self.view.caught_up.clone();
        current.insert(self.view.own);
        if !has_quorum(&current) {
            let behind: BTreeSet<NodeId> = voters.difference(&current).copied().collect();
            return Step::Wait(format!("voters receive the log: {}", list_ids(&behind)));
        }
        if !voters.contains(&self.view.own) {
            return Step::TransferLeadership { to: voters };
        }
        Step::SetVoters { voters, keep }
    }

    fn wait_for_log(&self) -> Step {
        let node = self.node;
        Step::Wait(if self.view.healthy.contains(&node) {
            format!("node {node} receives the log")
        } else {
            format!("node {node} is unreachable, and must receive the log first")
        })
    }
}

#[cfg(test)]
mod tests {
    use holdfast_types::{Incarnation, Invitation, Reason, SecretHash, Stamp};

    use super::*;

    fn ids(ids: &[u64]) -> BTreeSet<NodeId> {
        ids.iter().copied().map(NodeId).collect()
    }

    /// Node 1 leads; all nodes are healthy, and the voters have the whole log.
    fn view(voters: &[&[u64]], learners: &[u64]) -> RaftView {
        let voters: Vec<_> = voters.iter().map(|set| ids(set)).collect();
        let nodes: BTreeSet<NodeId> =
            voters.iter().flatten().copied().chain(ids(learners)).collect();
        let healthy = nodes.clone();
        let caught_up = voters.iter().flatten().copied().collect();
        RaftView { own: NodeId(1), voters, nodes, healthy, caught_up }
    }

    fn member(pending: Option<PendingChange>) -> Member {
        Member { incarnation: Some(Incarnation(1)), pending, ..Member::INITIAL }
    }

    fn joining(replaces: Option<u64>) -> Member {
        let invitation = Invitation { secret: SecretHash([0; 32]), expires_at: Stamp(9) };
        member(Some(PendingChange::Join { invitation, replaces: replaces.map(NodeId) }))
    }

    fn leaving() -> Member {
        member(Some(PendingChange::Leave { reason: Reason::new("moved").unwrap() }))
    }

    fn with(node: u64, changed: Member) -> Vec<(NodeId, Member)> {
        let others = (1..=3).filter(|id| *id != node);
        let others = others.map(|id| (NodeId(id), member(None)));
        others.chain([(NodeId(node), changed)]).collect()
    }

    fn set(voters: &[u64]) -> Step {
        Step::SetVoters { voters: ids(voters), keep: false }
    }

    #[test]
    fn nothing_happens_without_a_change_or_before_the_invited_node_is_registered() {
        let stable = view(&[&[1, 2, 3]], &[]);
        assert_eq!(next_step(&with(3, member(None)), &stable), Step::Idle);
        let invited = Member { incarnation: None, ..joining(None) };
        assert_eq!(next_step(&with(4, invited), &stable), Step::Idle);
    }

    #[test]
    fn a_new_voter_receives_the_log_before_it_votes() {
        let members = with(4, joining(None));
        let before = view(&[&[1, 2, 3]], &[]);
        assert_eq!(next_step(&members, &before), Step::AddLearner(NodeId(4)));
        let mut learns = view(&[&[1, 2, 3]], &[4]);
        assert!(matches!(next_step(&members, &learns), Step::Wait(_)));
        learns.caught_up.insert(NodeId(4));
        assert_eq!(next_step(&members, &learns), set(&[1, 2, 3, 4]));
        let votes = view(&[&[1, 2, 3, 4]], &[]);
        assert_eq!(next_step(&members, &votes), Step::Finish(NodeId(4)));
        let learner = Member { role: VotingRole::Learner, ..joining(None) };
        assert_eq!(next_step(&with(4, learner), &learns), Step::Finish(NodeId(4)));
    }

    #[test]
    fn a_replacement_is_one_step_with_the_same_number_of_voters() {
        let members = with(4, joining(Some(3)));
        let mut learns = view(&[&[1, 2, 3]], &[4]);
        learns.caught_up.insert(NodeId(4));
        // The replaced node is dead.
        learns.healthy.remove(&NodeId(3));
        assert_eq!(next_step(&members, &learns), set(&[1, 2, 4]));
        let half = view(&[&[1, 2, 3], &[1, 2, 4]], &[]);
        assert_eq!(next_step(&members, &half), Step::LeaveJoint { keep: false });
        let swapped = view(&[&[1, 2, 4]], &[]);
        assert_eq!(next_step(&members, &swapped), Step::Finish(NodeId(4)));
        let kept = view(&[&[1, 2, 4]], &[3]);
        assert_eq!(next_step(&members, &kept), Step::RemoveLearner(NodeId(3)));
    }

    /// The leadership goes to a voter alone, so the only voter keeps its vote until the new node has one.
    #[test]
    fn the_only_voter_is_replaced_in_two_steps() {
        let members = [(NodeId(1), member(None)), (NodeId(2), joining(Some(1)))];
        let mut learns = view(&[&[1]], &[2]);
        learns.caught_up.insert(NodeId(2));
        assert_eq!(next_step(&members, &learns), set(&[1, 2]));
        let both = view(&[&[1, 2]], &[]);
        let transfer = Step::TransferLeadership { to: ids(&[2]) };
        assert_eq!(next_step(&members, &both), transfer);
        let led_by_new = RaftView { own: NodeId(2), ..both };
        assert_eq!(next_step(&members, &led_by_new), set(&[2]));
    }

    #[test]
    fn a_replaced_learner_leaves_before_the_change_is_finished() {
        let members = with(5, Member { role: VotingRole::Learner, ..joining(Some(4)) });
        let mut learns = view(&[&[1, 2, 3]], &[4, 5]);
        learns.caught_up.insert(NodeId(5));
        assert_eq!(next_step(&members, &learns), Step::RemoveLearner(NodeId(4)));
        learns.nodes.remove(&NodeId(4));
        assert_eq!(next_step(&members, &learns), Step::Finish(NodeId(5)));
    }

    #[test]
    fn the_leader_leaves_after_another_voter_leads() {
        let transfer = Step::TransferLeadership { to: ids(&[2, 3]) };
        assert_eq!(next_step(&with(1, leaving()), &view(&[&[1, 2, 3]], &[])), transfer);
        let mut swap = view(&[&[1, 2, 3]], &[4]);
        swap.caught_up.insert(NodeId(4));
        let transfer = Step::TransferLeadership { to: ids(&[2, 3, 4]) };
        assert_eq!(next_step(&with(4, joining(Some(1))), &swap), transfer);
    }

    #[test]
    fn a_removed_voter_leaves_and_a_change_that_would_lose_the_quorum_waits() {
        let members = with(3, leaving());
        let mut stable = view(&[&[1, 2, 3]], &[]);
        assert_eq!(next_step(&members, &stable), set(&[1, 2]));
        stable.caught_up = ids(&[1, 3]);
        let waits = Step::Wait("voters receive the log: 2".to_owned());
        assert_eq!(next_step(&members, &stable), waits);
        stable.healthy = ids(&[1, 3]);
        let Step::Wait(reason) = next_step(&members, &stable) else { panic!() };
        assert!(reason.contains("node 2"), "{reason}");
        assert_eq!(next_step(&members, &view(&[&[1, 2]], &[])), Step::Finish(NodeId(3)));
    }

    #[test]
    fn a_voter_whose_replacement_was_removed_gets_its_vote_again() {
        let mut members = with(3, member(None));
        members.push((NodeId(4), leaving()));
        let swapped = view(&[&[1, 2, 4]], &[]);
        assert_eq!(next_step(&members, &swapped), set(&[1, 2]));
        members.pop();
        let mut left = view(&[&[1, 2]], &[]);
        assert_eq!(next_step(&members, &left), Step::AddLearner(NodeId(3)));
        left.nodes.insert(NodeId(3));
        assert!(matches!(next_step(&members, &left), Step::Wait(_)));
        left.healthy.insert(NodeId(3));
        left.caught_up.insert(NodeId(3));
        assert_eq!(next_step(&members, &left), set(&[1, 2, 3]));
    }

    #[test]
    fn a_demoted_voter_stays_as_a_learner() {
        let demoted = Member { role: VotingRole::Learner, ..member(Some(PendingChange::SetRole)) };
        let members = with(3, demoted);
        let step = Step::SetVoters { voters: ids(&[1, 2]), keep: true };
        assert_eq!(next_step(&members, &view(&[&[1, 2, 3]], &[])), step);
        let half = view(&[&[1, 2, 3], &[1, 2]], &[]);
        assert_eq!(next_step(&members, &half), Step::LeaveJoint { keep: true });
        assert_eq!(next_step(&members, &view(&[&[1, 2]], &[3])), Step::Finish(NodeId(3)));
        let mut promoted = view(&[&[1, 2]], &[3]);
        promoted.caught_up.insert(NodeId(3));
        let members = with(3, member(Some(PendingChange::SetRole)));
        assert_eq!(next_step(&members, &promoted), set(&[1, 2, 3]));
    }
}
