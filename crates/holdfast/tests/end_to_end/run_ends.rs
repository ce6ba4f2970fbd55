//! `holdfast run` when its lock is about to be lost, or after its own death: the command is dead before another
//! session holds the lock.

use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use crate::program::{DevCluster, Program, children, eventually, is_running, send, spawn};

const TTL: Duration = Duration::from_secs(3);
/// Prints two process ids, its own and a child's, and ignores SIGTERM.
const STUBBORN: &str = r#"trap "" TERM; sh -c 'trap "" TERM; while :; do sleep 0.05; done' & echo $$ $!; while :; do sleep 0.05; done"#;

/// The process ids that a command printed.
fn processes(program: &mut Program) -> Vec<u32> {
    let line = program.next_stdout_line();
    line.split(' ').map(|id| id.parse().unwrap()).collect()
}

/// Waits until all processes have ended, and returns the time.
fn gone(ids: &[u32]) -> Instant {
    eventually("the command is gone", || ids.iter().all(|id| !is_running(*id)));
    Instant::now()
}

fn run(cluster: &DevCluster, options: &[&str], script: &str) -> Program {
    let line = [&["run", "job", "--ttl", "3s"], options, &["--", "sh", "-c", script]].concat();
    cluster.spawn_client(&line)
}

/// Stops all nodes, so no later renewal succeeds: every acknowledged renewal was sent before.
fn stop_nodes(cluster: &DevCluster) -> Instant {
    cluster.node_pids().iter().for_each(|id| send(*id, Signal::SIGSTOP));
    Instant::now()
}

fn wake_nodes(cluster: &DevCluster) {
    cluster.node_pids().iter().for_each(|id| send(*id, Signal::SIGCONT));
}

#[test]
fn a_command_that_refuses_to_end_is_killed_with_its_group_before_the_ttl_is_over() {
    let cluster = DevCluster::start(&["--nodes", "3"]);
    let mut program = run(&cluster, &[], STUBBORN);
    let ids = processes(&mut program);
    let stopped = stop_nodes(&cluster);
    let dead = gone(&ids);
    let end = program.wait();
    wake_nodes(&cluster);
    assert!(dead < stopped + TTL, "{:?} after the last renewal", dead - stopped);
    assert_eq!(end.code, Some(76), "{}", end.stderr);
    end.assert_stderr_contains(["job is about to be lost"]);
    end.assert_stderr_contains([
        "job is lost: no renewal was acknowledged",
        "the command was stopped before anyone else could hold it",
    ]);
    // The next command starts after the end of the hold.
    cluster.client(&["run", "job", "--wait", "30s", "--", "true"]).assert_code(0);
}

#[test]
fn a_command_may_end_by_itself_after_sigterm() {
    let cluster = DevCluster::start(&["--nodes", "1"]);
    let script = "trap 'echo asked; exit 0' TERM; echo $$; while :; do sleep 0.05; done";
    let mut program = run(&cluster, &[], script);
    let ids = processes(&mut program);
    let stopped = stop_nodes(&cluster);
    let dead = gone(&ids);
    let end = program.wait();
    wake_nodes(&cluster);
    assert!(dead < stopped + TTL);
    assert_eq!((end.code, end.stdout.as_str()), (Some(76), "asked\n"), "{}", end.stderr);
}

