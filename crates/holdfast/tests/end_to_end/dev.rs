//! The binary: a development cluster, and the client commands against it.
//!
//! The tests wait for lines, exits and replies, each with a deadline, and never for a fixed time.

use std::process::Command;
use std::time::Duration;

use holdfast_client::Client;
use nix::sys::signal::Signal;

use crate::program::{self, DevCluster, PortRange, holdfast, spawn};

#[test]
fn a_cluster_starts_with_one_command_and_prints_a_ready_line() {
    let cluster = DevCluster::start(&["--nodes", "3"]);
    let table = cluster.output_before_ready();
    assert!(table.contains("leader") && table.contains("follower"), "{table}");
    assert!(table.contains("/v1/locks/orders?$ME&wait=10s"), "{table}");
    assert_eq!(cluster.ready_line(), format!("ready http://127.0.0.1:{}", cluster.port()));

    let status = cluster.client(&["status", "-o", "json"]);
    let status: serde_json::Value = serde_json::from_str(&status.stdout).unwrap();
    assert_eq!(status["nodes"].as_array().unwrap().len(), 3);
    assert!(status["leader"].is_number(), "{status}");
}

#[test]
fn a_lock_is_acquired_shown_rejected_and_released() {
    let cluster = DevCluster::start(&["--nodes", "1"]);
    let mut holder =
        cluster.spawn_client(&["lock", "shop/orders", "--session", "me", "--label", "why=test"]);
    let token: u64 = holder.next_stdout_line().parse().unwrap();
    assert!(token > 0);

    let who = cluster.client(&["who", "shop/orders"]);
    assert!(who.stdout.starts_with("shop/orders is held by me ("), "{}", who.stdout);
    assert!(who.stdout.contains("why=test"), "{}", who.stdout);
    assert_eq!(cluster.client(&["who", "shop/orders", "-o", "value"]).stdout.trim(), "me");
    assert_eq!(cluster.client(&["ls", "shop", "-o", "value"]).stdout.trim(), "shop/orders");
    assert_eq!(cluster.client(&["ls", "other", "-o", "value"]).stdout.trim(), "");
    let none = cluster.client(&["ls", "other"]).stdout;
    assert_eq!(
        none,
        "no locks whose names start with \"other\" are held, waited for or in cooldown\n"
    );

    let refused = cluster.client(&["lock", "shop/orders", "--try"]).assert_code(75);
    assert!(refused.stdout.is_empty(), "{}", refused.stdout);
    refused.assert_stderr_contains(["held by me", "--wait"]);

    let stranger = cluster.client(&["unlock", "shop/orders", "--session", "you"]).assert_code(1);
    assert!(
        stranger.stderr.contains("held by me") && !stranger.stderr.contains("--session me"),
        "{}",
        stranger.stderr
    );

    holder.interrupt();
    assert_eq!(holder.wait().code, Some(0));
    assert!(cluster.client(&["who", "shop/orders"]).stdout.starts_with("shop/orders is free"));
}

