//! Members that join, replace others and leave, while nodes fail.

#![expect(clippy::unwrap_used, reason = "a failed command is a failed test")]

use std::sync::atomic::Ordering;

use futures_util::future::join_all;
use holdfast_lab::{Flow, until_some};
use holdfast_machine::Machine;
use holdfast_raft::{ProposeError, RaftNode, StopReason, Urgency};
use holdfast_types::{Address, MemberAddresses, MembershipChange, NodeId, Reason, VotingRole};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::lab::{LONG, Lab, eventually, has_session, open_session, soon};

fn remove(node: u64) -> MembershipChange {
    MembershipChange::Remove { node: NodeId(node), reason: Reason::new("moved").unwrap() }
}

async fn write(lab: &Lab, through: u64, name: &str) {
    let node = lab.node(through);
    node.propose(open_session(name), Urgency::Immediate, soon()).await.unwrap().outcome.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_grows_from_one_to_three_to_five_and_shrinks() {
    let mut lab = Lab::start(1).await;
    lab.leader().await;
    write(&lab, 1, "first").await;
    for id in 2..=4 {
        assert_eq!(lab.invite(1, None).await, id);
        lab.boot(id).await.unwrap();
        lab.voters(&(1..=id).collect::<Vec<_>>()).await;
        write(&lab, id, &format!("through{id}")).await;
    }
    let leader = lab.leader().await;
    lab.change(leader, remove(2)).await.unwrap();
    let removed = lab.nodes.remove(&2).unwrap();
    assert!(matches!(removed.wait_failed().await, StopReason::Removed(_)));
    lab.voters(&[1, 3, 4]).await;
    lab.agree().await;
    assert!(has_session(lab.node(4), "first"));
}

/// A connection outlives the change: only the next one would fail.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_address_of_a_connected_member_is_noticed_and_its_correction_too() {
    let lab = Lab::start(3).await;
    lab.registered().await;
    let leader = lab.leader().await;
    let moved = lab.follower_of(leader);
    let right = lab.node(leader).members()[&NodeId(moved)].clone();
    let wrong = MemberAddresses { peer: Address::parse("127.0.0.1:1").unwrap(), ..right.clone() };
    let set = |addresses| MembershipChange::Update {
        node: NodeId(moved),
        addresses: Some(addresses),
        zone: None,
    };
    lab.change(leader, set(wrong)).await.unwrap();
    let failure = eventually("the wrong address", || {
        let status = lab.node(leader).status();
        let peer = &status.peers[&NodeId(moved)];
        peer.unreachable.clone().filter(|_| peer.connected)
    });
    let (reason, _) = failure.await;
    assert!(reason.starts_with("127.0.0.1:1: "), "{reason}");
    write(&lab, leader, "still-connected").await;
    lab.change(leader, set(right)).await.unwrap();
    eventually("the right address", || {
        let status = lab.node(leader).status();
        status.peers[&NodeId(moved)].unreachable.is_none().then_some(())
    })
    .await;
}

/// openraft must not stall on the dead member: neither in the joint configuration, nor while it replicates to it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_member_is_replaced_in_one_step_and_refused_when_it_returns() {
    let mut lab = Lab::start(3).await;
    lab.registered().await;
    write(&lab, 1, "before").await;
    let dead = lab.follower_of(lab.leader().await);
    lab.kill(dead).await;
    let leader = lab.leader().await;
    let new = lab.invite(leader, Some(dead)).await;
    lab.boot(new).await.unwrap();
    let voters: Vec<u64> = (1..=4).filter(|id| *id != dead).collect();
    lab.voters(&voters).await;
    write(&lab, new, "after").await;
    lab.agree().await;
    // The cluster survives the loss of another node.
    let other = *lab.nodes.keys().find(|id| **id != lab.leader_now()).unwrap();
    lab.kill(other).await;
    write(&lab, lab.leader().await, "with-two-of-three").await;
    lab.boot(other).await.unwrap();

    let returned = lab.boot(dead).await.unwrap();
    let StopReason::Removed(why) = returned.wait_failed().await else { panic!() };
    assert!(why.contains(&format!("node {new} replaced it")), "{why}");
    lab.nodes.remove(&dead);
    lab.agree().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_removed_leader_hands_leadership_over_first() {
    let mut lab = Lab::start(3).await;
    lab.registered().await;
    let leader = lab.leader().await;
    lab.change(leader, remove(leader)).await.unwrap();
    let removed = lab.nodes.remove(&leader).unwrap();
    assert!(matches!(removed.wait_failed().await, StopReason::Removed(_)));
    let left: Vec<u64> = (1..=3).filter(|id| *id != leader).collect();
    lab.voters(&left).await;
    write(&lab, left[0], "after").await;
    lab.agree().await;
}

