//! `holdfast elect`, multi-locks, and hand-over, on the command line.

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::program::{DevCluster, Program, eventually, is_running, send};

fn one() -> DevCluster {
    DevCluster::start(&["--nodes", "1"])
}

/// Prints its token and its process id, and runs until it is killed.
const SERVE: &str = "echo $HOLDFAST_ELECTION $HOLDFAST_TOKEN $$; while :; do sleep 0.05; done";

fn stand(cluster: &DevCluster, value: &str, options: &[&str], script: &str) -> Program {
    let line = [&["elect", "db", "--value", value], options, &["--", "sh", "-c", script]].concat();
    cluster.spawn_client(&line)
}

/// Returns the token and the process id of a command that leads.
fn leads(program: &mut Program) -> (u64, u32) {
    let line = program.next_stdout_line();
    let words: Vec<&str> = line.split(' ').collect();
    assert_eq!((words.len(), words[0]), (3, "db"), "{line}");
    (words[1].parse().unwrap(), words[2].parse().unwrap())
}

#[test]
fn a_command_runs_while_it_leads_and_the_next_candidate_follows() {
    let cluster = one();
    let mut first = stand(&cluster, "10.0.0.7", &["--session", "db1"], SERVE);
    let (token, _) = leads(&mut first);
    let mut second = stand(&cluster, "10.0.0.8", &[], SERVE);
    let progress = second.next_stderr_line();
    assert!(progress.starts_with("waiting for elections/db: held by db1"), "{progress}");
    let who = cluster.client(&["elect", "who", "db"]).stdout;
    assert!(who.starts_with("db is led by db1 at 10.0.0.7 for "), "{who}");
    assert!(who.contains("10.0.0.8"), "{who}");
    assert_eq!(cluster.client(&["elect", "who", "db", "-o", "value"]).stdout, "10.0.0.7\n");
    let rows = cluster.client(&["elect", "who", "db", "-o", "jsonl"]).stdout;
    let rows: Vec<Value> = rows.lines().map(|row| serde_json::from_str(row).unwrap()).collect();
    assert_eq!(rows[0]["leader"]["value"], "10.0.0.7");
    assert_eq!(rows[1]["candidate"]["value"], "10.0.0.8");
    let busy = cluster.client(&["elect", "db", "--try", "--quiet", "--", "echo", "ran"]);
    assert_eq!((busy.code, busy.stdout.as_str()), (Some(75), ""));
    let ls = cluster.client(&["elect", "ls"]).stdout;
    assert!(ls.contains("10.0.0.7") && ls.lines().count() == 2, "{ls}");
    assert_eq!(cluster.client(&["elect", "ls", "d", "-o", "value"]).stdout, "db\n");
    assert_eq!(cluster.client(&["elect", "ls", "x", "-o", "value"]).stdout, "");
    let mut watch = cluster.spawn_client(&["elect", "watch", "db", "-o", "value", "--count", "2"]);
    assert_eq!(watch.next_stdout_line(), "10.0.0.7");
    first.interrupt();
    first.wait();
    assert!(leads(&mut second).0 > token);
    assert_eq!(watch.next_stdout_line(), "10.0.0.8");
    assert_eq!(watch.wait().code, Some(0));
    second.interrupt();
    second.wait();
    let vacant = cluster.client(&["elect", "who", "db"]);
    assert_eq!((vacant.code, vacant.stdout.as_str()), (Some(0), "db has no leader\n"));
}