#[test]
fn on_loss_can_skip_sigterm_or_ignore_the_loss() {
    let cluster = DevCluster::start(&["--nodes", "1"]);
    let script = "trap 'echo asked; exit 0' TERM; echo $$; while :; do sleep 0.05; done";
    let mut killed = run(&cluster, &["--on-loss", "kill"], script);
    let ids = processes(&mut killed);
    let stopped = stop_nodes(&cluster);
    assert!(gone(&ids) < stopped + TTL);
    let end = killed.wait();
    assert_eq!((end.code, end.stdout.as_str()), (Some(76), ""), "{}", end.stderr);
    wake_nodes(&cluster);

    let mut ignored = run(&cluster, &["--on-loss", "ignore"], "echo $$; read line; exit 5");
    let ids = processes(&mut ignored);
    // The stdin of the command is empty, so it ended at once, before a loss, and its exit code counts.
    gone(&ids);
    assert_eq!(ignored.wait().code, Some(5));
    let mut ignored = run(&cluster, &["--on-loss", "ignore"], "echo $$; sleep 4; exit 5");
    processes(&mut ignored);
    stop_nodes(&cluster);
    let line = ignored.next_stderr_line();
    assert!(line.contains("continues without it"), "{line}");
    wake_nodes(&cluster);
    let end = ignored.wait();
    assert_eq!(end.code, Some(5));
    assert!(!end.stderr.contains("may not be released"), "{}", end.stderr);
}

#[test]
fn max_hold_ends_the_command() {
    let cluster = DevCluster::start(&["--nodes", "1"]);
    let mut program = run(&cluster, &["--max-hold", "1s"], STUBBORN);
    let begun = Instant::now();
    let ids = processes(&mut program);
    let lasted = gone(&ids) - begun;
    let end = program.wait();
    assert!(lasted < TTL, "{lasted:?}");
    assert_eq!(end.code, Some(76));
    end.assert_stderr_contains(["its max_hold"]);
    let who = cluster.client(&["who", "job"]);
    assert!(who.stdout.starts_with("job is free"), "{}", who.stdout);
}

/// The next renewal is due after a third of this TTL, so only an event can report a loss within [`AT_ONCE`].
const LONG_TTL: [&str; 2] = ["--ttl", "1m"];
/// A loss detected by the next renewal comes later than this; a loss reported by an event comes within milliseconds.
const AT_ONCE: Duration = Duration::from_secs(5);

/// Each way in which another caller ends a hold whose session stays open: the command, and the holder's message.
#[test]
fn a_lock_that_others_take_away_ends_the_command_at_once_and_the_message_says_how() {
    let cluster = DevCluster::start(&["--nodes", "3"]);
    let force = ["unlock", "job", "--force", "--reason", "stuck"];
    let revoke =
        ["unlock", "job", "--ask", "--revoke", "--deadline", "50ms", "--reason", "patch day"];
    let release = ["unlock", "job", "--session", "mine"];
    for (words, expected) in [
        (&force[..], "an operator force-released the lock (reason: stuck)"),
        (&revoke[..], "deadline of a release request (reason: patch day)"),
        (&release[..], "the session no longer holds the lock"),
    ] {
        let line = ["run", "job", "--session", "mine", LONG_TTL[0], LONG_TTL[1], "--", "sh", "-c"];
        let mut program = cluster.spawn_client(&[&line[..], &[STUBBORN]].concat());
        let ids = processes(&mut program);
        let before = Instant::now();
        cluster.client(words).assert_code(0);
        let lasted = gone(&ids) - before;
        assert!(lasted < AT_ONCE, "{words:?}: {lasted:?}");
        let end = program.wait().assert_code(76);
        end.assert_stderr_contains([expected]);
        // For the first and the last command, another session may have held the lock before.
        let claims = end.stderr.contains("stopped before anyone else could hold it");
        let warns = end.stderr.contains("Another holder may have entered");
        assert!(claims != warns && (words == revoke || warns), "{}", end.stderr);
    }
}

#[test]
fn lock_and_elect_learn_at_once_that_an_operator_took_their_lock() {
    let cluster = DevCluster::start(&["--nodes", "1"]);
    let mut lock = cluster.spawn_client(&[&["lock", "job"], &LONG_TTL[..]].concat());
    lock.next_stdout_line();
    let elect = [&["elect", "primary"], &LONG_TTL[..], &["--", "sh", "-c", STUBBORN]].concat();
    let mut elect = cluster.spawn_client(&elect);
    let ids = processes(&mut elect);
    let before = Instant::now();
    for name in ["job", "elections/primary"] {
        cluster.client(&["unlock", name, "--force", "--reason", "stuck"]).assert_code(0);
    }
    gone(&ids);
    for end in [lock.wait(), elect.wait()] {
        assert_eq!(end.code, Some(76), "{}", end.stderr);
        end.assert_stderr_contains(["an operator force-released the lock (reason: stuck)"]);
    }
    assert!(before.elapsed() < AT_ONCE * 2, "{:?}", before.elapsed());
}