/// Whatever the step at which the leader is killed, the next one finishes the change.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_leader_finishes_the_change_of_a_killed_one() {
    for at in 0..4 {
        let mut lab = Lab::start(3).await;
        lab.registered().await;
        let leader = lab.leader().await;
        let replaced = lab.follower_of(leader);
        let new = lab.invite(leader, Some(replaced)).await;
        let joined = lab.boot(new).await.unwrap();
        let leads = lab.node(leader).clone();
        eventually("a step of the change", || {
            let reached = match at {
                0 => true,
                1 => leads.read(|machine| machine.incarnation(NodeId(new))).is_some(),
                2 => joined.read(Machine::revision) >= leads.read(Machine::revision),
                _ => leads.status().voters.contains(&NodeId(new)),
            };
            reached.then_some(())
        })
        .await;
        lab.kill(leader).await;
        lab.boot(leader).await.unwrap();
        let voters: Vec<u64> = (1..=4).filter(|id| *id != replaced).collect();
        let gone = lab.nodes.remove(&replaced).unwrap();
        lab.voters(&voters).await;
        assert!(matches!(gone.wait_failed().await, StopReason::Removed(_)));
        write(&lab, new, "after").await;
        lab.agree().await;
    }
}

/// A node that was down while the members changed does not know the leader when it returns, or only its invitation.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_was_down_catches_up_from_a_leader_that_it_does_not_know() {
    for knows_invitation in [false, true] {
        let mut lab = Lab::start(3).await;
        lab.registered().await;
        let (old, mut new) = (lab.leader().await, 0);
        let down = lab.follower_of(old);
        if knows_invitation {
            new = lab.invite(old, None).await;
        }
        lab.settle().await;
        lab.kill(down).await;
        let leader = lab.leader().await;
        if !knows_invitation {
            new = lab.invite(leader, None).await;
        }
        lab.boot(new).await.unwrap();
        lab.voters(&[1, 2, 3, 4]).await;
        lab.node(leader).transfer_leadership(Some(NodeId(new))).await;
        eventually("the new leader", || (lab.leader_now() == new).then_some(())).await;
        write(&lab, new, "meanwhile").await;
        lab.boot(down).await.unwrap();
        lab.agree().await;
        assert!(has_session(lab.node(down), "meanwhile"));
        lab.kill_all().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_voter_becomes_a_learner_and_a_voter_again() {
    let mut lab = Lab::start(3).await;
    lab.registered().await;
    let demoted = lab.leader().await;
    let set = |role| MembershipChange::SetRole { node: NodeId(demoted), role };
    lab.change(demoted, set(VotingRole::Learner)).await.unwrap();
    let others: Vec<u64> = (1..=3).filter(|id| *id != demoted).collect();
    lab.voters(&others).await;
    write(&lab, demoted, "through-a-learner").await;
    lab.change(others[0], set(VotingRole::Voter)).await.unwrap();
    lab.voters(&[1, 2, 3]).await;
    lab.agree().await;
    lab.kill_all().await;
}

/// Without its secret, a node does not join, whatever id it has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_without_the_secret_of_an_invitation_does_not_join() {
    let mut lab = Lab::start(3).await;
    lab.registered().await;
    let new = lab.invite(lab.leader().await, None).await;
    lab.dirs.insert(new, tempfile::tempdir().unwrap());
    let stranger = lab.boot(new).await.unwrap();
    eventually("a refusal", || {
        stranger.status().waiting_for.filter(|text| text.contains("no join token")).map(drop)
    })
    .await;
    assert_eq!(lab.node(1).read(|machine| machine.incarnation(NodeId(new))), None);
}