/// Sends the signal to `holdfast elect`. Its command is dead before another candidate leads with a greater token.
fn the_next_one_leads_after_the_end_of_the_command(signal: Signal) {
    let cluster = DevCluster::start(&["--nodes", "3"]);
    let mut first = stand(&cluster, "a", &["--ttl", "2s"], SERVE);
    let (token, process) = leads(&mut first);
    let mut second = stand(&cluster, "b", &["--ttl", "2s"], SERVE);
    eventually("the candidate", || {
        cluster.client(&["elect", "who", "db", "-o", "jsonl"]).stdout.lines().count() == 2
    });
    first.signal(signal);
    let (next, _) = leads(&mut second);
    assert!(!is_running(process), "the old command runs beside the new one");
    assert!(next > token);
    if signal == Signal::SIGSTOP {
        first.signal(Signal::SIGCONT);
        first.wait().assert_code(76);
    }
    second.interrupt();
    second.wait();
}

#[test]
fn the_command_of_a_killed_leader_is_dead_before_the_next_one_leads() {
    the_next_one_leads_after_the_end_of_the_command(Signal::SIGKILL);
}

#[test]
fn the_command_of_a_stopped_leader_is_dead_before_the_next_one_leads() {
    the_next_one_leads_after_the_end_of_the_command(Signal::SIGSTOP);
}

#[test]
fn forever_repeats_the_candidacy_until_a_signal_or_a_failed_start() {
    let cluster = one();
    let dir = tempfile::tempdir().unwrap();
    let flag = dir.path().join("again");
    let script = format!(
        "echo $HOLDFAST_ELECTION $HOLDFAST_TOKEN $$; test -e {0} || {{ touch {0}; exit 127; }}; while :; do sleep 0.05; done",
        flag.display()
    );
    let mut program = stand(&cluster, "a", &["--forever", "--ttl", "2s"], &script);
    let (first, _) = leads(&mut program);
    let (second, _) = leads(&mut program);
    assert!(second > first);
    cluster.client(&["unlock", "elections/db", "--force", "--reason", "test"]).assert_code(0);
    let (third, _) = leads(&mut program);
    assert!(third > second);
    program.signal(Signal::SIGTERM);
    program.wait().assert_code(143);
    cluster.client(&["elect", "db", "--forever", "--", "/no/such/command"]).assert_code(127);
    // A signal also ends a candidate that does not lead.
    let mut leader = stand(&cluster, "a", &[], SERVE);
    leads(&mut leader);
    let mut waits = stand(&cluster, "b", &["--forever"], SERVE);
    waits.next_stderr_line();
    waits.interrupt();
    assert_eq!(waits.wait().code, None, "SIGINT ends it");
    leader.interrupt();
    leader.wait();
}

/// The outage is longer than the ttl of a candidate that never led: it loses its place, and is a candidate again.
#[test]
fn forever_continues_after_an_outage_that_ends_the_place_in_the_queue() {
    let cluster = one();
    let mut leader = cluster.spawn_client(&["lock", "elections/db", "--ttl", "5m"]);
    leader.next_stdout_line();
    let options = ["elect", "db", "--forever", "--ttl", "1s", "--timeout", "1s"];
    let command = ["--", "sh", "-c", "echo leads; exec sleep 60"];
    let mut candidate = cluster.spawn_client(&[&options[..], &command].concat());
    assert!(candidate.next_stderr_line().starts_with("waiting for elections/db"));
    let nodes = cluster.node_pids();
    for node in &nodes {
        send(*node, Signal::SIGSTOP);
    }
    // The attempt ends with its time limit, and the next one as well.
    for reason in ["no node answered in 1s"; 2] {
        while !candidate.next_stderr_line().contains(reason) {}
    }
    for node in &nodes {
        send(*node, Signal::SIGCONT);
    }
    leader.interrupt();
    assert_eq!(leader.wait().code, Some(0));
    assert_eq!(candidate.next_stdout_line(), "leads");
    candidate.signal(Signal::SIGTERM);
    assert_eq!(candidate.wait().code, Some(143));
}

