//! Decides the next step of a node without a log: bootstrap a cluster with its peers, join one, or wait.
//!
//! The function is pure: it maps the states of the peers to one step. Only nodes that have never had a log bootstrap a
//! cluster, only when all configured members are present, and only with a [`CreatePermission`]: the loss of all data
//! directories looks the same as a new cluster. The other exceptions need an operator, too: a bootstrap without absent
//! members, and stopping a node that belongs to another cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use holdfast_types::{ClusterId, FeatureLevel, Incarnation, NodeId};

use crate::wire::{BootstrapState, InitialMembers};

/// The state of one peer, as seen by this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PeerState {
    Replied(BootstrapState),
    /// The cluster has registered this node's id with another data directory.
    OtherIncarnation,
    /// The peer did not reply, for this reason.
    Unreachable(String),
}

/// The state of this node.
#[derive(Debug)]
pub(crate) struct LocalState {
    pub(crate) node: NodeId,
    pub(crate) incarnation: Incarnation,
    pub(crate) members: BTreeSet<NodeId>,
    /// The node was invited to a running cluster.
    pub(crate) joins: bool,
    pub(crate) initial_members: Option<InitialMembers>,
    /// A random id, for a new cluster.
    pub(crate) new_cluster_id: ClusterId,
    pub(crate) permission: CreatePermission,
}

/// Whether this node may create a cluster from empty data directories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CreatePermission {
    /// Not without an operator.
    None,
    /// The configuration permits it to all nodes: the member with the lowest id creates the cluster.
    IfLowest,
    /// An operator has run `holdfast init` for this node.
    Given,
    /// An operator requested a cluster without the absent members.
    WithoutAbsent,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NextStep {
    /// Request acceptance from the other initial members; then write the first log entry.
    Bootstrap(InitialMembers),
    /// A cluster has registered this node: store its initial members.
    Join(InitialMembers),
    /// Wait, for this reason.
    Wait(String),
}

type PeerStates = BTreeMap<NodeId, PeerState>;

pub(crate) fn decide(local: &LocalState, peers: &PeerStates) -> NextStep {
    if let Some(step) = existing_cluster(local, peers) {
        return step;
    }
    if local.joins {
        return NextStep::Wait(wait_for_cluster(peers));
    }
    let accepted = local.initial_members.as_ref().map(|initial| initial.initiator);
    if accepted.is_some_and(|initiator| initiator != local.incarnation) {
        return NextStep::Wait(format!(
            "this node accepted the initial members of a cluster and has no log yet: it waits for {} to call; if the \
             data of that node is lost, empty the data directory of this one, too",
            initiator_of(local)
        ));
    }
    let may_bootstrap = match local.permission {
        CreatePermission::None => false,
        CreatePermission::IfLowest => local.members.first() == Some(&local.node),
        CreatePermission::Given | CreatePermission::WithoutAbsent => true,
    };
    // An initiator that was interrupted continues.
    let may_bootstrap = may_bootstrap || accepted == Some(local.incarnation);
    if may_bootstrap && let Some(node) = accepted_other_initiator(local, peers) {
        return NextStep::Wait(format!(
            "node {node} accepted the initial members of another cluster, and a member's data was lost since; if that \
             cluster never wrote anything, empty the data directory of node {node}"
        ));
    }
    let present = present(local, peers);
    let complete = present.len() == local.members.len();
    let omits_absent = local.permission == CreatePermission::WithoutAbsent;
    let enough = complete || (omits_absent && present.len() > local.members.len() / 2);
    if may_bootstrap && enough {
        return NextStep::Bootstrap(new_cluster(local, peers, present));
    }
    NextStep::Wait(wait_for_absent(local, peers, complete))
}

/// An initiator that repeats its bootstrap keeps the id of the cluster.
fn new_cluster(
    local: &LocalState,
    peers: &PeerStates,
    members: BTreeMap<NodeId, Incarnation>,
) -> InitialMembers {
    let stored = local.initial_members.as_ref().map(|initial| initial.cluster_id);
    let levels = peers.values().filter_map(|peer| match peer {
        PeerState::Replied(state) => Some(state.level_max),
        PeerState::OtherIncarnation | PeerState::Unreachable(_) => None,
    });
    InitialMembers {
        cluster_id: stored.unwrap_or(local.new_cluster_id),
        level: levels.fold(FeatureLevel::NEWEST, FeatureLevel::min),
        initiator: local.incarnation,
        members,
    }
}

