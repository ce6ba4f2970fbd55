//! Exit codes that tell apart a busy lock, a lost lock and a deadlock, and what a command leaves behind that never ran.

use std::os::fd::AsRawFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::thread;

use nix::sys::signal::Signal;

use crate::program::{DevCluster, Program, eventually, holdfast, send};
use crate::run_ends::fill;

fn one() -> DevCluster {
    DevCluster::start(&["--nodes", "1"])
}

#[test]
fn run_and_elect_have_options_for_the_codes_of_a_busy_and_of_a_lost_lock() {
    let cluster = one();
    let mut holders = [("job", "run"), ("elections/job", "elect")].map(|(lock, command)| {
        let mut holder = cluster.spawn_client(&["lock", lock]);
        holder.next_stdout_line();
        (holder, command)
    });
    for (holder, command) in &mut holders {
        let busy = [*command, "job", "--try", "-q", "--busy-exit", "3", "--", "echo", "ran"];
        let end = cluster.client(&busy);
        assert_eq!((end.code, end.stdout.as_str()), (Some(3), ""), "{command}: {}", end.stderr);
        holder.interrupt();
        holder.wait();
    }
    for (lock, command) in [("job", "run"), ("elections/job", "elect")] {
        let line = [command, "job", "--lost-exit", "4", "--", "sh", "-c", "echo in; exec sleep 60"];
        let mut program = cluster.spawn_client(&line);
        assert_eq!(program.next_stdout_line(), "in");
        cluster.client(&["unlock", lock, "--force", "--reason", "test"]).assert_code(0);
        let end = program.wait();
        assert_eq!(end.code, Some(4), "{command}: {}", end.stderr);
        end.assert_stderr_contains(["is lost"]);
    }
}

/// The node knows the bounds of these values, the program those of the others.
#[test]
fn wrong_input_has_the_code_of_wrong_usage_whatever_rejects_it() {
    let cluster = one();
    for line in [
        "run job --max-hold 0s -- true",
        "run job --min-hold 0s -- true",
        "run job --permits 1/99999 -- true",
        "run job --shards 2 --shard 5 -- true",
        "run job job -- true",
        "lock a b c d e f g h i j k l m n o p q",
        "lock job --ttl 0s",
        "policy job --limit 99999",
        "unlock job --session me --permits 99999",
        "unlock job --ask --deadline 0s",
        "node log loud",
        "tree rm /zookeeper",
        "fence init --postgres --table a.b.c --lock job",
        "explain lock-bussy",
    ] {
        let end = cluster.client(&line.split(' ').collect::<Vec<_>>());
        assert_eq!((end.code, end.stdout.as_str()), (Some(2), ""), "{line}: {}", end.stderr);
    }
}

#[test]
fn a_full_queue_advises_no_longer_wait() {
    let cluster = one();
    let mut holder = cluster.spawn_client(&["lock", "job"]);
    holder.next_stdout_line();
    let waiter = cluster.spawn_client(&["lock", "job"]);
    eventually("the second command waits", || {
        cluster.client(&["who", "job", "-o", "json"]).stdout.contains("\"waiters\":1")
    });
    cluster
        .client(&["lock", "job", "--queue-max", "1", "--wait", "9s"])
        .assert_code(75)
        .assert_stderr_contains(["the queue is full, so raise --queue-max"]);
    drop(waiter);
}

#[test]
fn a_party_whose_session_ends_has_lost_no_lock() {
    let cluster = one();
    let mut party =
        cluster.spawn_client(&["barrier", "arrive", "b", "--parties", "2", "--wait", "30s"]);
    let sessions = || cluster.client(&["session", "ls", "-o", "value"]).stdout;
    eventually("the party waits", || !sessions().is_empty());
    cluster.client(&["session", "end", sessions().trim(), "--reason", "test"]).assert_code(0);
    party.wait().assert_code(75);
}

#[test]
fn the_loss_of_one_of_several_locks_names_it_and_releases_the_others() {
    let cluster = one();
    let held = ["sh", "-c", "echo in; exec sleep 60"];
    for line in [vec!["lock", "a", "b"], [&["run", "a", "b", "--"][..], &held].concat()] {
        let mut program = cluster.spawn_client(&line);
        program.next_stdout_line();
        cluster.client(&["unlock", "b", "--force", "--reason", "test"]).assert_code(0);
        program.wait().assert_code(76).assert_stderr_contains(["holdfast: b is lost"]);
        assert_eq!(cluster.client(&["who", "a"]).stdout, "a is free\n", "{line:?}");
    }
}