/// The node stops before the release, which would wait two minutes for it.
#[test]
fn further_signals_end_a_release_that_no_node_answers() {
    let ends = |mut program: Program| {
        eventually("the end", || {
            let has_ended = program.ended().is_some();
            if !has_ended {
                program.interrupt();
            }
            has_ended
        });
        let end = program.wait();
        end.assert_stderr_contains(["job may not be released"]);
    };
    let patient = ["--ttl", "10m", "--timeout", "2m"];
    let cluster = DevCluster::start(&["--nodes", "1"]);
    let mut holder = cluster.spawn_client(&[&["lock", "job"], &patient[..]].concat());
    holder.next_stdout_line();
    stop_nodes(&cluster);
    ends(holder);
    let cluster = DevCluster::start(&["--nodes", "1"]);
    let script = format!("kill -STOP {}; echo stopped", cluster.node_pids()[0]);
    let command = ["--", "sh", "-c", &script];
    let line = [&["run", "job"], &patient[..], &command].concat();
    let mut program = cluster.spawn_client(&line);
    assert_eq!(program.next_stdout_line(), "stopped");
    ends(program);
}

/// `kill -9` of `holdfast run`: the watchdog ends the command before the end of the lease.
#[test]
fn the_command_does_not_outlive_a_run_that_is_killed() {
    let cluster = DevCluster::start(&["--nodes", "1"]);
    let mut program = run(&cluster, &[], STUBBORN);
    let ids = processes(&mut program);
    let killed = Instant::now();
    program.kill();
    assert!(gone(&ids) < killed + TTL);
}

/// Signals for the command do not end the watchdog.
#[test]
fn the_watchdog_survives_the_signals_of_its_group() {
    let cluster = DevCluster::start(&["--nodes", "1"]);
    let script = STUBBORN.replace("TERM", "TERM INT HUP QUIT USR1");
    let mut program = run(&cluster, &[], &script);
    let ids = processes(&mut program);
    program.interrupt();
    send(ids[0], Signal::SIGUSR1);
    program.signal(Signal::SIGHUP);
    let answer = cluster.client(&["who", "job", "-o", "value"]);
    assert!(!answer.stdout.is_empty(), "{}", answer.stderr);
    let killed = Instant::now();
    program.kill();
    assert!(gone(&ids) < killed + TTL);
}

/// SIGSTOP of `holdfast run`: it can neither renew nor kill.
#[test]
fn the_command_does_not_outlive_the_lock_of_a_run_that_stands_still() {
    let cluster = DevCluster::start(&["--nodes", "1"]);
    let mut program = run(&cluster, &[], STUBBORN);
    let ids = processes(&mut program);
    program.signal(Signal::SIGSTOP);
    let stopped = Instant::now();
    let dead = gone(&ids);
    assert!(dead < stopped + TTL, "{:?} after the last renewal", dead - stopped);
    cluster.client(&["run", "job", "--wait", "30s", "--", "true"]).assert_code(0);
    program.signal(Signal::SIGCONT);
    let end = program.wait().assert_code(76);
    // The watchdog was in time, and the message says so.
    end.assert_stderr_contains(["stopped before anyone else could hold it"]);
}