#[test]
fn several_locks_are_held_together_with_a_token_each() {
    let cluster = one();
    let script = "echo \"$HOLDFAST_TOKENS\"; echo \"none: $HOLDFAST_TOKEN$HOLDFAST_LOCK\"";
    let end = cluster.client(&["run", "b", "a", "--", "sh", "-c", script]).assert_code(0);
    let lines: Vec<&str> = end.stdout.lines().collect();
    assert!(lines[0].starts_with("a ") && lines[1].starts_with("b "), "{lines:?}");
    assert_eq!(lines[2], "none: ");
    let mut both = cluster.spawn_client(&["lock", "a", "b", "--session", "web1"]);
    let tokens = [both.next_stdout_line(), both.next_stdout_line()];
    assert!(tokens[0].starts_with("a ") && tokens[1].starts_with("b "), "{tokens:?}");
    assert_eq!(cluster.client(&["who", "b", "-o", "value"]).stdout, "web1\n");
    let busy = cluster.client(&["run", "c", "b", "--try", "--", "echo", "ran"]);
    assert_eq!((busy.code, busy.stdout.as_str()), (Some(75), ""));
    busy.assert_stderr_contains(["held by web1"]);
    assert!(cluster.client(&["who", "c"]).stdout.starts_with("c is free"));
    let mut waiting = cluster.spawn_client(&["run", "c", "b", "--", "echo", "ran"]);
    let progress = waiting.next_stderr_line();
    assert!(progress.starts_with("waiting for b: held by web1"), "{progress}");
    both.interrupt();
    assert_eq!(both.wait().code, Some(0));
    assert_eq!(waiting.wait().stdout, "ran\n");
    for line in [
        &["run", "a", "b", "--permits", "1", "--", "true"][..],
        &["lock", "a", "b", "--value", "x"],
        &["run", "a", "b", "--min-hold", "1s", "--", "true"],
    ] {
        assert_eq!(cluster.client(line).code, Some(2), "{line:?}");
    }
    let mut json = cluster.spawn_client(&["lock", "a", "b", "-o", "json"]);
    let body: Value = serde_json::from_str(&json.next_stdout_line()).unwrap();
    assert_eq!(body["grants"].as_array().map(Vec::len), Some(2));
    json.interrupt();
    json.wait();
}

/// The test breaks one of several locks: `run` stops the command and releases all locks.
#[test]
fn the_loss_of_one_lock_of_several_stops_the_command() {
    let cluster = one();
    let script = "echo begun; while :; do sleep 0.05; done";
    let mut program =
        cluster.spawn_client(&["run", "a", "b", "--ttl", "2s", "--", "sh", "-c", script]);
    assert_eq!(program.next_stdout_line(), "begun");
    cluster.client(&["unlock", "b", "--force", "--reason", "test"]).assert_code(0);
    program.wait().assert_code(76);
    eventually("a is released", || cluster.client(&["who", "a"]).stdout.starts_with("a is free"));
}

#[test]
fn a_lock_is_handed_to_another_session() {
    let cluster = one();
    let mut holder = cluster.spawn_client(&["lock", "a", "--session", "web1", "--ttl", "2s"]);
    let token: u64 = holder.next_stdout_line().parse().unwrap();
    cluster
        .client(&["unlock", "a", "--session", "web1", "--to", "web2"])
        .assert_code(1)
        .assert_stderr_contains(["not an open session"]);
    let mut other = cluster.spawn_client(&["lock", "b", "--session", "web2"]);
    other.next_stdout_line();
    let handed = cluster
        .client(&["unlock", "a", "--session", "web1", "--to", "web2", "-o", "value"])
        .assert_code(0);
    assert!(handed.stdout.trim().parse::<u64>().unwrap() > token, "{}", handed.stdout);
    assert_eq!(cluster.client(&["who", "a", "-o", "value"]).stdout, "web2\n");
    assert_eq!(holder.wait().code, Some(76), "its next renewal reports the loss");
    let force = ["unlock", "a", "--to", "x", "--force", "--reason", "r"];
    assert_eq!(cluster.client(&force).code, Some(2));
    other.interrupt();
    other.wait();
}