#[test]
fn an_operator_requests_the_release_of_a_lock_and_breaks_it_with_a_reason() {
    let cluster = DevCluster::start(&["--nodes", "1"]);
    cluster
        .client(&["unlock", "job", "--force", "--reason", "stuck"])
        .assert_code(0)
        .assert_stderr_contains(["job is not held"]);
    let mut holder = cluster.spawn_client(&["lock", "job", "--session", "first"]);
    let token = holder.next_stdout_line();
    cluster
        .client(&["unlock", "job", "--ask", "--reason", "maintenance", "--deadline", "5m"])
        .assert_code(0)
        .assert_stderr_contains(["job", "first"]);
    let who = cluster.client(&["who", "job", "-o", "json"]);
    assert!(who.stdout.contains("maintenance"), "{}", who.stdout);
    cluster.client(&["unlock", "job", "--ask", "--holder", "you"]).assert_code(1);
    for args in [&["unlock", "job", "--force"][..], &["unlock", "job", "--reason", "x"]] {
        assert_eq!(cluster.client(args).code, Some(2), "{args:?}");
    }
    let broken =
        cluster.client(&["unlock", "job", "--force", "--reason", "host is gone"]).assert_code(0);
    let expected = format!("with token {}", token.trim());
    broken.assert_stderr_contains(["took job from first", &expected]);
    assert_eq!(holder.wait().code, Some(76), "the holder reports the loss");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_ends_more_holds_than_a_read_lists() {
    let cluster = DevCluster::start(&["--nodes", "1"]);
    let client = Client::new([format!("127.0.0.1:{}", cluster.port())]).unwrap();
    let mut guards = Vec::new();
    for _ in 0..105 {
        guards.push(client.lock("pool").shared().acquire().await.unwrap());
    }
    let forced = cluster.client(&["unlock", "pool", "--force", "--reason", "stuck"]).assert_code(0);
    assert_eq!(forced.stderr.matches("took pool from").count(), guards.len(), "{}", forced.stderr);
    let who = cluster.client(&["who", "pool"]).stdout;
    assert!(who.starts_with("pool is free"), "{who}");
}

#[test]
fn a_waiter_prints_the_holder_and_gets_the_lock_next() {
    let cluster = DevCluster::start(&["--nodes", "1"]);
    let mut holder = cluster.spawn_client(&["lock", "job", "--session", "first"]);
    let first: u64 = holder.next_stdout_line().parse().unwrap();
    let mut waiter = cluster.spawn_client(&["lock", "job", "--session", "second"]);
    let progress = waiter.next_stderr_line();
    assert!(progress.starts_with("waiting for job: held by first"), "{progress}");
    assert!(progress.ends_with("you are 1st of 1"), "{progress}");

    cluster.client(&["unlock", "job", "--session", "first"]).assert_code(0);
    let second: u64 = waiter.next_stdout_line().parse().unwrap();
    assert!(second > first, "tokens grow: {first}, {second}");
    waiter.interrupt();
    assert_eq!(waiter.wait().code, Some(0));
    holder.kill();
}

#[test]
fn permits_are_given_back_one_by_one() {
    let cluster = DevCluster::start(&["--nodes", "1"]);
    let mut holder =
        cluster.spawn_client(&["lock", "pool", "--session", "first", "--permits", "2/2"]);
    let token = holder.next_stdout_line();
    let one = ["unlock", "pool", "--session", "first", "--permits"];
    cluster.client(&[&one[..], &["1"]].concat()).assert_code(0);
    let who = cluster.client(&["who", "pool"]).stdout;
    assert!(who.contains("1 of 2 permits") && who.contains(&format!("token {token}")), "{who}");
    let many = cluster.client(&[&one[..], &["2"]].concat());
    assert!(many.code == Some(1) && many.stderr.contains("1 permits"), "{}", many.stderr);
    many.assert_stderr_contains(["all: holdfast unlock pool --session first)"]);
    assert_eq!(cluster.client(&[&one[..], &["0"]].concat()).code, Some(2));
    holder.kill();
}

#[test]
fn an_interrupted_waiter_leaves_the_queue() {
    let cluster = DevCluster::start(&["--nodes", "1"]);
    let mut holder = cluster.spawn_client(&["lock", "job", "--session", "first"]);
    holder.next_stdout_line();
    let mut waiter = cluster.spawn_client(&["lock", "job"]);
    waiter.next_stderr_line();
    waiter.interrupt();
    assert_eq!(waiter.wait().code, None, "SIGINT ended it");
    assert!(!cluster.client(&["who", "job"]).stdout.contains("waiting"));
    holder.kill();
}

#[test]
fn a_broken_lock_is_a_loss_with_its_own_exit_code() {
    let cluster = DevCluster::start(&["--nodes", "1"]);
    let mut holder = cluster.spawn_client(&["lock", "job", "--session", "me", "--ttl", "1s"]);
    holder.next_stdout_line();
    assert_eq!(cluster.client(&["unlock", "job", "--session", "me"]).code, Some(0));
    holder.wait().assert_code(76).assert_stderr_contains(["job is lost"]);
}

#[test]
fn a_node_uses_no_huge_pages() {
    let mut cluster = DevCluster::start(&["--nodes", "1"]);
    let status = format!("/proc/{}/status", cluster.node_pids()[0]);
    let status = std::fs::read_to_string(status).unwrap();
    assert!(status.lines().any(|line| line == "THP_enabled:\t0"), "{status}");
    cluster.program().interrupt();
}

#[test]
fn all_nodes_stop_with_their_cluster() {
    let mut cluster = DevCluster::start(&["--nodes", "3"]);
    let pids = cluster.node_pids();
    assert_eq!(pids.len(), 3);
    cluster.program().interrupt();
    assert_eq!(cluster.program().wait().code, Some(0));
    assert!(pids.iter().all(|pid| !program::is_running(*pid)), "{pids:?}");
}

#[test]
fn a_closed_terminal_stops_all_nodes_and_removes_the_temporary_directory() {
    let mut cluster = DevCluster::start(&["--nodes", "1"]);
    let kept = cluster.output_before_ready();
    let line = kept.lines().find(|line| line.starts_with("data and logs: ")).unwrap();
    let directory = line.split_whitespace().nth(3).unwrap().to_owned();
    assert!(std::path::Path::new(&directory).is_dir(), "{line}");
    cluster.program().signal(Signal::SIGHUP);
    assert_eq!(cluster.program().wait().code, Some(0));
    assert!(!std::path::Path::new(&directory).exists(), "{directory} is left");
}

#[test]
fn nodes_do_not_outlive_a_supervisor_that_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let mut cluster = DevCluster::start(&["--data", dir.path().to_str().unwrap()]);
    let pids = cluster.node_pids();
    cluster.program().kill();
    program::eventually("the nodes end", || pids.iter().all(|pid| !program::is_running(*pid)));
}