/// A terminal after ^S, or a stopped program at the end of a pipe.
#[test]
fn a_reader_that_does_not_read_ends_no_renewal_and_hides_no_loss() {
    let cluster = one();
    for (is_stdout, is_stopped) in [(true, false), (false, false), (true, true), (false, true)] {
        let (reader, full) = std::io::pipe().unwrap();
        fill(&format!("/proc/self/fd/{}", full.as_raw_fd()));
        let mut command = Command::new(env!("CARGO_BIN_EXE_holdfast"));
        command.args(["lock", "job", "--ttl", "1s"]).stdin(Stdio::null());
        command.env("HOLDFAST_ADDR", format!("127.0.0.1:{}", cluster.port()));
        command.env_remove("HOLDFAST_SESSION");
        if is_stdout {
            command.stdout(full).stderr(Stdio::null());
        } else {
            command.stdout(Stdio::null()).stderr(full);
        }
        let mut child = command.spawn().unwrap();
        eventually("the command holds the lock", || {
            cluster.client(&["who", "job"]).stdout.contains("job is held by")
        });
        cluster.client(&["unlock", "job", "--ask", "--reason", "patch day"]).assert_code(0);
        let free = cluster.client(&["wait", "job", "--free", "--wait", "3s"]);
        assert_eq!(free.code, Some(75), "the lock is renewed: {}", free.stderr);
        let expected = if is_stopped {
            send(child.id(), Signal::SIGTERM);
            0
        } else {
            cluster.client(&["unlock", "job", "--force", "--reason", "test"]).assert_code(0);
            76
        };
        eventually("the command ends", || child.try_wait().unwrap().is_some());
        assert_eq!(child.wait().unwrap().code(), Some(expected), "{is_stdout} {is_stopped}");
        assert!(cluster.client(&["who", "job"]).stdout.contains("job is free"));
        drop(reader);
    }
}

/// Two commands hold a lock each, and the commands below them want the other one.
#[test]
fn a_deadlock_of_nested_commands_is_detected_and_has_its_own_code() {
    let cluster = one();
    let holdfast = env!("CARGO_BIN_EXE_holdfast");
    let dir = tempfile::tempdir().unwrap();
    let ready = dir.path().join("ready").display().to_string();
    let below = |lock: &str, other: &str| {
        let script = format!(
            "touch {ready}-{lock}; until [ -e {ready}-{other} ]; do sleep 0.05; done
            {holdfast} run {other} -q -- true; echo $?"
        );
        cluster.spawn_client(&["run", lock, "--", "sh", "-c", &script])
    };
    let (mut a, mut b) = (below("a", "b"), below("b", "a"));
    let ends = [a.wait(), b.wait()];
    let mut codes = ends.each_ref().map(|end| end.stdout.trim().to_owned());
    codes.sort();
    assert_eq!(codes, ["0", "77"], "{} {}", ends[0].stderr, ends[1].stderr);
    let said = format!("{}{}", ends[0].stderr, ends[1].stderr);
    assert!(said.contains("waits for 'a'") && said.contains("waits for 'b'"), "{said}");
}

#[test]
fn the_minimum_hold_of_a_command_that_never_ran_does_not_count() {
    let cluster = one();
    let script = tempfile::NamedTempFile::new().unwrap();
    let not_executable = script.path().display().to_string();
    for (command, code) in [("/no/such/command", 127), ("/", 126), (&not_executable, 126)] {
        let run =
            |command| cluster.client(&["run", "job", "--try", "--min-hold", "10m", "--", command]);
        let end = run(command);
        assert_eq!(end.code, Some(code), "{}", end.stderr);
        let who = cluster.client(&["who", "job"]).stdout;
        assert!(who.starts_with("job is free"), "{command}: {who}");
    }
    cluster.client(&["run", "job", "--try", "--min-hold", "10m", "--", "false"]).assert_code(1);
    let busy = cluster.client(&["run", "job", "--try", "--", "true"]).assert_code(75);
    assert!(
        busy.stderr.starts_with("holdfast: job is free again in 9m5")
            && busy
                .stderr
                .contains("(its last holder set min_hold): try then, or queue with --wait 10m"),
        "{}",
        busy.stderr
    );
}

/// The exit codes of shells for a command that did not start are ordinary codes of a command that ran.
#[test]
fn the_minimum_hold_of_a_command_that_ran_counts_whatever_its_exit_code() {
    let cluster = one();
    for code in [126, 127] {
        let (lock, script) = (format!("job{code}"), format!("echo ran; exit {code}"));
        let line = ["run", &lock, "--try", "--min-hold", "10m", "--", "sh", "-c", &script];
        let end = cluster.client(&line);
        assert_eq!((end.code, end.stdout.as_str()), (Some(code), "ran\n"), "{}", end.stderr);
        let again = cluster.client(&line);
        assert_eq!((again.code, again.stdout.as_str()), (Some(75), ""), "{}", again.stderr);
    }
}

