//! The members: at most one unfinished change, ids that are never used again, and what is rejected.

use std::collections::BTreeSet;

use holdfast_types::{
    Actor, Address, ClusterId, Command, Entry, FeatureLevel, Incarnation, Invitation, Member,
    MemberAddresses, MembershipChange, MembershipRejection, NodeId, PendingChange, Reason,
    Rejection, Reply, SecretHash, Stamp, VotingRole, Zone,
};
use proptest::prelude::*;

use crate::Machine;

/// Addresses that no other node has.
pub(crate) fn addresses(node: u64) -> MemberAddresses {
    let address = |port: u64| Address::parse(&format!("10.0.0.{node}:{port}")).unwrap();
    MemberAddresses { peer: address(7401), http: address(7400), zookeeper: address(7402) }
}

pub(crate) fn first_members(count: u64) -> BTreeSet<NodeId> {
    (1..=count).map(NodeId).collect()
}

const INVITATION: Invitation = Invitation { secret: SecretHash([7; 32]), expires_at: Stamp(1_000) };

struct Cluster(Machine);

impl Cluster {
    /// Three registered members.
    fn new() -> Self {
        let mut cluster = Self(Machine::new());
        let bootstrap = Command::Bootstrap {
            cluster_id: ClusterId(1),
            level: FeatureLevel::NEWEST,
            members: first_members(3),
        };
        cluster.apply(bootstrap).unwrap();
        (1..=3).for_each(|node| cluster.register(node).unwrap());
        cluster
    }

    fn apply_at(&mut self, at: u64, command: Command) -> Result<Reply, Rejection> {
        let entry = Entry { stamped_at: Stamp(at), commands: vec![command.by(Actor::Node)] };
        let outcome = self.0.apply(entry).outcomes.remove(0);
        self.0.check_invariants().unwrap();
        outcome
    }

    fn apply(&mut self, command: Command) -> Result<Reply, Rejection> {
        self.apply_at(1, command)
    }

    fn change(&mut self, change: MembershipChange) -> Result<Reply, MembershipRejection> {
        self.apply(Command::Membership(change)).map_err(|rejection| match rejection {
            Rejection::Membership(why) => why,
            other => panic!("{other:?}"),
        })
    }

    fn register(&mut self, node: u64) -> Result<(), Rejection> {
        let incarnation = Incarnation(node * 11);
        self.apply(Command::RegisterNode { node: NodeId(node), incarnation }).map(|_| ())
    }

    fn invite(&mut self, node: u64, replaces: Option<u64>) -> Result<NodeId, MembershipRejection> {
        let reply = self.change(invite(node, VotingRole::Voter, replaces))?;
        Ok(reply.into_member_invited().unwrap())
    }

    fn remove(&mut self, node: u64) -> Result<Reply, MembershipRejection> {
        let reason = Reason::new("disk failed").unwrap();
        self.change(MembershipChange::Remove { node: NodeId(node), reason })
    }

    fn finish(&mut self, node: u64) -> Result<Reply, MembershipRejection> {
        self.change(MembershipChange::Finish { node: NodeId(node) })
    }

    fn ids(&self) -> Vec<u64> {
        self.0.members().map(|(node, _)| node.0).collect()
    }

    fn member(&self, node: u64) -> &Member {
        self.0.member(NodeId(node)).unwrap()
    }
}

pub(super) fn invite(node: u64, role: VotingRole, replaces: Option<u64>) -> MembershipChange {
    MembershipChange::Invite {
        addresses: addresses(node),
        zone: None,
        role,
        invitation: INVITATION,
        replaces: replaces.map(NodeId),
    }
}

#[test]
fn an_invited_member_joins_under_a_new_id() {
    let mut cluster = Cluster::new();
    assert_eq!(cluster.invite(4, None), Ok(NodeId(4)));
    assert_eq!(cluster.member(4).invitation(), Some(&INVITATION));
    let not_joined = MembershipRejection::NotJoined { node: NodeId(4) };
    assert_eq!(cluster.finish(4), Err(not_joined));
    cluster.register(4).unwrap();
    assert_eq!(cluster.member(4).invitation(), None);
    cluster.finish(4).unwrap();
    assert_eq!(cluster.member(4).pending, None);
    // A second copy of the end changes nothing.
    cluster.finish(4).unwrap();
    assert_eq!(cluster.ids(), [1, 2, 3, 4]);
}