#[test]
fn a_node_that_dies_is_reported_and_the_others_continue() {
    let mut cluster = DevCluster::start(&["--nodes", "3"]);
    let victim = cluster.node_pids()[2];
    program::send(victim, Signal::SIGKILL);
    let line = cluster.program().next_stderr_line();
    assert!(line.contains(&format!("node 3 (pid {victim}) ended")), "{line}");
    let mut holder = cluster.spawn_client(&["lock", "job"]);
    holder.next_stdout_line();
    holder.kill();
}

#[test]
fn commands_kill_pause_and_restart_nodes_and_a_lock_stays_held() {
    let mut cluster = DevCluster::start(&["--nodes", "3", "--commands"]);
    let help = cluster.program().next_stderr_line();
    assert!(help.contains("kill N, pause N, resume N, restart N"), "{help}");
    let mut holder = cluster.spawn_client(&["lock", "job", "--session", "me"]);
    let token = holder.next_stdout_line();
    let pids = cluster.node_pids();
    for (command, events) in [
        ("kill 2", &["node 2 killed; 2 of 3 nodes run, the cluster has a quorum"][..]),
        ("pause 2", &["node 2 is not running: restart it first"]),
        ("restart 2", &["node 2 is starting", "node 2 restarted, ready; 3 of 3 nodes run"]),
        ("pause 3", &["node 3 paused; 2 of 3 nodes run, the cluster has a quorum"]),
        ("kill 1", &["node 1 killed; 1 of 3 nodes run, the cluster has no quorum"]),
        ("resume 3", &["node 3 resumed; 2 of 3 nodes run, the cluster has a quorum"]),
        ("restart 1", &["node 1 is starting", "node 1 restarted, ready; 3 of 3 nodes run"]),
        ("restart 3", &["node 3 is starting", "node 3 restarted, ready; 3 of 3 nodes run"]),
        ("kill 4", &["\"4\" is not a node: use 1 to 3"]),
    ] {
        cluster.program().write_line(command);
        for event in events {
            let line = cluster.program().next_stderr_line();
            assert!(line.contains(event), "{command}: {line}");
        }
        match command {
            "kill 2" => assert!(!program::is_running(pids[1])),
            "pause 3" => program::eventually("node 3 stops", || is_stopped(pids[2])),
            _ => {}
        }
    }
    let who = cluster.client(&["who", "job"]);
    assert!(
        who.stdout.contains("held by me") && who.stdout.contains(&format!("token {token}")),
        "{who:?}"
    );
    assert!(holder.ended().is_none(), "the holder never lost the lock");
    cluster.program().write_line("stop");
    assert_eq!(cluster.program().wait().code, Some(0));
}

/// Whether SIGSTOP has stopped a process.
fn is_stopped(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    status.lines().any(|line| line.starts_with("State:") && line.contains('T'))
}

#[test]
fn a_node_that_fails_by_itself_is_reported_with_its_last_error() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().to_str().unwrap();
    let mut cluster = DevCluster::start(&["--nodes", "1", "--data", data, "--commands"]);
    cluster.program().next_stderr_line();
    cluster.program().write_line("kill 1");
    cluster.program().next_stderr_line();
    std::fs::write(dir.path().join("node1/data/identity"), "damaged").unwrap();
    cluster.program().write_line("restart 1");
    cluster.program().next_stderr_line();
    let line = cluster.program().next_stderr_line();
    assert!(line.contains("ended: exit status: 70: failed to open the store"), "{line}");
    let line = cluster.program().next_stderr_line();
    assert!(line.contains("0 of 1 nodes run, the cluster has no quorum"), "{line}");
}