/// A second request with an earlier deadline shortens the grace that the first one began.
#[test]
fn an_earlier_deadline_after_sigterm_ends_the_command_earlier() {
    let cluster = DevCluster::start(&["--nodes", "1"]);
    let script = "trap 'echo asked' TERM; echo $$; while :; do sleep 0.05; done";
    let line = ["run", "job", "--ttl", "5m", "--grace", "90s", "--", "sh", "-c", script];
    let mut program = cluster.spawn_client(&line);
    let ids = processes(&mut program);
    let revoke = |deadline: &str, reason: &str| {
        let line = ["unlock", "job", "--ask", "--revoke", "--deadline", deadline];
        cluster.client(&[&line[..], &["--reason", reason]].concat()).assert_code(0);
    };
    revoke("90s", "patch day");
    assert_eq!(program.next_stdout_line(), "asked");
    revoke("1s", "now");
    // This waits for less than 90 s.
    gone(&ids);
    program.wait().assert_code(76);
}

/// A waiting command, whose watchdog gets a signal before the lock is free.
fn waiter_with_signalled_watchdog(cluster: &DevCluster, signal: Signal) -> Program {
    let mut holder = cluster.spawn_client(&["lock", "job"]);
    holder.next_stdout_line();
    let mut waiter = cluster.spawn_client(&["run", "job", "--", "echo", "ran"]);
    assert!(waiter.next_stderr_line().starts_with("waiting for job"));
    let watchdog = children(waiter.id())[0];
    send(watchdog, signal);
    eventually("the signal arrives", || {
        let stat = std::fs::read_to_string(format!("/proc/{watchdog}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_none_or(|(_, state)| state.starts_with(['T', 'Z', 'X']))
    });
    holder.interrupt();
    assert_eq!(holder.wait().code, Some(0));
    waiter
}

#[test]
fn a_waiter_whose_watchdog_was_killed_starts_another_one() {
    let cluster = DevCluster::start(&["--nodes", "1"]);
    let end = waiter_with_signalled_watchdog(&cluster, Signal::SIGKILL).wait();
    assert_eq!((end.code, end.stdout.as_str()), (Some(0), "ran\n"), "{}", end.stderr);
}

#[test]
fn a_waiter_whose_watchdog_stands_still_starts_no_command_and_releases_the_lock() {
    let cluster = DevCluster::start(&["--nodes", "1"]);
    let end = waiter_with_signalled_watchdog(&cluster, Signal::SIGSTOP).wait();
    assert_eq!((end.code, end.stdout.as_str()), (Some(1), ""), "{}", end.stderr);
    end.assert_stderr_contains(["it did not answer within 10s"]);
    let who = cluster.client(&["who", "job"]);
    assert!(who.stdout.starts_with("job is free"), "{}", who.stdout);
}

/// The arguments with which the next command in the queue lists the live processes.
fn search(ids: &[u32]) -> String {
    let ids = ids.iter().map(u32::to_string).collect::<Vec<_>>().join(" ");
    format!(
        "for id in {ids}; do grep -q ') [^ZX] ' /proc/$id/stat 2>/dev/null && echo $id lives; done; echo looked"
    )
}

/// `kill -9` of `holdfast run`: the watchdog releases the lock before the TTL expires and after the death of the last
/// process.
#[test]
fn the_watchdog_of_a_run_that_is_killed_releases_the_lock_once_the_command_is_dead() {
    let cluster = DevCluster::start(&["--nodes", "1"]);
    let nested = format!(
        "{} run inner -- sh -c '{}'",
        env!("CARGO_BIN_EXE_holdfast"),
        STUBBORN.replace('\'', "'\\''")
    );
    let scripts = ["echo $$ $$; while :; do sleep 0.05; done", STUBBORN, &nested];
    let killed = ["plain", "stubborn", "nested"].into_iter().zip(scripts).map(|(lock, script)| {
        let run = [&["run", lock], &LONG_TTL[..], &["--", "sh", "-c", script]].concat();
        let mut program = cluster.spawn_client(&run);
        let ids = processes(&mut program);
        program.kill();
        (lock, ids)
    });
    for (lock, ids) in killed.collect::<Vec<_>>() {
        let search = search(&ids);
        let next = ["run", lock, "--wait", "40s", "--quiet", "--", "sh", "-c", &search];
        let next = cluster.client(&next);
        assert_eq!((next.code, next.stdout.as_str()), (Some(0), "looked\n"), "{}", next.stderr);
    }
}

/// A shell sends `kill -STOP %1` and `kill -9 %1` to the whole process group of `run`, and `timeout` moves the command
/// out of it. Below a shell with job control the watchdog leaves only the group, otherwise also the session.
#[test]
fn a_signal_for_the_whole_group_of_run_does_not_reach_the_watchdog() {
    let cluster = DevCluster::start(&["--nodes", "1"]);
    let start = |lock: &str, program: &str| {
        let mut command = Command::new(program);
        command.arg(env!("CARGO_BIN_EXE_holdfast")).args(["run", lock, "--ttl", "3s", "--"]);
        command.args(["timeout", "60", "sh", "-c", STUBBORN]).env_remove("HOLDFAST_SESSION");
        command.env("HOLDFAST_ADDR", format!("127.0.0.1:{}", cluster.port()));
        if program == "env" {
            command.process_group(0);
        }
        Program::start(command)
    };
    let signal_group = |program: &Program, signal: Signal| {
        killpg(Pid::from_raw(i32::try_from(program.id()).unwrap()), signal).unwrap();
    };
    let cases = [
        ("stopped", "env", Signal::SIGSTOP),
        ("stopped/session", "setsid", Signal::SIGSTOP),
        ("killed", "env", Signal::SIGKILL),
        ("killed/session", "setsid", Signal::SIGKILL),
    ];
    let begun = cases.map(|(lock, program, signal)| {
        let mut program = start(lock, program);
        let ids = processes(&mut program);
        signal_group(&program, signal);
        (lock, signal, program, ids)
    });
    for (lock, signal, mut program, ids) in begun {
        let search = search(&ids);
        let next = ["run", lock, "--wait", "40s", "--quiet", "--", "sh", "-c", &search];
        let next = cluster.client(&next);
        let result = (next.code, next.stdout.as_str());
        assert_eq!(result, (Some(0), "looked\n"), "{lock}: {}", next.stderr);
        if signal == Signal::SIGSTOP {
            signal_group(&program, Signal::SIGCONT);
            let end = program.wait();
            assert_eq!(end.code, Some(76), "{lock}: {}", end.stderr);
        }
    }
}

/// The watchdog is the parent of the command.
fn watchdog_of(process: u32) -> u32 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    stat.rsplit_once(')').unwrap().1.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// The pipe from which a watchdog reads.
fn orders_of(watchdog: u32) -> String {
    let is_read_pipe = |number: &String| {
        let link = std::fs::read_link(format!("/proc/{watchdog}/fd/{number}")).unwrap();
        let info = std::fs::read_to_string(format!("/proc/{watchdog}/fdinfo/{number}")).unwrap();
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:")).unwrap();
        link.to_str().unwrap().starts_with("pipe:") && flags.trim().ends_with(['0', '4'])
    };
    let folder = std::fs::read_dir(format!("/proc/{watchdog}/fd")).unwrap();
    let mut numbers = folder.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    format!("/proc/{watchdog}/fd/{}", numbers.find(is_read_pipe).unwrap())
}

/// Fills a pipe through a separate file descriptor.
pub(crate) fn fill(pipe: &str) {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let flags = nix::libc::O_NONBLOCK;
    let mut pipe = std::fs::OpenOptions::new().write(true).custom_flags(flags).open(pipe).unwrap();
    while pipe.write(&[b'\n'; 512]).is_ok() {}
    while pipe.write(b"\n").is_ok() {}
}

/// A full stderr pipe and a stopped watchdog do not delay the kill.
#[test]
fn a_full_pipe_and_a_stopped_watchdog_do_not_delay_the_kill() {
    for is_stderr in [true, false] {
        let cluster = DevCluster::start(&["--nodes", "1"]);
        let (reader, stderr) = std::io::pipe().unwrap();
        if is_stderr {
            use std::os::fd::AsRawFd;
            fill(&format!("/proc/self/fd/{}", stderr.as_raw_fd()));
        }
        let mut child = Command::new(env!("CARGO_BIN_EXE_holdfast"))
            .args(["run", "job", "--ttl", "3s", "--", "sh", "-c", STUBBORN])
            .env("HOLDFAST_ADDR", format!("127.0.0.1:{}", cluster.port()))
            .env_remove("HOLDFAST_SESSION")
            .stdin(std::process::Stdio::null())
            .stdout(std::process::Stdio::piped())
            .stderr(stderr)
            .spawn()
            .unwrap();
        let mut line = String::new();
        std::io::BufRead::read_line(
            &mut std::io::BufReader::new(child.stdout.take().unwrap()),
            &mut line,
        )
        .unwrap();
        let ids: Vec<u32> = line.trim().split(' ').map(|id| id.parse().unwrap()).collect();
        let watchdog = watchdog_of(ids[0]);
        send(watchdog, Signal::SIGSTOP);
        if !is_stderr {
            fill(&orders_of(watchdog));
        }
        // The next renewal writes into the pipe of the watchdog.
        cluster.client(&["wait", "job", "--free", "--wait", "2s"]).assert_code(75);
        let stopped = stop_nodes(&cluster);
        let dead = gone(&ids);
        assert!(dead < stopped + TTL, "{:?} after the last renewal", dead - stopped);
        wake_nodes(&cluster);
        drop(reader);
        child.wait().unwrap();
    }
}

/// A preloaded library that advances the suspend-aware clock against the clock of the timers, like a suspension.
const AHEAD: &str = r#"
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t clock, struct timespec *now) {
    int result = (int)syscall(SYS_clock_gettime, clock, now);
    if (clock == CLOCK_BOOTTIME && access(getenv("SUSPENDED_FILE"), F_OK) == 0) now->tv_sec += 3600;
    return result;
}
"#;

/// Compiles the library and returns its path.
fn held_back_timers(dir: &std::path::Path) -> String {
    let (source, library) = (dir.join("ahead.c"), dir.join("ahead.so"));
    std::fs::write(&source, AHEAD).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source);
    assert!(compiler.status().unwrap().success());
    library.to_str().unwrap().to_owned()
}