/// Returns the step if any member has a log, which excludes a bootstrap.
fn existing_cluster(local: &LocalState, peers: &PeerStates) -> Option<NextStep> {
    let mut wait = None;
    for (node, peer) in peers {
        match peer {
            PeerState::Replied(BootstrapState {
                blank: false,
                has_registered_caller: true,
                initial_members: Some(initial),
                ..
            }) => {
                if local.initial_members.as_ref() != Some(initial) {
                    return Some(NextStep::Join(initial.clone()));
                }
                wait = Some(format!(
                    "node {node} belongs to the running cluster and has registered this node: waiting for the cluster's leader"
                ));
            }
            PeerState::Replied(BootstrapState { blank: false, .. }) => {
                wait.get_or_insert_with(|| {
                    format!(
                        "node {node} belongs to a cluster: waiting until its leader has registered this node"
                    )
                });
            }
            PeerState::OtherIncarnation => {
                return Some(NextStep::Wait(format!(
                    "node {node} belongs to a cluster that has registered this node's id with another data directory: restore \
                     that directory, or join under a new id"
                )));
            }
            PeerState::Replied(_) | PeerState::Unreachable(_) => {}
        }
    }
    wait.map(NextStep::Wait)
}

fn present(local: &LocalState, peers: &PeerStates) -> BTreeMap<NodeId, Incarnation> {
    let answered = peers.iter().filter_map(|(node, peer)| match peer {
        PeerState::Replied(state) => Some((*node, state.incarnation)),
        PeerState::OtherIncarnation | PeerState::Unreachable(_) => None,
    });
    answered.chain([(local.node, local.incarnation)]).collect()
}

fn accepted_other_initiator(local: &LocalState, peers: &PeerStates) -> Option<NodeId> {
    let other = |initial: &InitialMembers| initial.initiator != local.incarnation;
    let found = peers.iter().find(|(_, peer)| match peer {
        PeerState::Replied(state) => state.initial_members.as_ref().is_some_and(other),
        PeerState::OtherIncarnation | PeerState::Unreachable(_) => false,
    });
    found.map(|(node, _)| *node)
}

fn initiator_of(local: &LocalState) -> String {
    let initiator = local.initial_members.as_ref().and_then(|initial| {
        let named = initial.members.iter().find(|(_, id)| **id == initial.initiator);
        named.map(|(node, _)| *node)
    });
    initiator.map_or_else(|| "the initiator".to_owned(), |node| format!("node {node}"))
}

/// Names the members that refuse this node or do not reply.
fn wait_for_cluster(peers: &PeerStates) -> String {
    let mut text = "this node joins a cluster and waits for a member of it;".to_owned();
    for (node, peer) in peers {
        if let PeerState::Unreachable(reason) = peer {
            // A write to a string cannot fail.
            write!(text, " node {node} ({reason})").ok();
        }
    }
    text
}

