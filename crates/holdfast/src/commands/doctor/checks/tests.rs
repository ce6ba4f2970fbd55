//! One check finds each problem of a node or the cluster, and gives a next step.

use std::time::Duration;

use holdfast_types::NodeId;

use super::super::probe::ClockOffset;
use super::super::{DoctorReport, Severity};
use super::*;

/// The view of a cluster of three nodes with node 1 as the leader.
fn view() -> ClusterBody {
    let node = |id: u64, role: &str| {
        format!(
            r#"{{"id":{id},"role":"{role}","votes":true,"http":"n{id}:7400","peer":"n{id}:7401","zookeeper":"n{id}:7402","applied_revision":9,"healthy":true}}"#
        )
    };
    let nodes = [node(1, "leader"), node(2, "follower"), node(3, "follower")].join(",");
    let json = format!(
        r#"{{"cluster":"shop","cluster_id":"0c","level":1,"term":3,"leader":1,"nodes":[{nodes}]}}"#
    );
    serde_json::from_str(&json).unwrap()
}

fn healthy() -> ProbedNode {
    let ready = r#"{"ok":true,"checks":[{"name":"leader","ok":true,"detail":"node 1 leads"}]}"#;
    ProbedNode {
        version: serde_json::from_str(r#"{"version":"0.1.0"}"#).unwrap(),
        ready: Ok(serde_json::from_str(ready).unwrap()),
        cluster: Ok(view()),
        alarms: serde_json::from_str(r#"{"alarms":[],"unreachable":[]}"#).ok(),
        clock: Some(ClockOffset { at_least: -300, at_most: 800 }),
        took: Duration::from_millis(2),
    }
}

/// The findings for three healthy nodes after a change of the second node.
fn with(change: impl FnOnce(&mut ProbedNode)) -> Vec<Finding> {
    let mut second = healthy();
    change(&mut second);
    findings([Ok(healthy()), Ok(second), Ok(healthy())])
}

fn findings(nodes: [Result<ProbedNode, String>; 3]) -> Vec<Finding> {
    let probed = |(node, id): (Result<ProbedNode, String>, u32)| ProbedAddress {
        address: format!("n{id}:7400"),
        node,
    };
    check_all(&nodes.into_iter().zip(1..).map(probed).collect::<Vec<_>>(), "0.1.0")
}

fn of<'f>(found: &'f [Finding], check: &str) -> &'f Finding {
    let of_it = found.iter().filter(|finding| finding.check == check);
    of_it.max_by_key(|finding| finding.verdict).unwrap()
}

/// Asserts that no other check has a problem, and that each problem has a next step. Returns the text of the check.
fn only(found: &[Finding], check: &str, verdict: Severity) -> String {
    for finding in found {
        assert!(finding.check == check || finding.verdict == Severity::Ok, "{finding:?}");
        assert_eq!(finding.next.is_some(), finding.verdict != Severity::Ok, "{finding:?}");
    }
    assert_eq!(of(found, check).verdict, verdict, "{found:?}");
    of(found, check).found.clone()
}

#[test]
fn a_healthy_cluster_has_no_problems() {
    let found = with(|_| {});
    assert_eq!(DoctorReport::of(found.clone()).verdict, Severity::Ok, "{found:?}");
    assert_eq!(of(&found, "members").found, "3 of 3 voters healthy: survives the loss of 1");
    assert_eq!(of(&found, "cluster").found, "shop, 3 members");
    assert_eq!(of(&found, "leader").found, "node 1, term 3");
}

#[test]
fn an_address_that_does_not_answer_fails_alone() {
    let found = findings([Ok(healthy()), Err("connection refused".to_owned()), Ok(healthy())]);
    assert_eq!(only(&found, "answers", Severity::Fail), "connection refused");
    let unreachable = [(); 3].map(|()| Err("connection refused".to_owned()));
    assert_eq!(findings(unreachable).len(), 3, "no other check has data");
}

