//! What a new user reads: the next step after an error, the text of an empty list, and the end of an `unlock`.

use crate::program::{DevCluster, End, spawn};

fn holding(cluster: &DevCluster, lock: &str, session: &str) -> crate::program::Program {
    let mut holder = cluster.spawn_client(&["lock", lock, "--session", session]);
    holder.next_stdout_line();
    holder
}

#[test]
fn an_error_has_the_next_step_of_the_command_line() {
    let cluster = DevCluster::start(&["--nodes", "1"]);
    let _holder = holding(&cluster, "imp", "other");
    cluster.client(&["latch", "create", "opened", "--count", "3"]).assert_code(0);
    for (args, code, words) in [
        (&["unlock", "imp", "--session", "me"][..], 1, "Ask for it: holdfast unlock imp --ask"),
        (&["latch", "wait", "nosuch", "--wait", "1s"], 1, "holdfast latch create NAME --count N"),
        (&["latch", "create", "opened", "--count", "4"], 1, "holdfast latch rm NAME"),
        (
            &["unlock", "free", "--session", "other", "--to", "other"],
            1,
            "does not hold the lock (acquire it",
        ),
        (&["history", "imp", "--at", "yesterday"], 2, "write 2026-03-01T14:05:09Z, 5m"),
        (&["lock", "new", "--permits", "3", "--try"], 1, "--permits N/LIMIT"),
        (&["tree", "rm", "/nosuch"], 1, "holdfast tree ls PATH"),
        (&["tree", "set", "/nosuch/a", "x"], 1, "holdfast tree create"),
        (&["auth", "can", "lock", "fly", "a"], 2, "holdfast auth can lock acquire orders"),
        (&["ps"], 2, "holdfast ls lists the locks"),
        (&["ls", "--json"], 2, "write -o json"),
    ] {
        let End { code: found, stderr, .. } = cluster.client(args);
        assert_eq!(found, Some(code), "{args:?}: {stderr}");
        assert!(stderr.contains(words), "{args:?}: {stderr}");
        assert!(!stderr.contains("--session other"), "{args:?}: {stderr}");
    }
    let both = ["auth can lock acquire orders", "auth can acquire lock orders"];
    for line in both {
        let args: Vec<&str> = line.split(' ').collect();
        assert!(matches!(cluster.client(&args).code, Some(0 | 1)), "{line}");
    }
}

#[test]
fn an_empty_list_and_a_release_are_described_in_words() {
    let cluster = DevCluster::start(&["--nodes", "1"]);
    for (args, text) in [
        (&["ls", "busy*"][..], "no locks whose names start with \"busy\" are held"),
        (&["elect", "ls"], "no election has a leader"),
        (&["namespace", "ls"], "no namespaces"),
        (&["history", "nosuch"], "no holds of this lock are recorded"),
        (&["auth", "token", "ls"], "no access tokens"),
        (&["tree", "ls", "/locks"], "no children"),
    ] {
        let end = cluster.client(args);
        assert!(end.stdout.starts_with(text), "{args:?}: {} {}", end.stdout, end.stderr);
    }
    assert_eq!(cluster.client(&["wait", "a"]).code, Some(0), "a free lock is the default");
    let _holder = holding(&cluster, "busy1", "me");
    assert!(cluster.client(&["ls", "busy*", "-o", "value"]).stdout.contains("busy1"));
    let unlock = || cluster.client(&["unlock", "busy1", "--session", "me"]).stderr;
    assert_eq!(unlock(), "holdfast: busy1 is released\n");
    assert_eq!(unlock(), "holdfast: me did not hold busy1\n");
    let permits = ["unlock", "busy1", "--session", "me", "--permits", "1"];
    assert_eq!(cluster.client(&permits).stderr, "holdfast: me did not hold busy1\n");
    let durable = cluster.client(&["unlock", "kept", "--owner", "me", "--token", "1"]);
    assert_eq!(durable.stderr, "holdfast: me did not hold kept\n");
    assert_eq!(durable.code, Some(0));
}

/// The jobs that run without a credential go on, and each refused command names the option for the credential.
#[test]
fn the_first_administrator_is_told_about_running_jobs_and_the_way_back() {
    let cluster = DevCluster::start(&["--nodes", "1"]);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("admin.token");
    let file = file.to_str().unwrap();
    let _job = holding(&cluster, "victim", "worker");
    cluster
        .bootstrap(&["--out", file])
        .assert_code(0)
        .assert_stderr_contains(["shadow mode", "1 session without a credential is in use"]);
    assert_eq!(cluster.client(&["who", "victim"]).code, Some(0));
    let on = cluster.client(&["auth", "mode", "on", "--access-token-file", file]);
    on.assert_stderr_contains(["they cannot renew", "holdfast auth mode shadow"]);
    for args in [&["ls"][..], &["who", "victim"], &["run", "a", "--try", "--", "true"], &["top"]] {
        let end = cluster.client(args);
        assert_ne!(end.code, Some(0), "{args:?}");
        assert!(end.stderr.contains("--access-token-file FILE"), "{args:?}: {}", end.stderr);
    }
    cluster.client(&["auth", "mode", "off", "--access-token-file", file]).assert_code(0);
}

/// `holdfast run` sets the variable, and a shell may export it.
#[test]
fn the_session_of_the_environment_stands_in_the_way_of_no_unlock() {
    let cluster = DevCluster::start(&["--nodes", "1"]);
    let _holder = holding(&cluster, "imp", "other");
    let unlock = |args: &[&str]| {
        let address = format!("127.0.0.1:{}", cluster.port());
        let args = [&["unlock"], args, &["--addr", &address]].concat();
        spawn(&args, &[("HOLDFAST_SESSION", "me")]).wait()
    };
    unlock(&["imp"]).assert_code(1).assert_stderr_contains(["holdfast unlock imp --ask"]);
    unlock(&["imp", "--ask"]).assert_code(0);
    let durable =
        ["lock", "db", "--durable", "--owner", "carol", "--reason", "move", "-o", "value"];
    let token = cluster.client(&durable).assert_code(0).stdout;
    unlock(&["db", "--owner", "carol", "--token", token.trim()]).assert_code(0);
    let wrong = unlock(&["db", "--owner", "carol", "--token", token.trim(), "--reason", "x"]);
    wrong.assert_code(2).assert_stderr_contains(["--reason needs"]);
}