#[test]
fn a_cluster_without_nodes_ends_at_the_end_of_its_commands() {
    let mut cluster = DevCluster::start(&["--nodes", "1", "--commands"]);
    let program = cluster.program();
    program.next_stderr_line();
    program.write_line("kill 1");
    let line = program.next_stderr_line();
    assert!(line.contains("node 1 killed"), "{line}");
    program.close_input();
    program.wait().assert_code(1).assert_stderr_contains(["all nodes have ended"]);
}

#[test]
fn data_in_a_given_directory_is_kept_and_reused() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().to_str().unwrap();
    let mut cluster = DevCluster::start(&["--nodes", "3", "--data", data]);
    let mut holder = cluster.spawn_client(&["lock", "job", "--session", "me", "--ttl", "10m"]);
    let token = holder.next_stdout_line();
    holder.kill();
    cluster.program().interrupt();
    assert_eq!(cluster.program().wait().code, Some(0));

    let cluster = DevCluster::start(&["--data", data]);
    let who = cluster.client(&["who", "job"]);
    assert!(
        who.stdout.contains("held by me") && who.stdout.contains(&format!("token {token}")),
        "{}",
        who.stdout
    );
}

#[test]
fn a_port_in_use_is_named_with_the_flag() {
    let ports = PortRange::reserve();
    let port = ports.first();
    let taken = std::net::TcpListener::bind(("127.0.0.1", port)).unwrap();
    let end = holdfast(&["dev", "--nodes", "1", "--port", &port.to_string()]);
    drop(taken);
    assert_eq!(end.code, Some(1));
    end.assert_stderr_contains([&format!("port {port} (HTTP of node 1)"), "--port"]);
}

#[test]
fn the_error_for_an_unreachable_cluster_names_the_flag() {
    let ports = PortRange::reserve();
    let address = format!("127.0.0.1:{}", ports.first());
    let mut status = spawn(&["status", "--addr", &address], &[]);
    status
        .wait_for(Duration::from_secs(30))
        .assert_code(1)
        .assert_stderr_contains([&address, "HOLDFAST_ADDR"]);
}

/// The printed calls work as they are; a call without the access token or without TLS does not. A later start keeps the
/// certificates and the administrator.
#[test]
fn a_secure_cluster_prints_calls_that_work_and_refuses_others() {
    let data = tempfile::tempdir().unwrap();
    for round in ["1", "2"] {
        let dir = data.path().to_str().unwrap();
        let mut cluster = DevCluster::start(&["--nodes", "3", "--secure", "--data", dir]);
        let ready = format!("ready https://127.0.0.1:{}", cluster.port());
        assert_eq!(cluster.ready_line(), ready);
        let shown = cluster.output_before_ready().replace("$(date +%s)", round);
        let lines = |first: &[&str]| -> Vec<String> {
            let wanted =
                shown.lines().filter(|line| first.iter().any(|word| line.starts_with(word)));
            wanted.map(|line| line.split(" # ").next().unwrap().trim_end().to_owned()).collect()
        };
        let (variables, calls) = (lines(&["export ", "ME="]), lines(&["curl "]));
        assert_eq!((variables.len(), calls.len()), (4, 4), "{shown}");
        assert!(!shown.contains("zkCli"), "{shown}");
        let run = |line: &str| {
            let script = format!("{}\n{line} -sS", variables.join("\n"));
            let output = Command::new("sh").args(["-c", &script]).output().unwrap();
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{script}: {stderr}");
            String::from_utf8(output.stdout).unwrap()
        };
        let granted: serde_json::Value = serde_json::from_str(&run(&calls[0])).unwrap();
        let session = granted["session"].as_str().unwrap();
        let renewed: serde_json::Value = serde_json::from_str(&run(&calls[1])).unwrap();
        assert_eq!(renewed["token"], granted["token"], "{renewed}");
        assert!(run(&calls[2]).contains(session));
        let without = calls[2].replace(" -H @$HOLDFAST_ACCESS_TOKEN_FILE", "");
        assert!(run(&without).contains("\"code\":\"unauthenticated\""), "{without}");
        assert!(run(&calls[2].replace("https://", "http://")).contains("this port needs TLS"));
        assert_eq!(run(&calls[3]), "");
        // The attempt is over: the call that renewed does not acquire the lock again.
        assert!(run(&calls[1]).contains("\"code\":\"attempt-over\""));
        let holdfast = format!("{} doctor && :", env!("CARGO_BIN_EXE_holdfast"));
        run(&holdfast);
        cluster.program().signal(Signal::SIGTERM);
        assert_eq!(cluster.program().wait().code, Some(0));
    }
}
