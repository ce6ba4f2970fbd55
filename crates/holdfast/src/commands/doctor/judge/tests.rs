//! Every illness is shown to the judge, and named by it.

use std::time::Duration;

use super::super::finding::{Examination, Verdict};
use super::*;

/// A cluster of three as everybody sees it, node 1 leading.
fn view() -> ClusterBody {
    let node = |id: u64, role: &str| {
        format!(
            r#"{{"id":{id},"role":"{role}","http":"n{id}:7400","peer":"n{id}:7401","zookeeper":"n{id}:7402","applied":9,"healthy":true}}"#
        )
    };
    let nodes = [node(1, "leader"), node(2, "follower"), node(3, "follower")].join(",");
    let json = format!(r#"{{"cluster":"shop","term":3,"leader":1,"nodes":[{nodes}]}}"#);
    serde_json::from_str(&json).unwrap()
}

fn well() -> Node {
    let ready = r#"{"ok":true,"checks":[{"name":"leader","ok":true,"detail":"node 1 leads"}]}"#;
    Node {
        version: serde_json::from_str(r#"{"version":"0.1.0"}"#).unwrap(),
        ready: Ok(serde_json::from_str(ready).unwrap()),
        cluster: Ok(view()),
        disk_free: Some(1 << 40),
        ahead: Some(Ahead { at_least: -300, at_most: 800 }),
        took: Duration::from_millis(2),
    }
}

/// Three nodes that are well, and what is done to the second.
fn with(ill: impl FnOnce(&mut Node)) -> Vec<Finding> {
    let mut second = well();
    ill(&mut second);
    judged([Ok(well()), Ok(second), Ok(well())])
}

fn judged(nodes: [Result<Node, String>; 3]) -> Vec<Finding> {
    let seen =
        |(node, id): (Result<Node, String>, u32)| Seen { address: format!("n{id}:7400"), node };
    judge(&nodes.into_iter().zip(1..).map(seen).collect::<Vec<_>>(), "0.1.0")
}

fn of<'f>(found: &'f [Finding], check: &str) -> &'f Finding {
    let of_it = found.iter().filter(|finding| finding.check == check);
    of_it.max_by_key(|finding| finding.verdict).unwrap()
}

/// That nothing else is complained about, and that there is advice.
fn only(found: &[Finding], check: &str, verdict: Verdict) -> String {
    for finding in found {
        assert!(finding.check == check || finding.verdict == Verdict::Ok, "{finding:?}");
        assert_eq!(finding.next.is_some(), finding.verdict != Verdict::Ok, "{finding:?}");
    }
    assert_eq!(of(found, check).verdict, verdict, "{found:?}");
    of(found, check).found.clone()
}

#[test]
fn a_cluster_that_is_well_has_nothing_to_mend() {
    let found = with(|_| {});
    assert_eq!(Examination::of(found.clone()).verdict, Verdict::Ok, "{found:?}");
    assert_eq!(of(&found, "members").found, "3 of 3 healthy: survives the loss of 1");
    assert_eq!(of(&found, "cluster").found, "shop, 3 members");
    assert_eq!(of(&found, "leader").found, "node 1, term 3");
}

#[test]
fn an_address_that_does_not_answer_fails_alone() {
    let found = judged([Ok(well()), Err("connection refused".to_owned()), Ok(well())]);
    assert_eq!(only(&found, "answers", Verdict::Fail), "connection refused");
    let nobody = [(); 3].map(|()| Err("connection refused".to_owned()));
    assert_eq!(judged(nobody).len(), 3, "nothing else can be said");
}

#[test]
fn a_node_of_another_cluster_is_told_from_one_that_lags() {
    let other = with(|node| node.cluster.as_mut().unwrap().cluster = "test".to_owned());
    assert!(only(&other, "cluster", Verdict::Fail).contains("n2:7400 is of test"));
    let moved =
        with(|node| node.cluster.as_mut().unwrap().nodes[2].peer = "elsewhere:1".to_owned());
    only(&moved, "cluster", Verdict::Fail);
    let behind = with(|node| {
        let view = node.cluster.as_mut().unwrap();
        (view.term, view.leader) = (2, None);
    });
    let found = only(&behind, "leader", Verdict::Warn);
    assert!(found.contains("n2:7400 says none in term 2"), "{found}");
}

#[test]
fn without_a_leader_nothing_works() {
    let mut node = well();
    node.cluster.as_mut().unwrap().leader = None;
    let found = judged([Ok(node.clone()), Ok(node.clone()), Ok(node)]);
    only(&found, "leader", Verdict::Fail);
}

#[test]
fn members_that_are_missing_are_named_with_what_is_left_to_lose() {
    let mut node = well();
    let third = &mut node.cluster.as_mut().unwrap().nodes[2];
    (third.healthy, third.role) = (false, "unreachable".to_owned());
    let found = judged([Ok(node.clone()), Ok(node.clone()), Ok(node)]);
    let text = only(&found, "members", Verdict::Warn);
    assert!(text.starts_with("2 of 3 healthy: survives the loss of 0"), "{text}");
    assert!(text.ends_with("node 3 (n3:7400) is unreachable"), "{text}");
}

#[test]
fn a_node_that_is_not_ready_says_why() {
    let ill = r#"{"ok":false,"checks":[{"name":"storage","ok":false,"detail":"the disk failed"}]}"#;
    let found = with(|node| node.ready = Ok(serde_json::from_str(ill).unwrap()));
    assert_eq!(only(&found, "ready", Verdict::Fail), "storage: the disk failed");
}

#[test]
fn a_disk_that_fills_is_seen_before_it_is_full() {
    let filled = |free| with(|node| node.disk_free = Some(free));
    assert_eq!(only(&filled(512 << 20), "disk", Verdict::Warn), "512.0 MiB free");
    assert_eq!(only(&filled(1 << 20), "disk", Verdict::Fail), "1.0 MiB free");
}

#[test]
fn different_versions_are_all_named() {
    let found = with(|node| node.version.version = "0.2.0".to_owned());
    assert!(only(&found, "version", Verdict::Warn).contains("n2:7400 0.2.0"));
    let all: Vec<Seen> = vec![Seen { address: "n1:7400".to_owned(), node: Ok(well()) }];
    let older = of_versions(&all, "0.0.9").unwrap();
    assert_eq!(older.verdict, Verdict::Warn);
}

#[test]
fn only_clocks_that_are_certainly_apart_are_complained_about() {
    let told = |at_least| Some(Ahead { at_least, at_most: at_least + 1_100 });
    only(&with(|node| node.ahead = told(900)), "clocks", Verdict::Ok);
    let fast = with(|node| node.ahead = told(9_000));
    let text = only(&fast, "clocks", Verdict::Warn);
    assert!(
        text.starts_with("n2:7400 is at least ") && text.ends_with(" of this machine"),
        "{text}"
    );
    let slow = with(|node| node.ahead = told(-9_000));
    let text = only(&slow, "clocks", Verdict::Warn);
    assert!(text.ends_with("ahead of n2:7400"), "{text}");
    assert!(of_clocks(&[]).is_none());
}

#[test]
fn one_address_of_three_is_not_enough_to_be_safe() {
    let all = [Seen { address: "n1:7400".to_owned(), node: Ok(well()) }];
    let found = judge(&all, "0.1.0");
    let next = of(&found, "addresses").next.clone().unwrap();
    assert!(next.ends_with("HOLDFAST_ADDR=n1:7400,n2:7400,n3:7400"), "{next}");
}
