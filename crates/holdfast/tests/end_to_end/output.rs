//! The destination of results, failed writes of results, and the errors of wrong command lines.

use std::fs::File;
use std::process::{Command, Stdio};

use crate::program::{DevCluster, End, holdfast};

/// The tested binary with the addresses of a cluster.
fn command(cluster: &DevCluster, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_holdfast"));
    command.args(args).env("HOLDFAST_ADDR", format!("127.0.0.1:{}", cluster.port()));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn full() -> File {
    File::options().write(true).open("/dev/full").unwrap()
}

#[test]
fn a_result_that_cannot_be_written_is_reported_with_exit_code_1() {
    let cluster = DevCluster::start(&["--nodes", "1"]);
    assert_eq!(cluster.client(&["tree", "create", "/cfg", "x"]).code, Some(0));
    for args in [
        &["ls"][..],
        &["ls", "-o", "json"],
        &["ls", "-o", "jsonl", "--help"],
        &["status"],
        &["doctor", "--look-only"],
        &["who", "a"],
        &["lock", "a", "--session", "me"],
        &["top"],
        &["history", "a"],
        &["tree", "get", "/cfg"],
        &["tree", "ls", "/", "-r"],
        &["tree", "watch", "/", "--since", "1"],
        &["elect", "watch", "primary"],
        &["explain"],
        &["completions", "bash"],
        &["fence", "init", "--postgres"],
        &["--help"],
        &["help", "all"],
        &["--version"],
    ] {
        let output = command(&cluster, args).stdout(full()).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{args:?}: {stderr}");
        assert_eq!(
            stderr.matches("cannot write to stdout: No space left").count(),
            1,
            "{args:?}: {stderr}"
        );
    }
}

#[test]
fn the_first_help_has_the_common_commands_and_help_all_has_every_one() {
    let commands = |args: &[&str]| {
        let End { code, stdout, stderr } = holdfast(args);
        assert_eq!((code, stderr.as_str()), (Some(0), ""), "{args:?}");
        let list = stdout.split_once("\nOptions:").unwrap().0.to_owned();
        let name = |line: &str| Some(line.strip_prefix("  ")?.split(' ').next()?.to_owned());
        list.lines().filter_map(name).filter(|name| !name.is_empty()).collect::<Vec<_>>()
    };
    let (first, all) = (commands(&["--help"]), commands(&["help", "all"]));
    assert!(first.len() <= 21 && first.iter().all(|name| all.contains(name)), "{first:?}");
    for name in ["tree", "latch", "barrier", "counter", "group", "namespace", "node", "explain"] {
        assert!(
            all.iter().any(|one| one == name) && !first.iter().any(|one| one == name),
            "{name}"
        );
        assert_eq!(holdfast(&["help", name]).code, Some(0), "{name}");
    }
    assert!(!all.iter().any(|name| name == "manual"), "{all:?}");
    assert_eq!(holdfast(&["help", "alll"]).code, Some(2));
}

#[test]
fn a_closed_pipe_is_no_error_and_ends_a_stream() {
    let cluster = DevCluster::start(&["--nodes", "1"]);
    assert_eq!(cluster.client(&["tree", "create", "/cfg", "x"]).code, Some(0));
    for args in [&["status"][..], &["completions", "bash"], &["tree", "watch", "/", "--since", "1"]]
    {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = command(&cluster, args).stdout(writer).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), stderr.as_str()), (Some(0), ""), "{args:?}");
    }
}

#[test]
fn a_document_that_a_closed_pipe_cuts_short_is_a_failure() {
    let cluster = DevCluster::start(&["--nodes", "1"]);
    assert_eq!(cluster.client(&["tree", "create", "/cfg", "x"]).code, Some(0));
    let dir = cluster.data_dir();
    let addresses = "--peer 127.0.0.1:1 --http 127.0.0.1:2 --zookeeper 127.0.0.1:3";
    let addresses: Vec<&str> = addresses.split(' ').collect();
    for args in [
        &["backup"][..],
        &["tree", "get", "/cfg"],
        &["fence", "init", "--redis"],
        &["lock", "db", "--durable", "--owner", "carol", "--reason", "x", "--quiet"],
        &[&["member", "add"], &addresses[..]].concat(),
        &["auth", "bootstrap", "--mode", "off", "--data-dir", &dir],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = command(&cluster, args).stdout(writer).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{args:?}: {stderr}");
        assert!(stderr.contains("closed the pipe before the end"), "{args:?}: {stderr}");
    }
}

#[test]
fn an_empty_variable_counts_as_unset() {
    const NAMES: [&str; 5] = [
        "HOLDFAST_ACCESS_TOKEN_FILE",
        "HOLDFAST_ACCESS_TOKEN",
        "HOLDFAST_CACERT",
        "HOLDFAST_SESSION",
        "HOLDFAST_USER",
    ];
    let cluster = DevCluster::start(&["--nodes", "1"]);
    for args in [&["status"][..], &["tree", "ls", "/"], &["run", "a", "--", "true"]] {
        let output = command(&cluster, args).envs(NAMES.map(|name| (name, ""))).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(0), "{args:?}: {stderr}");
    }
    // It calls the default address, where no node or any node may listen.
    let output = command(&cluster, &["ls"]).env("HOLDFAST_ADDR", "").output().unwrap();
    assert_ne!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_wrong_value_is_exit_code_2_before_any_request() {
    for args in [
        &["lock", "a", "--ttl", "30"][..],
        &["lock", "a", "--ttl", "100ms"],
        &["lock", ""],
        &["who", "a//b"],
        &["ls", "--addr", "127.0.0.1"],
        &["lock", "a", "--addr", "ftp://127.0.0.1:1"],
        &["lock", "a", "--cacert", "/no/such/file"],
        &["lock", "a", "--cert", "/no/such/file"],
        &["unlock", "a", "--session", "a b"],
        &["tree", "get", "/a", "--user", "alice"],
    ] {
        let end = holdfast(args);
        assert_eq!((end.code, end.stdout.as_str()), (Some(2), ""), "{args:?}: {}", end.stderr);
    }
}

#[test]
fn an_address_from_the_environment_is_not_in_the_usage_of_an_error() {
    for args in [&["lock"][..], &["who"], &["lock", "a", "--ttl", "x"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_holdfast"));
        let output = command.args(args).env("HOLDFAST_ADDR", "127.0.0.1:1").output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(!stderr.contains("--addr"), "{stderr}");
    }
}

#[test]
fn a_command_without_two_dashes_gets_the_right_command_line() {
    let end = holdfast(&["run", "nightly", "echo", "hi"]).assert_code(2);
    let expected = "holdfast: write -- before the command: holdfast run nightly -- echo hi\n";
    assert_eq!(end.stderr, expected);
}

#[test]
fn timeouts_are_reported_with_the_options_of_the_command_line() {
    let cluster = DevCluster::start(&["--nodes", "1"]);
    assert_eq!(cluster.client(&["latch", "create", "l", "--count", "2"]).code, Some(0));
    for args in [
        &["latch", "wait", "l", "--wait", "10ms"][..],
        &["barrier", "arrive", "b", "--parties", "2", "--wait", "10ms"],
        &["barrier", "enter", "d", "--parties", "2", "--session", "s", "--wait", "10ms"],
    ] {
        let end = cluster.client(args);
        assert_eq!(end.code, Some(75), "{args:?}: {}", end.stderr);
        assert!(end.stderr.contains("wait longer with --wait"), "{args:?}: {}", end.stderr);
        assert!(!end.stderr.contains("&wait") && !end.stderr.contains("?wait"), "{}", end.stderr);
    }
}
