//! `holdfast run` while its lock is safe: environment, exit codes, signals, waiting, nesting.

use crate::program::{DevCluster, spawn};

fn one() -> DevCluster {
    DevCluster::start(&["--nodes", "1"])
}

fn is_free(cluster: &DevCluster, lock: &str) -> bool {
    cluster.client(&["who", lock]).stdout.starts_with(&format!("{lock} is free"))
}

#[test]
fn the_command_gets_lock_token_session_and_addresses_and_stdout_is_its_own() {
    let cluster = one();
    let script =
        "echo $HOLDFAST_LOCK; echo $HOLDFAST_TOKEN; echo $HOLDFAST_SESSION; echo $HOLDFAST_ADDR";
    let end = cluster.client(&["run", "shop/nightly", "--", "sh", "-c", script]).assert_code(0);
    let lines: Vec<&str> = end.stdout.lines().collect();
    assert_eq!(lines[0], "shop/nightly");
    assert!(lines[1].parse::<u64>().unwrap() > 0);
    assert!(lines[2].contains('-'), "{}", lines[2]);
    assert!(lines[3].starts_with(&format!("127.0.0.1:{}", cluster.port())), "{}", lines[3]);
    assert_eq!((lines.len(), end.stderr.as_str()), (4, ""));
    assert!(is_free(&cluster, "shop/nightly"));
}

/// A guard beside other holders raises its mark to the floor only.
#[test]
fn the_command_gets_the_floor_of_a_shared_lock_and_of_a_permit() {
    let cluster = one();
    let program = env!("CARGO_BIN_EXE_holdfast");
    let show = "echo $HOLDFAST_TOKEN $HOLDFAST_MIN_VALID_TOKEN";
    for option in ["--shared", "--permits=1/2"] {
        let lock = format!("page{}", option.len());
        let script =
            format!("{show}; {program} run {lock} {option} --session other -q -- sh -c '{show}'");
        let end = cluster.client(&["run", &lock, option, "-q", "--", "sh", "-c", &script]);
        let numbers: Vec<u64> =
            end.assert_code(0).stdout.split_whitespace().map(|n| n.parse().unwrap()).collect();
        let [outer, outer_floor, inner, floor] = numbers[..] else { panic!("{numbers:?}") };
        assert_eq!((outer_floor, floor), (outer, outer), "{option}");
        assert!(inner > outer, "{option}");
    }
    let script = "echo \"$HOLDFAST_TOKENS\"; echo \"$HOLDFAST_MIN_VALID_TOKENS\"; echo none: $HOLDFAST_MIN_VALID_TOKEN";
    let end = cluster.client(&["run", "b", "a", "--", "sh", "-c", script]).assert_code(0);
    let lines: Vec<&str> = end.stdout.lines().collect();
    assert_eq!((&lines[..2], lines[4]), (&lines[2..4], "none:"));
}

#[test]
fn the_exit_code_is_the_exit_code_of_the_command() {
    let cluster = one();
    for (script, code) in
        [("exit 0", 0), ("exit 7", 7), ("kill -TERM $$", 143), ("kill -KILL $$", 137)]
    {
        let end = cluster.client(&["run", "job", "--", "sh", "-c", script]);
        assert_eq!((end.code, end.stderr.as_str()), (Some(code), ""), "{script}");
    }
    cluster
        .client(&["run", "job", "--", "/no/such/command"])
        .assert_code(127)
        .assert_stderr_contains(["/no/such/command"]);
    cluster.client(&["run", "job", "--", "/"]).assert_code(126);
    assert!(is_free(&cluster, "job"));
}

#[test]
fn a_busy_lock_is_75_and_the_command_does_not_run() {
    let cluster = one();
    let mut holder = cluster.spawn_client(&["lock", "job", "--session", "web-3"]);
    holder.next_stdout_line();
    for options in [&["--try"][..], &["--wait", "200ms"], &["--try", "--busy-exit", "75"]] {
        let line = [&["run", "job"], options, &["--", "echo", "ran"]].concat();
        let end = cluster.client(&line);
        assert_eq!((end.code, end.stdout.as_str()), (Some(75), ""), "{options:?}");
        end.assert_stderr_contains(["held by web-3"]);
    }
    let quiet = ["run", "job", "--try", "--quiet", "--busy-exit", "0", "--", "echo", "ran"];
    let end = cluster.client(&quiet);
    assert_eq!((end.code, end.stdout.as_str(), end.stderr.as_str()), (Some(0), "", ""));
    holder.kill();
}