#[test]
fn a_node_of_another_cluster_and_a_node_that_lags_are_different_problems() {
    let other = with(|node| node.cluster.as_mut().unwrap().cluster = "test".to_owned());
    assert!(only(&other, "cluster", Severity::Fail).contains("n2:7400 belongs to test"));
    let same_name = with(|node| node.cluster.as_mut().unwrap().cluster_id = Some("0d".to_owned()));
    let found = only(&same_name, "cluster", Severity::Fail);
    assert!(found.contains("n2:7400 belongs to shop with the id 0d"), "{found}");
    let moved = with(|node| node.cluster.as_mut().unwrap().nodes[2].peer = "other:1".to_owned());
    only(&moved, "cluster", Severity::Fail);
    let behind = with(|node| {
        let view = node.cluster.as_mut().unwrap();
        (view.term, view.leader) = (2, None);
    });
    let found = only(&behind, "leader", Severity::Warn);
    assert!(found.contains("n2:7400: none in term 2"), "{found}");
}

#[test]
fn a_cluster_without_a_leader_fails() {
    let mut node = healthy();
    node.cluster.as_mut().unwrap().leader = None;
    let found = findings([Ok(node.clone()), Ok(node.clone()), Ok(node)]);
    only(&found, "leader", Severity::Fail);
}

#[test]
fn missing_members_are_named_with_the_number_of_failures_left() {
    let mut node = healthy();
    let third = &mut node.cluster.as_mut().unwrap().nodes[2];
    (third.healthy, third.role) = (false, "unreachable".to_owned());
    let found = findings([Ok(node.clone()), Ok(node.clone()), Ok(node)]);
    let text = only(&found, "members", Severity::Warn);
    assert!(text.starts_with("2 of 3 voters healthy: survives the loss of 0"), "{text}");
    assert!(text.ends_with("node 3 (n3:7400) is unreachable"), "{text}");
}

#[test]
fn members_without_a_vote_count_for_no_majority() {
    let members = |silent: usize| {
        let mut node = healthy();
        let nodes = &mut node.cluster.as_mut().unwrap().nodes;
        for id in [4, 5].map(NodeId) {
            nodes.push(NodeBody {
                id,
                votes: false,
                role: "learner".to_owned(),
                ..nodes[1].clone()
            });
        }
        nodes[silent].healthy = false;
        let found = findings([Ok(node.clone()), Ok(node.clone()), Ok(node)]);
        of(&found, "members").found.clone()
    };
    assert!(members(2).starts_with("2 of 3 voters healthy: survives the loss of 0; node 3"));
    assert!(members(4).starts_with("3 of 3 voters healthy: survives the loss of 1; node 5"));
}

#[test]
fn a_node_that_is_not_ready_is_reported_with_the_failed_check() {
    let unready =
        r#"{"ok":false,"checks":[{"name":"storage","ok":false,"detail":"the disk failed"}]}"#;
    let found = with(|node| node.ready = Ok(serde_json::from_str(unready).unwrap()));
    assert_eq!(only(&found, "ready", Severity::Fail), "storage: the disk failed");
}

#[test]
fn different_versions_are_all_named() {
    let found = with(|node| node.version.version = "0.2.0".to_owned());
    assert!(only(&found, "version", Severity::Warn).contains("n2:7400 0.2.0"));
    let all = vec![ProbedAddress { address: "n1:7400".to_owned(), node: Ok(healthy()) }];
    let older = check_versions(&all, "0.0.9").unwrap();
    assert_eq!(older.verdict, Severity::Warn);
}

