//! `holdfast run` when its lock is about to be lost, or itself is gone: the command is dead before the lock is another's.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::program::{DevCluster, Program, eventually, is_running, send};

const TTL: Duration = Duration::from_secs(3);
/// Tells two process ids, its own and a child's, and cannot be asked to end.
const STUBBORN: &str = r#"trap "" TERM; sh -c 'trap "" TERM; while :; do sleep 0.05; done' & echo $$ $!; while :; do sleep 0.05; done"#;

/// The processes of a command that told its process ids.
fn processes(program: &mut Program) -> Vec<u32> {
    let line = program.next_stdout_line();
    line.split(' ').map(|id| id.parse().unwrap()).collect()
}

/// Waits until none of them runs any more; when that was.
fn gone(ids: &[u32]) -> Instant {
    eventually("the command is gone", || ids.iter().all(|id| !is_running(*id)));
    Instant::now()
}

fn run(cluster: &DevCluster, options: &[&str], script: &str) -> Program {
    let line = [&["run", "job", "--ttl", "3s"], options, &["--", "sh", "-c", script]].concat();
    cluster.spawn_client(&line)
}

/// The nodes stand still, so nothing is renewed from here on: whatever was acknowledged was sent before.
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
    assert!(end.stderr.contains("job is about to be lost"), "{}", end.stderr);
    assert!(
        end.stderr.contains("job is lost: no renewal was acknowledged")
            && end.stderr.contains("the command was stopped before anyone else could hold it"),
        "{}",
        end.stderr
    );
    // The next one begins when it is over.
    let next = cluster.client(&["run", "job", "--wait", "30s", "--", "true"]);
    assert_eq!(next.code, Some(0), "{}", next.stderr);
}

#[test]
fn a_command_that_is_asked_to_end_may_do_so_by_itself() {
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
fn a_command_need_not_be_asked_or_not_be_ended() {
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
    // Its stdin is empty, so it has ended at once: nothing was lost, and its code counts.
    gone(&ids);
    assert_eq!(ignored.wait().code, Some(5));
    let mut ignored = run(&cluster, &["--on-loss", "ignore"], "echo $$; sleep 4; exit 5");
    processes(&mut ignored);
    stop_nodes(&cluster);
    let line = ignored.next_stderr_line();
    assert!(line.contains("goes on without it"), "{line}");
    wake_nodes(&cluster);
    assert_eq!(ignored.wait().code, Some(5));
}

#[test]
fn a_command_may_hold_for_so_long_and_no_longer() {
    let cluster = DevCluster::start(&["--nodes", "1"]);
    let mut program = run(&cluster, &["--max-hold", "1s"], STUBBORN);
    let begun = Instant::now();
    let ids = processes(&mut program);
    let lasted = gone(&ids) - begun;
    let end = program.wait();
    assert!(lasted < TTL, "{lasted:?}");
    assert_eq!(end.code, Some(76));
    assert!(end.stderr.contains("as long as it may be"), "{}", end.stderr);
    let who = cluster.client(&["who", "job"]);
    assert!(who.stdout.starts_with("job is free"), "{}", who.stdout);
}

/// A renewal is due after a third of this, so nothing but an event tells of a loss within [`AT_ONCE`].
const LONG_TTL: [&str; 2] = ["--ttl", "1m"];
/// A loss that is learned of at the next renewal comes later than this; one that is told of comes in milliseconds.
const AT_ONCE: Duration = Duration::from_secs(5);

/// Each way in which others end a hold whose session lives on: the words of the command, and what the holder says.
#[test]
fn a_lock_that_others_take_away_ends_the_command_at_once_and_the_message_says_how() {
    let cluster = DevCluster::start(&["--nodes", "3"]);
    let force = ["unlock", "job", "--force", "--reason", "stuck"];
    let revoke = ["ask", "job", "--revoke", "--deadline", "50ms", "--reason", "patch day"];
    let release = ["unlock", "job", "--session", "mine"];
    for (words, said) in [
        (&force[..], "an operator took it away (reason: stuck)"),
        (&revoke[..], "deadline of a release request (reason: patch day)"),
        (&release[..], "the session no longer holds the lock"),
    ] {
        let line = ["run", "job", "--session", "mine", LONG_TTL[0], LONG_TTL[1], "--", "sh", "-c"];
        let mut program = cluster.spawn_client(&[&line[..], &[STUBBORN]].concat());
        let ids = processes(&mut program);
        let before = Instant::now();
        let taken = cluster.client(words);
        assert_eq!(taken.code, Some(0), "{}", taken.stderr);
        let lasted = gone(&ids) - before;
        assert!(lasted < AT_ONCE, "{words:?}: {lasted:?}");
        let end = program.wait();
        assert_eq!(end.code, Some(76), "{}", end.stderr);
        assert!(end.stderr.contains(said), "{}", end.stderr);
        // Whether somebody else could have it before is not known of the first and the last.
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
        let forced = cluster.client(&["unlock", name, "--force", "--reason", "stuck"]);
        assert_eq!(forced.code, Some(0), "{}", forced.stderr);
    }
    gone(&ids);
    for end in [lock.wait(), elect.wait()] {
        assert_eq!(end.code, Some(76), "{}", end.stderr);
        assert!(end.stderr.contains("an operator took it away (reason: stuck)"), "{}", end.stderr);
    }
    assert!(before.elapsed() < AT_ONCE * 2, "{:?}", before.elapsed());
}

/// `kill -9` of `holdfast run`: nobody renews, and the leash ends the command long before that matters.
#[test]
fn the_command_does_not_outlive_a_run_that_is_killed() {
    let cluster = DevCluster::start(&["--nodes", "1"]);
    let mut program = run(&cluster, &[], STUBBORN);
    let ids = processes(&mut program);
    let killed = Instant::now();
    program.kill();
    assert!(gone(&ids) < killed + TTL);
}

/// Signals that are meant for the command do not end the leash, however early they come.
#[test]
fn the_leash_outlives_the_signals_of_its_group() {
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

/// SIGSTOP of `holdfast run`: it cannot renew, and it cannot kill.
#[test]
fn the_command_does_not_outlive_the_lock_of_a_run_that_stands_still() {
    let cluster = DevCluster::start(&["--nodes", "1"]);
    let mut program = run(&cluster, &[], STUBBORN);
    let ids = processes(&mut program);
    program.signal(Signal::SIGSTOP);
    let stopped = Instant::now();
    let dead = gone(&ids);
    assert!(dead < stopped + TTL, "{:?} after the last renewal", dead - stopped);
    let next = cluster.client(&["run", "job", "--wait", "30s", "--", "true"]);
    assert_eq!(next.code, Some(0), "{}", next.stderr);
    program.signal(Signal::SIGCONT);
    let end = program.wait();
    assert_eq!(end.code, Some(76), "{}", end.stderr);
}
