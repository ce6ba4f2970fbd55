//! `holdfast group join`: the member stays until its command or its user ends it.

use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::process::{Command, Stdio};

use nix::sys::signal::Signal;

use crate::program::{DevCluster, Program, eventually, send, spawn};
use crate::run_ends::fill;

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
        cluster.client(&["session", "end", "web1", "--reason", "test"]).assert_code(0);
        let lost = program.next_stderr_line();
        assert!(lost.starts_with("holdfast: no longer in the group: "), "{lost}");
        assert_eq!(program.next_stderr_line(), "holdfast: in the group again");
        assert_eq!(members(&cluster), member);
    }
    program.signal(Signal::SIGTERM);
    program.wait().assert_code(143);
    assert_eq!(members(&cluster), "");
}

/// Whether a process handles SIGINT.
fn handles_interrupt(process: u32) -> bool {
    has_interrupt(process, "SigCgt:")
}

/// Whether a mask in the status of a process has SIGINT.
fn has_interrupt(process: u32, mask: &str) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix(mask)).unwrap();
    u64::from_str_radix(mask.trim(), 16).unwrap() & (1 << (Signal::SIGINT as u32 - 1)) != 0
}

#[test]
fn a_signal_ends_a_member_that_no_node_answers() {
    let nowhere = [("HOLDFAST_ADDR", "127.0.0.1:1")];
    for options in [&[][..], &["--session", "web1"]] {
        let line = [&["group", "join", "web"], options].concat();
        let mut program = spawn(&line, &nowhere);
        eventually("the command handles signals", || handles_interrupt(program.id()));
        program.interrupt();
        program.wait().assert_code(130).assert_stderr_contains(["SIGINT while joining web"]);
    }
}

/// Prints a line for each SIGINT, and at SIGTERM their number.
const COUNT: &str = r"n=0; trap 'n=$((n+1)); echo interrupted' INT; trap 'kill $!; echo $n; exit 0' TERM
sleep 600 >/dev/null 2>&1 & echo ready; while :; do wait; done";

#[test]
fn the_command_of_a_member_gets_each_interrupt_once() {
    let cluster = one();
    let terminal = nix::pty::openpty(None, None).unwrap();
    let slave = format!("/proc/{}/fd/{}", std::process::id(), terminal.slave.as_raw_fd());
    let mut session = Command::new("sh");
    // `setsid` makes the terminal that of the member.
    session.args(["-c", "exec setsid --ctty \"$@\" <\"$0\"", &slave]);
    session.args([env!("CARGO_BIN_EXE_holdfast"), "group", "join", "web", "--", "sh", "-c", COUNT]);
    session.env("HOLDFAST_ADDR", format!("127.0.0.1:{}", cluster.port()));
    session.env_remove("HOLDFAST_SESSION");
    let mut program = Program::start(session);
    assert_eq!(program.next_stdout_line(), "ready");
    let mut keyboard = std::fs::File::from(terminal.master);
    keyboard.write_all(b"\x03").unwrap();
    assert_eq!(program.next_stdout_line(), "interrupted");
    // Until then, another interrupt would be the same one.
    eventually("the member has read it", || !has_interrupt(program.id(), "ShdPnd:"));
    program.interrupt();
    assert_eq!(program.next_stdout_line(), "interrupted");
    program.signal(Signal::SIGTERM);
    let end = program.wait();
    assert_eq!((end.code, end.stdout.as_str()), (Some(0), "2\n"), "{}", end.stderr);
}

/// A terminal after ^S, or a stopped program at the end of a pipe.
#[test]
fn a_member_whose_output_nobody_reads_stays() {
    let cluster = one();
    let mut holder = cluster.spawn_client(&["lock", "clock"]);
    holder.next_stdout_line();
    let (reader, full) = std::io::pipe().unwrap();
    fill(&format!("/proc/self/fd/{}", full.as_raw_fd()));
    let mut child = Command::new(env!("CARGO_BIN_EXE_holdfast"))
        .args(["group", "join", "web", "--value", "a", "--ttl", "1s"])
        .env("HOLDFAST_ADDR", format!("127.0.0.1:{}", cluster.port()))
        .env_remove("HOLDFAST_SESSION")
        .stdin(Stdio::null())
        .stdout(full)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    eventually("the member has joined", || !members(&cluster).is_empty());
    let joined = members(&cluster);
    // The time of several renewals.
    cluster.client(&["wait", "clock", "--free", "--wait", "3s"]).assert_code(75);
    assert_eq!(members(&cluster), joined);
    send(child.id(), Signal::SIGTERM);
    eventually("the command ends", || child.try_wait().unwrap().is_some());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(members(&cluster), "");
    drop(reader);
}