/// The joiner cannot be reached at its address until an operator corrects it. The cluster works all the time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_address_stops_only_the_change() {
    let mut lab = Lab::start(3).await;
    lab.registered().await;
    let leader = lab.leader().await;
    let right = lab.addresses_of_new(4);
    let nothing_listens = Address::parse("127.0.0.1:1").unwrap();
    let wrong = MemberAddresses { peer: nothing_listens, ..right.clone() };
    let new = lab.invite_at(leader, None, wrong).await;
    lab.boot(new).await.unwrap();
    eventually("the reason", || {
        lab.node(leader).status().change_waits_for.filter(|why| why.contains("unreachable"))
    })
    .await;
    write(&lab, leader, "meanwhile").await;
    assert_eq!(lab.node(leader).status().voters.len(), 3);
    let corrected =
        MembershipChange::Update { node: NodeId(new), addresses: Some(right), zone: None };
    lab.change(leader, corrected).await.unwrap();
    lab.voters(&[1, 2, 3, 4]).await;
    lab.agree().await;
}

/// A joiner whose disk is full receives nothing, and does not vote until it has space.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_joiner_with_a_full_disk_votes_when_it_has_space() {
    let mut lab = Lab::start(3).await;
    lab.registered().await;
    let leader = lab.leader().await;
    let new = lab.invite(leader, None).await;
    lab.free_bytes[&new].store(0, Ordering::Relaxed);
    lab.boot(new).await.unwrap();
    eventually("the reason", || lab.node(leader).status().change_waits_for).await;
    write(&lab, leader, "meanwhile").await;
    assert!(!lab.node(leader).status().voters.contains(&NodeId(new)));
    lab.free_bytes[&new].store(1 << 40, Ordering::Relaxed);
    lab.voters(&[1, 2, 3, 4]).await;
    lab.agree().await;
}

/// The leader loses its connections while the voters change. The others finish, and it follows them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_is_cut_off_while_the_voters_change_follows_the_others() {
    let mut lab = Lab::start(3).await;
    lab.registered().await;
    let leader = lab.leader().await;
    let new = lab.invite(leader, None).await;
    lab.boot(new).await.unwrap();
    eventually("a change of the voters", || {
        lab.node(leader).status().voters.contains(&NodeId(new)).then_some(())
    })
    .await;
    lab.links.isolate(leader, Flow::Cut);
    let other = lab.follower_of(leader);
    eventually("another leader", || {
        let now = lab.node(other).leadership().borrow().leader?;
        (now != NodeId(leader)).then_some(())
    })
    .await;
    write(&lab, other, "meanwhile").await;
    lab.links.isolate(leader, Flow::Open);
    lab.voters(&[1, 2, 3, 4]).await;
    lab.agree().await;
    assert!(has_session(lab.node(leader), "meanwhile"));
}

/// The nodes are cut into two parts while the voters change.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partition_while_the_voters_change_loses_nothing_and_the_change_is_finished() {
    let parts = [Part::Alone, Part::WithJoiner, Part::WithReplaced, Part::WithOther];
    join_all(parts.map(cut_while_the_voters_change)).await;
}

/// The part of the leader.
#[derive(Clone, Copy, Debug)]
enum Part {
    Alone,
    WithJoiner,
    WithReplaced,
    WithOther,
}

/// Writes as soon as the leader knows that the disks have space: a voter then accepts the entry that it has rejected.
async fn write_with_space(lab: &Lab, through: u64, session: &str) {
    let written = until_some("the leader to know of the space", LONG, async || {
        let written = lab.open(through, session).await;
        (!matches!(written, Err(ProposeError::DiskFull { .. }))).then_some(written)
    });
    written.await.unwrap().outcome.unwrap();
}