/// During a suspension timers stop, but the deadline does not: `run`, its watchdog alone, and `lock` detect the passed
/// deadline.
#[test]
fn after_a_suspension_beyond_the_deadline_the_command_is_killed_at_once() {
    let cluster = DevCluster::start(&["--nodes", "1"]);
    let address = format!("127.0.0.1:{}", cluster.port());
    for (name, run_is_stopped) in [("run", false), ("watchdog", true)] {
        let dir = tempfile::tempdir().unwrap();
        let (library, file) = (held_back_timers(dir.path()), dir.path().join("suspended"));
        let environment = [
            ("HOLDFAST_ADDR", address.as_str()),
            ("LD_PRELOAD", library.as_str()),
            ("SUSPENDED_FILE", file.to_str().unwrap()),
        ];
        let other = format!("other/{name}");
        let mut lock = spawn(&["lock", &other, "--ttl", "1m"], &environment);
        lock.next_stdout_line();
        let line = ["run", name, "--ttl", "1m", "--", "sh", "-c", STUBBORN];
        let mut program = spawn(&line, &environment);
        let ids = processes(&mut program);
        if run_is_stopped {
            program.signal(Signal::SIGSTOP);
        }
        let suspended = Instant::now();
        std::fs::write(&file, "").unwrap();
        let lasted = gone(&ids) - suspended;
        assert!(lasted < AT_ONCE, "{name}: {lasted:?} after the machine woke");
        assert_eq!(lock.wait_for(AT_ONCE).code, Some(76));
        if run_is_stopped {
            program.signal(Signal::SIGCONT);
        }
        program.wait().assert_code(76).assert_stderr_contains(["Another holder may have entered"]);
    }
}