#[test]
fn a_replaced_member_leaves_when_the_new_one_has_joined_and_may_share_its_addresses() {
    let mut cluster = Cluster::new();
    // The new node has the addresses of the replaced one.
    let reply = cluster.change(invite(3, VotingRole::Voter, Some(3))).unwrap();
    assert_eq!(reply.into_member_invited(), Some(NodeId(4)));
    cluster.register(4).unwrap();
    assert_eq!(cluster.ids(), [1, 2, 3, 4]);
    cluster.finish(4).unwrap();
    assert_eq!(cluster.ids(), [1, 2, 4]);
    assert!(cluster.0.is_retired(NodeId(3)));
    assert_eq!(cluster.0.retirement(NodeId(3)).unwrap().replaced_by, Some(NodeId(4)));
}

#[test]
fn one_change_at_a_time() {
    let mut cluster = Cluster::new();
    cluster.invite(4, None).unwrap();
    let in_progress = MembershipRejection::InProgress { node: NodeId(4) };
    assert_eq!(cluster.invite(5, None), Err(in_progress.clone()));
    assert_eq!(cluster.remove(2), Err(in_progress.clone()));
    let demote = MembershipChange::SetRole { node: NodeId(2), role: VotingRole::Learner };
    assert_eq!(cluster.change(demote), Err(in_progress));
    // The removal of the invited member cancels its invitation.
    cluster.remove(4).unwrap();
    assert_eq!(cluster.ids(), [1, 2, 3]);
    assert_eq!(cluster.invite(5, None), Ok(NodeId(5)), "an id is never used again");
}

#[test]
fn an_expired_invitation_makes_room_for_another_change() {
    let mut cluster = Cluster::new();
    cluster.invite(4, None).unwrap();
    let again = Command::Membership(invite(4, VotingRole::Voter, None));
    let reply = cluster.apply_at(INVITATION.expires_at.0, again).unwrap();
    assert_eq!(reply.into_member_invited(), Some(NodeId(5)));
    assert_eq!(cluster.ids(), [1, 2, 3, 5]);
    assert!(cluster.0.is_retired(NodeId(4)));
}

#[test]
fn a_removed_member_leaves_when_the_raft_membership_has_it_no_longer() {
    let mut cluster = Cluster::new();
    cluster.remove(3).unwrap();
    assert!(cluster.member(3).is_leaving());
    // A second operator may repeat the removal.
    cluster.remove(3).unwrap();
    cluster.finish(3).unwrap();
    assert_eq!(cluster.ids(), [1, 2]);
    let retirement = cluster.0.retirement(NodeId(3)).unwrap();
    assert_eq!(retirement.reason.as_ref().unwrap().as_str(), "disk failed");
    let retired = MembershipRejection::Retired { node: NodeId(3) };
    assert_eq!(cluster.remove(3), Err(retired.clone()));
    assert_eq!(cluster.register(3), Err(retired.into()));
    let unknown = MembershipRejection::NoMember { node: NodeId(9) };
    assert_eq!(cluster.remove(9), Err(unknown));
}

#[test]
fn the_last_voter_stays() {
    let mut cluster = Cluster::new();
    for node in [2, 3] {
        cluster.remove(node).unwrap();
        cluster.finish(node).unwrap();
    }
    assert_eq!(cluster.remove(1), Err(MembershipRejection::LastVoter));
    let demote = MembershipChange::SetRole { node: NodeId(1), role: VotingRole::Learner };
    assert_eq!(cluster.change(demote), Err(MembershipRejection::LastVoter));
}