#[test]
fn a_forced_unlock_ends_a_minimum_hold_and_a_cooldown() {
    let cluster = one();
    let force = |lock: &str| {
        let end =
            cluster.client(&["unlock", lock, "--force", "--reason", "operator"]).assert_code(0);
        end.stderr
    };
    let is_free = |lock: &str| {
        cluster.client(&["run", lock, "--try", "--", "true"]).assert_code(0);
    };
    cluster.client(&["run", "rest", "--min-hold", "10m", "--", "true"]);
    // The policy's cooldown is another rule than the holder's minimum.
    let said = cluster.client(&["policy", "rest", "--cooldown", "0s"]).stderr;
    assert!(said.contains("holdfast unlock rest --force --reason TEXT ends it"), "{said}");
    assert_eq!(cluster.client(&["run", "rest", "--try", "--", "true"]).code, Some(75));
    let said = force("rest");
    assert!(said.contains("rest was unavailable for 9m5"), "{said}");
    is_free("rest");
    let mut holder = cluster.spawn_client(&["lock", "held", "--min-hold", "10m"]);
    holder.next_stdout_line();
    assert!(force("held").contains("took held from"));
    assert_eq!(holder.wait().code, Some(76));
    is_free("held");
    cluster.client(&["policy", "slow", "--cooldown", "10m"]);
    is_free("slow");
    force("slow");
    is_free("slow");
}

#[test]
fn a_lock_whose_token_nobody_can_read_is_released() {
    let cluster = one();
    let address = format!("127.0.0.1:{}", cluster.port());
    for script in [
        "$H lock job > /dev/full; echo $? >&2",
        "$H lock job other > /dev/full; echo $? >&2",
        "$H lock job -o json > /dev/full; echo $? >&2",
        "{ while [ -e $READER ]; do sleep 0.05; done; $H lock job; echo $? >&2; } | rm $READER",
    ] {
        let reader = tempfile::NamedTempFile::new().unwrap();
        let end = Command::new("sh")
            .args(["-c", script])
            .envs([("H", env!("CARGO_BIN_EXE_holdfast")), ("HOLDFAST_ADDR", &address)])
            .env("READER", reader.path())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&end.stderr);
        assert!(said.contains("could not be printed, so the lock is released"), "{said}");
        assert!(said.ends_with("\n1\n"), "{script}: {said}");
        assert!(cluster.client(&["who", "job"]).stdout.starts_with("job is free"), "{script}");
    }
}

/// The limit of threads is for users other than root, who may not read the original program.
#[test]
fn a_lock_whose_token_no_thread_can_print_is_released() {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("SKIPPED: only root can start a program as another user");
        return;
    }
    let cluster = one();
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("holdfast");
    std::fs::copy(env!("CARGO_BIN_EXE_holdfast"), &program).unwrap();
    for path in [folder.path(), program.as_path()] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let mut command = Command::new("prlimit");
    command.arg("--nproc=0").arg(&program).args(["lock", "job"]).uid(65_534).gid(65_534);
    command.env("HOLDFAST_ADDR", format!("127.0.0.1:{}", cluster.port()));
    command.env_remove("HOLDFAST_SESSION").current_dir("/");
    let end = Program::start(command).wait();
    assert_eq!((end.code, end.stdout.as_str()), (Some(1), ""), "{}", end.stderr);
    let expected = "could not be printed, so the lock is released";
    end.assert_stderr_contains([expected]);
    assert!(cluster.client(&["who", "job"]).stdout.starts_with("job is free"));
}

#[test]
fn lock_reports_on_stderr_that_it_holds() {
    let cluster = one();
    let mut holder = cluster.spawn_client(&["lock", "job"]);
    let token = holder.next_stdout_line();
    let said = holder.next_stderr_line();
    assert_eq!(said, format!("holdfast: holding job, token {token}; ^C or SIGTERM releases it"));
    holder.interrupt();
    assert_eq!(holder.wait().code, Some(0));
    eventually("a free lock", || cluster.client(&["who", "job"]).stdout.starts_with("job is free"));
}

/// A node that was away when the cluster was sealed knows no seal. Without a leader, it cannot tell.
#[test]
fn a_seal_cannot_be_ended_or_set_through_a_node_without_a_leader() {
    let cluster = DevCluster::start(&["--nodes", "3"]);
    let pids = cluster.node_pids();
    let third = format!("127.0.0.1:{}", cluster.port() + 20);
    send(pids[2], Signal::SIGSTOP);
    cluster.client(&["cluster", "seal", "--reason", "test"]).assert_code(0);
    send(pids[0], Signal::SIGSTOP);
    send(pids[1], Signal::SIGSTOP);
    send(pids[2], Signal::SIGCONT);
    eventually("the node knows no leader", || {
        holdfast(&["status", "--addr", &third]).code != Some(0)
    });
    let ends =
        [&["cluster", "unseal"][..], &["cluster", "seal", "--reason", "again"]].map(|line| {
            let third = third.clone();
            thread::spawn(move || holdfast(&[line, &["--addr", &third]].concat()))
        });
    let ends = ends.map(|end| end.join().unwrap());
    for pid in &pids {
        send(*pid, Signal::SIGCONT);
    }
    for end in ends {
        end.assert_code(1).assert_stderr_contains(["leader"]);
    }
    let status = cluster.client(&["cluster", "unseal"]);
    status.assert_code(0);
}