#[test]
fn a_waiter_prints_the_holder_and_runs_next() {
    let cluster = one();
    let mut holder = cluster.spawn_client(&["lock", "job", "--session", "web-3"]);
    let first: u64 = holder.next_stdout_line().parse().unwrap();
    let mut waiter =
        cluster.spawn_client(&["run", "job", "--", "sh", "-c", "echo $HOLDFAST_TOKEN"]);
    let progress = waiter.next_stderr_line();
    assert!(progress.starts_with("waiting for job: held by web-3"), "{progress}");
    assert!(progress.ends_with("you are 1st of 1"), "{progress}");
    holder.interrupt();
    let second: u64 = waiter.next_stdout_line().parse().unwrap();
    assert!(second > first, "tokens grow: {first}, {second}");
    assert_eq!(waiter.wait().code, Some(0));
}

#[test]
fn a_signal_while_waiting_leaves_the_queue() {
    let cluster = one();
    let mut holder = cluster.spawn_client(&["lock", "job"]);
    holder.next_stdout_line();
    for session in [&["--session", "named"][..], &["--busy-exit", "0"]] {
        let line = [&["run", "job"], session, &["--", "echo", "ran"]].concat();
        let mut waiter = cluster.spawn_client(&line);
        waiter.next_stderr_line();
        waiter.interrupt();
        let end = waiter.wait();
        // SIGINT itself ends it, so a shell ends its loop.
        assert_eq!((end.code, end.stdout.as_str()), (None, ""), "{}", end.stderr);
        assert!(!cluster.client(&["who", "job"]).stdout.contains("waiting"));
    }
    holder.kill();
}

#[test]
fn a_session_that_ends_during_the_wait_is_no_loss_and_the_command_does_not_run() {
    let cluster = one();
    let mut holder = cluster.spawn_client(&["lock", "job"]);
    holder.next_stdout_line();
    let own = cluster.client(&["who", "job", "-o", "value"]).stdout;
    for line in [
        "run job --wait 30s --session web-3 -- echo ran",
        "run job --wait 30s -- echo ran",
        "lock job --wait 30s",
    ] {
        let mut waiter = cluster.spawn_client(&line.split(' ').collect::<Vec<_>>());
        waiter.next_stderr_line();
        let sessions = cluster.client(&["session", "ls", "-o", "value"]).stdout;
        let waiting = sessions.lines().find(|session| *session != own.trim()).unwrap();
        cluster.client(&["session", "end", waiting, "--reason", "test"]).assert_code(0);
        let end = waiter.wait();
        assert_eq!((end.code, end.stdout.as_str()), (Some(75), ""), "{}", end.stderr);
        end.assert_stderr_contains(["job was not acquired: the session has ended"]);
        let did_not_run = end.stderr.contains("; the command did not run");
        assert_eq!(did_not_run, line.starts_with("run"), "{line}: {}", end.stderr);
    }
    holder.kill();
}

#[test]
fn signals_are_forwarded_to_the_whole_group() {
    let cluster = one();
    let script = r#"trap 'wait; echo outer; exit 9' TERM
        sh -c 'trap "echo inner; exit" TERM; echo ready; while :; do sleep 0.05; done' &
        while :; do sleep 0.05; done"#;
    let mut program = cluster.spawn_client(&["run", "job", "--", "sh", "-c", script]);
    assert_eq!(program.next_stdout_line(), "ready");
    program.signal(nix::sys::signal::Signal::SIGTERM);
    let end = program.wait();
    assert_eq!((end.code, end.stdout.as_str()), (Some(9), "inner\nouter\n"), "{}", end.stderr);
    assert!(is_free(&cluster, "job"));

    let script = "trap 'echo interrupted; exit 4' INT; echo ready; while :; do sleep 0.05; done";
    let mut program = cluster.spawn_client(&["run", "job", "--", "sh", "-c", script]);
    assert_eq!(program.next_stdout_line(), "ready");
    program.interrupt();
    let end = program.wait();
    assert_eq!((end.code, end.stdout.as_str()), (Some(4), "interrupted\n"), "{}", end.stderr);
    assert!(is_free(&cluster, "job"));
}