/// Followers with full disks keep the change unfinished: they receive heartbeats, and reject a command and all entries after it.
async fn cut_while_the_voters_change(part: Part) {
    let mut lab = Lab::start(4).await;
    lab.registered().await;
    let leader = lab.leader().await;
    let mut others = (1..=4).filter(|id| *id != leader);
    let [replaced, other, new] = [(); 3].map(|()| others.next().unwrap());
    let node = NodeId(new);
    let learns = MembershipChange::SetRole { node, role: VotingRole::Learner };
    lab.change(leader, learns).await.unwrap();
    lab.voters(&without(new)).await;
    write(&lab, leader, "before").await;
    lab.agree().await;
    // The change waits until the voters reach the new one.
    lab.links.set(other, new, Flow::Cut);
    let replace = MembershipChange::Replace { node, replaces: NodeId(replaced) };
    lab.change(leader, replace).await.unwrap();
    set_free(&lab, [replaced, other], 0);
    eventually("full disks", || {
        let is_low = |node: u64| lab.node(node).status().disk_low;
        (is_low(replaced) && is_low(other)).then_some(())
    })
    .await;
    let last = lab.node(leader).status().last_log_index;
    let before = Proposal::start(lab.node(leader), "before-the-cut");
    eventually("the entry of the command", || {
        (lab.node(leader).status().last_log_index > last).then_some(())
    })
    .await;
    lab.links.heal();
    eventually("both sets of voters", || {
        (lab.node(leader).status().voters.len() == 4).then_some(())
    })
    .await;
    let with_leader: &[u64] = match part {
        Part::Alone => &[leader],
        Part::WithJoiner => &[leader, new],
        Part::WithReplaced => &[leader, replaced],
        Part::WithOther => &[leader, other],
    };
    lab.cut_off(with_leader);
    set_free(&lab, [replaced, other], 1 << 40);
    // A part serves with a majority of both sets, or of the only set that it knows.
    let serves = match part {
        Part::Alone | Part::WithJoiner => Some(other),
        Part::WithReplaced => None,
        Part::WithOther => Some(leader),
    };
    if let Some(serves) = serves {
        write_with_space(&lab, serves, "meanwhile").await;
    } else {
        let after = Proposal::start(lab.node(leader), "after-the-cut");
        eventually("a leader without a quorum", || {
            (!lab.node(leader).status().has_quorum).then_some(())
        })
        .await;
        assert!(!after.is_acknowledged(), "acknowledged without a majority of both sets");
    }
    lab.links.heal();
    let left = lab.nodes.remove(&replaced).unwrap();
    lab.voters(&without(replaced)).await;
    assert!(matches!(left.wait_failed().await, StopReason::Removed(_)));
    write(&lab, new, "after").await;
    lab.agree().await;
    assert!(has_session(lab.node(other), "before"), "{part:?}");
    assert!(serves.is_none() || has_session(lab.node(new), "meanwhile"), "{part:?}");
    let acknowledged = before.end().await;
    assert!(acknowledged || !matches!(part, Part::WithOther), "the leader kept a majority");
    if acknowledged {
        assert!(has_session(lab.node(new), "before-the-cut"), "{part:?}: acknowledged and lost");
    }
}

/// A command that is proposed in the background.
struct Proposal {
    acknowledged: watch::Receiver<bool>,
    task: JoinHandle<()>,
}

impl Proposal {
    fn start(node: &RaftNode, session: &str) -> Self {
        let (node, command) = (node.clone(), open_session(session));
        let (sender, acknowledged) = watch::channel(false);
        let task = tokio::spawn(async move {
            let proposed = node.propose(command, Urgency::Immediate, soon()).await;
            sender.send_replace(proposed.is_ok());
        });
        Self { acknowledged, task }
    }

    fn is_acknowledged(&self) -> bool {
        *self.acknowledged.borrow()
    }

    async fn end(self) -> bool {
        self.task.await.unwrap();
        *self.acknowledged.borrow()
    }
}

/// The other ones of four nodes.
fn without(node: u64) -> Vec<u64> {
    (1..=4).filter(|id| *id != node).collect()
}

fn set_free(lab: &Lab, nodes: [u64; 2], bytes: u64) {
    for node in nodes {
        lab.free_bytes[&node].store(bytes, Ordering::Relaxed);
    }
}