#[test]
fn only_a_certain_offset_of_this_machine_from_every_node_is_a_warning() {
    let all_at = |at_least: i64| {
        let node = ProbedNode {
            clock: Some(ClockOffset { at_least, at_most: at_least + 1_100 }),
            ..healthy()
        };
        findings([Ok(node.clone()), Ok(node.clone()), Ok(node)])
    };
    only(&all_at(500), "clock", Severity::Ok);
    let text = only(&all_at(501), "clock", Severity::Warn);
    assert!(text.starts_with("this machine is at least 501ms behind every node"), "{text}");
    let text = only(&all_at(-9_000), "clock", Severity::Warn);
    assert!(text.starts_with("this machine is at least 7s ahead of every node"), "{text}");
    // The nodes report a clock that differs from theirs.
    let fast = Some(ClockOffset { at_least: 9_000, at_most: 10_100 });
    only(&with(|node| node.clock = fast), "clock", Severity::Ok);
    assert!(check_clock(&[]).is_none());
}

#[test]
fn one_address_of_three_is_a_warning() {
    for (address, all) in [
        ("n1:7400", "n1:7400,n2:7400,n3:7400"),
        ("https://n1:7400", "https://n1:7400,https://n2:7400,https://n3:7400"),
    ] {
        let one = [ProbedAddress { address: address.to_owned(), node: Ok(healthy()) }];
        let found = check_all(&one, "0.1.0");
        let next = of(&found, "addresses").next.clone().unwrap();
        assert!(next.ends_with(&format!("HOLDFAST_ADDR={all}")), "{next}");
    }
}

/// The findings for three nodes of which the first lists an alarm, after a change of all nodes.
fn with_alarm(name: &str, severity: &str, change: impl Fn(&mut ProbedNode)) -> Vec<Finding> {
    let json = format!(
        r#"{{"alarms":[{{"name":"{name}","severity":"{severity}","nodes":[1,2],"detail":"so it is","hint":"act","docs":"docs/operations.md#{name}"}}],"unreachable":[]}}"#
    );
    let mut node = healthy();
    change(&mut node);
    let mut first = node.clone();
    first.alarms = Some(serde_json::from_str(&json).unwrap());
    findings([Ok(first), Ok(node.clone()), Ok(node)])
}

#[test]
fn every_alarm_is_a_finding_with_its_severity() {
    let found = with_alarm("quota-near", "warning", |_| {});
    assert_eq!(only(&found, "alarms", Severity::Warn), "quota-near: so it is (node 1,2)");
    let next = of(&found, "alarms").next.as_deref();
    assert_eq!(next, Some("act; holdfast explain quota-near"));
    let found = with_alarm("diverged", "critical", |_| {});
    assert_eq!(only(&found, "alarms", Severity::Fail), "diverged: so it is (node 1,2)");
    let found = with_alarm("disk-low", "critical", |_| {});
    assert_eq!(only(&found, "alarms", Severity::Fail), "disk-low: so it is (node 1,2)");
}

/// A node without a leader is not ready, its view has no leader, and it raises an alarm.
#[test]
fn a_condition_with_an_alarm_is_one_finding() {
    let unready = |node: &mut ProbedNode| {
        let ready =
            r#"{"ok":false,"checks":[{"name":"leader","ok":false,"detail":"no leader is known"}]}"#;
        node.ready = Ok(serde_json::from_str(ready).unwrap());
        node.cluster.as_mut().unwrap().leader = None;
    };
    let found = with_alarm("no-leader", "critical", unready);
    assert_eq!(only(&found, "alarms", Severity::Fail), "no-leader: so it is (node 1,2)");
    let other = with_alarm("quota-near", "warning", unready);
    assert_eq!(of(&other, "ready").found, "leader: no leader is known");
    assert_eq!(of(&other, "leader").verdict, Severity::Fail);
    let mut node = healthy();
    let third = &mut node.cluster.as_mut().unwrap().nodes[2];
    (third.healthy, third.role) = (false, "unreachable".to_owned());
    node.alarms = serde_json::from_str(r#"{"alarms":[],"unreachable":[3]}"#).ok();
    let found = findings([Ok(node.clone()), Ok(node.clone()), Ok(node)]);
    let silent = "no answer from node 3: its alarms are unknown";
    assert_eq!(only(&found, "alarms", Severity::Warn), silent);
}