/// A nested `holdfast run` re-enters the same lock, and acquires other locks with a session of its own.
#[test]
fn runs_can_be_nested() {
    let cluster = one();
    let holdfast = env!("CARGO_BIN_EXE_holdfast");
    let script = format!(
        "echo $HOLDFAST_TOKEN $HOLDFAST_SESSION
        {holdfast} run job --try -- sh -c 'echo $HOLDFAST_TOKEN $HOLDFAST_SESSION'
        {holdfast} run other --try -- sh -c 'echo $HOLDFAST_SESSION'
        {holdfast} run job --ttl 5s -- true; echo $?
        {holdfast} who job -o value"
    );
    let end = cluster.client(&["run", "job", "--", "sh", "-c", &script]).assert_code(0);
    let lines: Vec<&str> = end.stdout.lines().collect();
    let session = lines[0].split(' ').nth(1).unwrap();
    assert_eq!([lines[1], lines[3], lines[4]], [lines[0], "1", session], "{}", end.stderr);
    assert!(lines[2].starts_with(&format!("{session}~")), "{}", lines[2]);
    end.assert_stderr_contains(["leave it out"]);
    assert!(is_free(&cluster, "job") && is_free(&cluster, "other"));
}

#[test]
fn without_a_cluster_the_command_does_not_run() {
    let ports = crate::program::PortRange::reserve();
    let address = format!("127.0.0.1:{}", ports.first());
    let end = spawn(&["run", "job", "--addr", &address, "--", "echo", "ran"], &[]).wait();
    assert_eq!((end.code, end.stdout.as_str()), (Some(1), ""));
    end.assert_stderr_contains([&address]);
}

#[test]
fn a_release_request_is_printed_and_reaches_the_command_as_a_signal() {
    let cluster = one();
    let script = "trap 'echo asked; exit 3' USR1; echo ready; while :; do sleep 0.05; done";
    let options = ["run", "job", "--ttl", "1m", "--on-release-request", "usr1"];
    let mut program = cluster.spawn_client(&[&options[..], &["--", "sh", "-c", script]].concat());
    assert_eq!(program.next_stdout_line(), "ready");
    let asked = cluster
        .client(&["unlock", "job", "--ask", "--reason", "patch day", "--deadline", "5m"])
        .assert_code(0);
    let holder = cluster.client(&["who", "job", "-o", "value"]).stdout.trim().to_owned();
    let end = program.wait();
    assert_eq!((end.code, end.stdout.as_str()), (Some(3), "asked\n"), "{}", end.stderr);
    end.assert_stderr_contains(["job: release wanted within", "(reason: patch day): SIGUSR1"]);
    // If the hold still exists at the time of the reply, the output names the holder.
    asked.assert_stderr_contains(["holdfast: asked "]);
    assert!(holder.is_empty() || asked.stderr.contains(&holder), "{holder}: {}", asked.stderr);
}

#[test]
fn lock_prints_a_release_request_and_ask_names_every_holder() {
    let cluster = one();
    let names = ["web-1", "web-2"];
    let mut holders = names.map(|name| {
        let mut holder = cluster.spawn_client(&["lock", "page", "--shared", "--session", name]);
        holder.next_stdout_line();
        holder
    });
    let asked = cluster.client(&["unlock", "page", "--ask", "--reason", "patch day"]);
    for (holder, name) in holders.iter_mut().zip(names) {
        asked.assert_stderr_contains([&format!("asked {name} to release page")]);
        assert!(holder.next_stderr_line().contains("holding page"));
        let line = holder.next_stderr_line();
        assert!(line.contains("page: release wanted") && line.contains("patch day"), "{line}");
        holder.kill();
    }
}

#[test]
fn a_try_against_nodes_that_do_not_answer_ends_soon() {
    // One address refuses connections; the other accepts them and never replies.
    let ports = crate::program::PortRange::reserve();
    let dead = format!("127.0.0.1:{}", ports.first());
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let addresses = format!("{dead},{}", silent.local_addr().unwrap());
    for (options, at_most) in
        [(&["--try"][..], 6), (&["--wait", "2s"], 6), (&["--timeout", "300ms"], 3)]
    {
        let line = [&["run", "job", "--addr", &addresses][..], options, &["--", "true"]].concat();
        let begun = std::time::Instant::now();
        spawn(&line, &[]).wait().assert_code(1);
        let lasted = begun.elapsed();
        assert!(lasted < std::time::Duration::from_secs(at_most), "{options:?}: {lasted:?}");
    }
}