#[test]
fn two_members_share_no_address() {
    let mut cluster = Cluster::new();
    let taken = addresses(2).http;
    let in_use = MembershipRejection::AddressInUse { address: taken.clone(), node: NodeId(2) };
    let update = |node, addresses| MembershipChange::Update {
        node: NodeId(node),
        addresses: Some(addresses),
        zone: Some(Zone::new("b").unwrap()),
    };
    cluster.change(update(2, addresses(2))).unwrap();
    let shared = MemberAddresses { peer: taken.clone(), ..addresses(9) };
    let change = MembershipChange::Invite {
        addresses: shared,
        zone: None,
        role: VotingRole::Voter,
        invitation: INVITATION,
        replaces: None,
    };
    assert_eq!(cluster.change(change), Err(in_use.clone()));
    let shared = MemberAddresses { http: taken, ..addresses(1) };
    assert_eq!(cluster.change(update(1, shared)), Err(in_use));
    cluster.change(update(1, addresses(9))).unwrap();
    assert_eq!(cluster.member(1).addresses, Some(addresses(9)));
    assert_eq!(cluster.member(1).zone, Some(Zone::new("b").unwrap()));
}

#[test]
fn seven_members_vote_at_most() {
    let mut cluster = Cluster::new();
    for node in 4..=7 {
        cluster.invite(node, None).unwrap();
        cluster.register(node).unwrap();
        cluster.finish(node).unwrap();
    }
    assert_eq!(cluster.invite(8, None), Err(MembershipRejection::TooMany { voters: true }));
    // A replacement adds no voter.
    cluster.invite(8, Some(1)).unwrap();
    cluster.remove(8).unwrap();
    for node in 9..=17 {
        cluster.change(invite(node, VotingRole::Learner, None)).unwrap();
        cluster.register(node).unwrap();
        cluster.finish(node).unwrap();
    }
    let full = cluster.change(invite(18, VotingRole::Learner, None));
    assert_eq!(full, Err(MembershipRejection::TooMany { voters: false }));
    let promote = MembershipChange::SetRole { node: NodeId(9), role: VotingRole::Voter };
    assert_eq!(cluster.change(promote), Err(MembershipRejection::TooMany { voters: true }));
}

#[test]
fn a_role_changes_once() {
    let mut cluster = Cluster::new();
    let set = |role| MembershipChange::SetRole { node: NodeId(3), role };
    let has = MembershipRejection::HasRole { node: NodeId(3), role: VotingRole::Voter };
    assert_eq!(cluster.change(set(VotingRole::Voter)), Err(has));
    cluster.change(set(VotingRole::Learner)).unwrap();
    assert_eq!(cluster.member(3).pending, Some(PendingChange::SetRole));
    cluster.finish(3).unwrap();
    assert_eq!((cluster.member(3).role, &cluster.member(3).pending), (VotingRole::Learner, &None));
}

/// The leaving node and the replaced one have the same addresses.
#[test]
fn a_replacement_at_the_same_address_can_be_cancelled() {
    let mut cluster = with_fourth(VotingRole::Voter);
    assert_eq!(cluster.invite(4, Some(4)), Ok(NodeId(5)));
    cluster.register(5).unwrap();
    cluster.remove(5).unwrap();
    assert_eq!(cluster.ids(), [1, 2, 3, 4, 5]);
    cluster.finish(5).unwrap();
    assert_eq!(cluster.ids(), [1, 2, 3, 4]);
}

/// Three voters, and node 4 with another role.
fn with_fourth(role: VotingRole) -> Cluster {
    let mut cluster = Cluster::new();
    cluster.change(invite(4, role, None)).unwrap();
    cluster.register(4).unwrap();
    cluster.finish(4).unwrap();
    cluster
}

fn replace(node: u64, replaces: u64) -> MembershipChange {
    MembershipChange::Replace { node: NodeId(node), replaces: NodeId(replaces) }
}

