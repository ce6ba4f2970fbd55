//! `holdfast group join`: the member stays until its command or its user ends it.

use nix::sys::signal::Signal;

use crate::program::{DevCluster, eventually};

fn one() -> DevCluster {
    DevCluster::start(&["--nodes", "1"])
}

/// The members of the group `web`.
fn members(cluster: &DevCluster) -> String {
    cluster.client(&["group", "ls", "web", "-o", "jsonl"]).stdout
}

#[test]
fn a_member_with_a_named_session_joins_again_after_the_end_of_the_session() {
    let cluster = one();
    let value = ["--value", "10.0.0.7", "--ttl", "2s", "--", "sleep", "600"];
    let line = [&["group", "join", "web", "--session", "web1"][..], &value].concat();
    let mut program = cluster.spawn_client(&line);
    let member = "{\"session\":\"web1\",\"value\":\"10.0.0.7\"}\n";
    eventually("the member has joined", || members(&cluster) == member);
    for _ in 0..2 {
        let ended = cluster.client(&["session", "end", "web1", "--reason", "test"]);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        let lost = program.next_stderr_line();
        assert!(lost.starts_with("holdfast: no longer in the group: "), "{lost}");
        assert_eq!(program.next_stderr_line(), "holdfast: in the group again");
        assert_eq!(members(&cluster), member);
    }
    program.signal(Signal::SIGTERM);
    let end = program.wait();
    assert_eq!(end.code, Some(143), "{}", end.stderr);
    assert_eq!(members(&cluster), "");
}