/// Names the absent members, and the options of an operator.
fn wait_for_absent(local: &LocalState, peers: &PeerStates, complete: bool) -> String {
    let lowest = local.members.first().copied().unwrap_or(local.node);
    if complete && local.permission == CreatePermission::None {
        return "no member has data, and no operator has permitted a new cluster: if the data was lost, bring back the \
                data directories; if the cluster is new, run once on one node: holdfast init --data-dir DIR"
            .to_owned();
    }
    if complete {
        return format!(
            "all members are present: waiting for node {lowest} to bootstrap the cluster"
        );
    }
    let mut text = "a new cluster starts when all its members are present; waiting for".to_owned();
    for (node, peer) in peers {
        if let PeerState::Unreachable(reason) = peer {
            // A write to a string cannot fail.
            write!(text, " node {node} ({reason})").ok();
        }
    }
    text.push_str(
        ": start them; if they cannot be started, and the members never were a cluster, start one of the present \
         nodes with --bootstrap",
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: NodeId = NodeId(1);
    const TWO: NodeId = NodeId(2);
    const THREE: NodeId = NodeId(3);

    fn local(node: NodeId) -> LocalState {
        LocalState {
            node,
            incarnation: Incarnation(node.0 * 11),
            members: BTreeSet::from([ONE, TWO, THREE]),
            joins: false,
            initial_members: None,
            new_cluster_id: ClusterId(1),
            permission: CreatePermission::IfLowest,
        }
    }

    fn blank(node: NodeId) -> (NodeId, PeerState) {
        let incarnation = Incarnation(node.0 * 11);
        let state = BootstrapState {
            incarnation,
            blank: true,
            has_registered_caller: false,
            level_max: FeatureLevel::NEWEST,
            initial_members: None,
        };
        (node, PeerState::Replied(state))
    }

    fn unreachable(node: NodeId) -> (NodeId, PeerState) {
        (node, PeerState::Unreachable("connection refused".into()))
    }

    fn initial(initiator: NodeId, members: &[NodeId]) -> InitialMembers {
        let member = |node: &NodeId| (*node, Incarnation(node.0 * 11));
        InitialMembers {
            cluster_id: ClusterId(1),
            level: FeatureLevel::NEWEST,
            initiator: Incarnation(initiator.0 * 11),
            members: members.iter().map(member).collect(),
        }
    }

    fn answered(
        node: NodeId,
        blank: bool,
        has_registered_caller: bool,
        initial_members: Option<InitialMembers>,
    ) -> (NodeId, PeerState) {
        let incarnation = Incarnation(node.0 * 11);
        let level_max = FeatureLevel::NEWEST;
        let state = BootstrapState {
            incarnation,
            blank,
            has_registered_caller,
            level_max,
            initial_members,
        };
        (node, PeerState::Replied(state))
    }

    #[track_caller]
    fn waits(step: NextStep, word: &str) {
        let NextStep::Wait(text) = step else { panic!("{step:?}") };
        assert!(text.contains(word), "{text}");
    }

    #[test]
    fn the_lowest_member_bootstraps_when_all_are_present_and_blank() {
        let peers = PeerStates::from([blank(TWO), blank(THREE)]);
        let all = initial(ONE, &[ONE, TWO, THREE]);
        assert_eq!(decide(&local(ONE), &peers), NextStep::Bootstrap(all));
        let peers = PeerStates::from([blank(ONE), blank(THREE)]);
        waits(decide(&local(TWO), &peers), "node 1");
    }

    /// The other members may have stored the id already.
    #[test]
    fn an_initiator_that_repeats_its_bootstrap_keeps_the_cluster_id() {
        let stored = InitialMembers { cluster_id: ClusterId(9), ..initial(ONE, &[ONE]) };
        let again = LocalState { initial_members: Some(stored), ..local(ONE) };
        let step = decide(&again, &PeerStates::from([blank(TWO), blank(THREE)]));
        let NextStep::Bootstrap(initial) = step else { panic!("{step:?}") };
        assert_eq!(initial.cluster_id, ClusterId(9));
        assert_eq!(initial.members.len(), 3);
    }

    #[test]
    fn a_new_cluster_has_the_highest_level_that_all_members_know() {
        let (two, mut peer) = blank(TWO);
        if let PeerState::Replied(state) = &mut peer {
            state.level_max = FeatureLevel(0);
        }
        let step = decide(&local(ONE), &PeerStates::from([(two, peer), blank(THREE)]));
        let NextStep::Bootstrap(initial) = step else { panic!("{step:?}") };
        assert_eq!(initial.level, FeatureLevel(0));
    }

    /// Members that were emptied must not form a second cluster with an invited node.
    #[test]
    fn an_invited_node_never_bootstraps() {
        let permission = CreatePermission::WithoutAbsent;
        let invited = LocalState { joins: true, permission, ..local(ONE) };
        waits(decide(&invited, &PeerStates::from([blank(TWO), blank(THREE)])), "joins");
        waits(decide(&invited, &PeerStates::from([blank(TWO), unreachable(THREE)])), "node 3");
        let stored = initial(TWO, &[TWO, THREE]);
        let peers = PeerStates::from([answered(TWO, false, true, Some(stored.clone()))]);
        assert_eq!(decide(&invited, &peers), NextStep::Join(stored));
    }

    /// The loss of all data directories looks the same as a new cluster.
    #[test]
    fn without_a_permission_no_member_bootstraps_and_an_operator_may_choose_any() {
        let permitted = |node, permission| LocalState { permission, ..local(node) };
        let peers = PeerStates::from([blank(TWO), blank(THREE)]);
        waits(decide(&permitted(ONE, CreatePermission::None), &peers), "holdfast init");
        let peers = PeerStates::from([blank(ONE), blank(THREE)]);
        let all = initial(TWO, &[ONE, TWO, THREE]);
        assert_eq!(
            decide(&permitted(TWO, CreatePermission::Given), &peers),
            NextStep::Bootstrap(all.clone())
        );
        let peers = PeerStates::from([blank(ONE), unreachable(THREE)]);
        waits(decide(&permitted(TWO, CreatePermission::Given), &peers), "node 3");
        let interrupted = LocalState {
            initial_members: Some(all.clone()),
            ..permitted(TWO, CreatePermission::None)
        };
        let peers = PeerStates::from([blank(ONE), blank(THREE)]);
        assert_eq!(decide(&interrupted, &peers), NextStep::Bootstrap(all));
    }

    #[test]
    fn a_wait_names_the_absent_members() {
        let peers = PeerStates::from([blank(TWO), unreachable(THREE)]);
        waits(decide(&local(ONE), &peers), "node 3 (connection refused)");
        let peers = PeerStates::from([unreachable(ONE), blank(THREE)]);
        waits(decide(&local(TWO), &peers), "--bootstrap");
    }

    #[test]
    fn an_operator_may_omit_absent_members_but_not_a_majority() {
        let permission = CreatePermission::WithoutAbsent;
        let left_out = |node| LocalState { permission, ..local(node) };
        let peers = PeerStates::from([unreachable(ONE), blank(THREE)]);
        assert_eq!(
            decide(&left_out(TWO), &peers),
            NextStep::Bootstrap(initial(TWO, &[TWO, THREE]))
        );
        let peers = PeerStates::from([unreachable(ONE), unreachable(THREE)]);
        waits(decide(&left_out(TWO), &peers), "node 1");
    }

    /// Not even an operator can bootstrap a second cluster beside an existing one.
    #[test]
    fn no_bootstrap_while_a_member_has_a_log() {
        for permission in
            [CreatePermission::IfLowest, CreatePermission::Given, CreatePermission::WithoutAbsent]
        {
            let local = LocalState { permission, ..local(ONE) };
            let peers = PeerStates::from([blank(TWO), (THREE, PeerState::OtherIncarnation)]);
            waits(decide(&local, &peers), "another data directory");
            let data = answered(THREE, false, false, Some(initial(TWO, &[TWO, THREE])));
            waits(decide(&local, &PeerStates::from([blank(TWO), data])), "registered");
            let accepted = answered(THREE, true, false, Some(initial(TWO, &[TWO, THREE])));
            waits(decide(&local, &PeerStates::from([blank(TWO), accepted])), "node 3");
        }
    }

    #[test]
    fn a_registered_node_stores_the_initial_members_of_the_cluster() {
        let stored = initial(TWO, &[TWO, THREE]);
        let peers = PeerStates::from([
            answered(TWO, false, true, Some(stored.clone())),
            unreachable(THREE),
        ]);
        assert_eq!(decide(&local(ONE), &peers), NextStep::Join(stored.clone()));
        let joined = LocalState { initial_members: Some(stored), ..local(ONE) };
        waits(decide(&joined, &peers), "leader");
    }

    #[test]
    fn a_node_that_accepted_initial_members_waits_for_their_initiator() {
        let accepted =
            LocalState { initial_members: Some(initial(ONE, &[ONE, TWO, THREE])), ..local(TWO) };
        waits(
            decide(&accepted, &PeerStates::from([unreachable(ONE), blank(THREE)])),
            "node 1 to call",
        );
        let resumed = LocalState { initial_members: Some(initial(ONE, &[ONE, TWO])), ..local(ONE) };
        let accepted = answered(TWO, true, true, Some(initial(ONE, &[ONE, TWO])));
        let all = initial(ONE, &[ONE, TWO, THREE]);
        assert_eq!(
            decide(&resumed, &PeerStates::from([accepted, blank(THREE)])),
            NextStep::Bootstrap(all)
        );
    }
}