#[test]
fn a_member_without_a_vote_replaces_a_voter() {
    for role in [VotingRole::Learner, VotingRole::Standby] {
        let mut cluster = with_fourth(role);
        cluster.change(replace(4, 3)).unwrap();
        assert_eq!(cluster.member(4).role, VotingRole::Voter);
        assert_eq!(cluster.member(4).replaces(), Some(NodeId(3)));
        let in_progress = MembershipRejection::InProgress { node: NodeId(4) };
        assert_eq!(cluster.invite(5, None), Err(in_progress));
        assert_eq!(cluster.0.last_replacement(), None);
        cluster.finish(4).unwrap();
        assert_eq!(cluster.ids(), [1, 2, 4]);
        assert_eq!(cluster.0.retirement(NodeId(3)).unwrap().replaced_by, Some(NodeId(4)));
        assert_eq!(cluster.0.last_replacement(), Some(Stamp(1)));
    }
}

#[test]
fn only_a_member_without_a_vote_replaces_and_only_a_voter_is_replaced() {
    let mut cluster = with_fourth(VotingRole::Standby);
    let has = |node, role| MembershipRejection::HasRole { node: NodeId(node), role };
    let unequal = |node, role| MembershipRejection::UnequalRoles { replaces: NodeId(node), role };
    assert_eq!(cluster.change(replace(1, 3)), Err(has(1, VotingRole::Voter)));
    assert_eq!(cluster.change(replace(4, 4)), Err(unequal(4, VotingRole::Standby)));
    // Nor does a new member without a vote replace a voter, or the other way around.
    assert_eq!(
        cluster.change(invite(5, VotingRole::Learner, Some(3))),
        Err(unequal(3, VotingRole::Voter))
    );
    assert_eq!(
        cluster.change(invite(5, VotingRole::Voter, Some(4))),
        Err(unequal(4, VotingRole::Standby))
    );
    let unknown = MembershipRejection::NoMember { node: NodeId(9) };
    assert_eq!(cluster.change(replace(4, 9)), Err(unknown.clone()));
    assert_eq!(cluster.change(replace(9, 3)), Err(unknown));
    // The last voter stays.
    for node in [2, 3] {
        cluster.remove(node).unwrap();
        cluster.finish(node).unwrap();
    }
    let standby = MembershipChange::SetRole { node: NodeId(1), role: VotingRole::Standby };
    assert_eq!(cluster.change(standby), Err(MembershipRejection::LastVoter));
}

fn any_change() -> impl Strategy<Value = Command> {
    let node = 1..9_u64;
    let id = node.clone().prop_map(NodeId);
    let reason = Reason::new("test").unwrap();
    let role = proptest::sample::select(VotingRole::ALL.to_vec());
    prop_oneof![
        (node.clone(), role.clone(), proptest::option::of(node.clone())).prop_map(
            |(node, role, replaces)| { Command::Membership(invite(node, role, replaces)) }
        ),
        id.clone()
            .prop_map(|node| Command::RegisterNode { node, incarnation: Incarnation(node.0 * 11) }),
        id.clone().prop_map(move |node| {
            Command::Membership(MembershipChange::Remove { node, reason: reason.clone() })
        }),
        (node.clone(), node).prop_map(|(node, old)| Command::Membership(replace(node, old))),
        (id.clone(), role).prop_map(|(node, role)| {
            Command::Membership(MembershipChange::SetRole { node, role })
        }),
        id.prop_map(|node| Command::Membership(MembershipChange::Finish { node })),
    ]
}

proptest! {
    /// Invariants hold after every change, no id is used twice, and a voter always stays.
    #[test]
    fn random_changes_keep_the_invariants(changes in proptest::collection::vec(any_change(), 1..60)) {
        let mut cluster = Cluster::new();
        let mut invited = BTreeSet::from([1, 2, 3]);
        for (at, command) in (2..).step_by(40).zip(changes) {
            let outcome = cluster.apply_at(at, command);
            if let Ok(Reply::MemberInvited { node }) = outcome {
                prop_assert!(invited.insert(node.0), "id {node} is used twice");
            }
            let votes = |member: &Member| member.role == VotingRole::Voter && !member.is_leaving();
            prop_assert!(cluster.0.members().any(|(_, member)| votes(member)));
            let again = Machine::load(cluster.0.dump()).unwrap();
            prop_assert_eq!(again.state_digest(), cluster.0.state_digest());
        }
    }
}
