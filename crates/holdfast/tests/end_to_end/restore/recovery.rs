//! `holdfast recover`: a new cluster from one survivor that lags behind the lost nodes.

use std::process::Command;

use super::{
    TestNode, acquire, assert_all_of_the_service, cluster_of_three, give_to_a_service, json, text,
};
use crate::program::holdfast;

const ACCEPT: &str = "--i-accept-losing-acknowledged-writes";

#[tokio::test(flavor = "multi_thread")]
async fn a_lagging_survivor_becomes_a_new_cluster() {
    let dir = tempfile::tempdir().unwrap();
    let mut nodes = cluster_of_three(dir.path());
    let http = nodes[0].http();
    acquire(&http, "early", "old").await;
    // A linearizable read returns after its node has applied the acquire, so the disk of node 3 has the session.
    nodes[2].http().get("/v1/locks/early").await.assert_status(200);
    nodes[2].kill();
    let mut largest = 0;
    for number in 0..20 {
        largest = acquire(&http, &format!("late{number}"), "old").await;
    }
    let dirs: Vec<String> = nodes.iter().map(|node| text(&node.data_dir)).collect();
    holdfast(&["recover", "inspect", &dirs[0]])
        .assert_code(1)
        .assert_stderr_contains(["in use by another process"]);
    nodes.iter_mut().for_each(TestNode::kill);

    let inspect = ["recover", "inspect", &dirs[0], &dirs[1], &dirs[2]];
    let inspected = json(&inspect);
    let field = |node: usize, name: &str| inspected[node][name].clone();
    assert_eq!(field(2, "most_complete"), false, "{inspected}");
    assert!((0..2).any(|node| field(node, "most_complete") == true), "{inspected}");
    assert!(field(0, "last_token").as_u64() > field(2, "last_token").as_u64(), "{inspected}");
    assert!(holdfast(&inspect).stdout.contains("most complete"));

    // The command says what it needs, step by step.
    holdfast(&["recover", &dirs[2], "--lost", "1"])
        .assert_code(1)
        .assert_stderr_contains(["--lost 1,2"]);
    let unconfirmed = holdfast(&["recover", &dirs[2], "--lost", "1,2"]).assert_code(1);
    unconfirmed.assert_stderr_contains(["are lost for ever"]);
    let (_, command) = unconfirmed.stderr.trim().split_once(": holdfast ").unwrap();
    // A symbolic link to the directory stays, and leads to the new one.
    let link = format!("{}-link", dirs[2]);
    std::os::unix::fs::symlink(&dirs[2], &link).unwrap();
    let command = command.replace(&dirs[2], &link);
    give_to_a_service(&nodes[2].data_dir);
    let recovered = json(&command.split(' ').collect::<Vec<_>>());
    assert_eq!(recovered["sessions_ended"], 1, "{recovered}");
    assert_eq!(std::fs::read_link(&link).unwrap().display().to_string(), dirs[2]);
    let before = format!("{}.before-recovery", dirs[2]);
    assert!(std::path::Path::new(&before).join("log").is_dir());
    assert_all_of_the_service(&nodes[2].data_dir);

    let new = TestNode::start_alone(3, &nodes[2].data_dir);
    let first = acquire(&new.http(), "early", "new").await;
    assert!(first > largest, "{first} after {largest}");
    new.http().put("/v1/locks/early?session=old").await.assert_code(410, "session-expired");
    drop(new);
    // This node ran as root.
    give_to_a_service(&nodes[2].data_dir);
    holdfast(&["recover", "inspect", &dirs[1], &dirs[2]])
        .assert_code(1)
        .assert_stderr_contains(["different clusters"]);
    // The old directory is still there, so a second recovery of this one does not replace it.
    holdfast(&["recover", &dirs[2], "--lost", "1,2", ACCEPT])
        .assert_code(1)
        .assert_stderr_contains(["without another member"]);
}

/// The first command of the page for Kubernetes, as a shell of the pod runs it.
#[test]
fn the_page_for_kubernetes_moves_no_files_of_an_interrupted_recovery() {
    let page = include_str!("../../../../../docs/how-to/kubernetes-operations.md");
    let line = page.lines().find(|line| line.contains("mkdir survivor")).unwrap();
    let (_, script) = line.strip_suffix('\'').unwrap().split_once("sh -ec '").unwrap();
    for (sibling, moves) in [("recovering", false), ("before-recovery", false), ("", true)] {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("log")).unwrap();
        if !sibling.is_empty() {
            std::fs::create_dir(dir.path().join(format!("survivor.{sibling}"))).unwrap();
        }
        let output = Command::new("sh").args(["-ec", script]).current_dir(dir.path()).output();
        let output = output.unwrap();
        assert_eq!(output.status.success(), moves, "{sibling}");
        assert_eq!(dir.path().join("survivor/log").is_dir(), moves, "{sibling}");
        assert!(String::from_utf8_lossy(&output.stdout).contains(sibling));
    }
}

#[test]
fn a_directory_that_is_none_or_damaged_is_exit_code_1() {
    let dir = tempfile::tempdir().unwrap();
    holdfast(&["recover", "inspect", &text(dir.path())])
        .assert_code(1)
        .assert_stderr_contains(["is incomplete"]);
    holdfast(&["recover", "inspect"]).assert_code(2);
}
