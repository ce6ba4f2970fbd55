//! `holdfast tree` and `holdfast tree watch` against a cluster: their output and their errors.

use crate::program::DevCluster;

#[test]
fn a_node_is_created_read_changed_and_deleted() {
    let cluster = DevCluster::start(&["--nodes", "3"]);
    let run = |arguments: &[&str]| {
        let ran = cluster.client(arguments);
        assert_eq!(ran.code, Some(0), "{arguments:?}: {}", ran.stderr);
        ran.stdout.trim().to_owned()
    };
    assert_eq!(run(&["tree", "create", "/cfg/x", "one", "--parents"]), "/cfg/x");
    assert_eq!(run(&["tree", "get", "cfg/x"]), "one");
    assert_eq!(run(&["tree", "set", "/cfg/x", "two", "--version", "0"]), "/cfg/x has version 1");
    assert_eq!(run(&["tree", "stat", "/cfg/x", "-o", "value"]), "1");
    let stat = run(&["tree", "stat", "/cfg/x"]);
    assert!(stat.contains("kind") && stat.contains("persistent"), "{stat}");
    let first = run(&["tree", "create", "/cfg/job-", "--sequential", "--ttl", "1h"]);
    assert!(first.starts_with("/cfg/job-00"), "{first}");
    assert_eq!(run(&["tree", "ls", "/cfg", "-o", "value"]).lines().count(), 2);
    let list = run(&["tree", "ls", "/cfg", "--recursive"]);
    assert!(list.contains("/cfg/x") && list.contains("ttl"), "{list}");
    let json: serde_json::Value =
        serde_json::from_str(&run(&["tree", "ls", "/cfg", "-o", "json"])).unwrap();
    assert_eq!(json[1]["name"], "x", "{json}");
    assert_eq!(run(&["tree", "rm", "/cfg", "--recursive"]), "");
}

#[test]
fn a_rejected_call_is_reported_with_the_next_step() {
    let cluster = DevCluster::start(&["--nodes", "1"]);
    let secret = ["--user", "me:secret"];
    cluster.client(&["tree", "create", "/a"]);
    cluster.client(&["tree", "create", "/a/b"]);
    let mine = [&["tree", "create", "/mine", "x", "--acl", "auth::cdrwa"], &secret[..]].concat();
    assert_eq!(cluster.client(&mine).code, Some(0));
    assert_eq!(
        cluster.client(&[&["tree", "get", "/mine"], &secret[..]].concat()).stdout.trim(),
        "x"
    );
    for (arguments, code, words) in [
        (&["tree", "get", "/none"][..], 1, "tree ls"),
        (&["tree", "set", "/none", "x"], 1, "tree create"),
        (&["tree", "create", "/a"], 1, "tree set"),
        (&["tree", "create", "/x/y"], 1, "--parents"),
        (&["tree", "rm", "/a"], 1, "--recursive"),
        (&["tree", "set", "/a", "x", "--version", "7"], 1, "the version that you have read"),
        (&["tree", "get", "/mine"], 1, "--user"),
        (&["tree", "get", "/a/"], 2, "component"),
        (&["tree", "get", "/a", "--user", "me"], 2, "NAME:PASSWORD"),
        (&["tree", "create", "/e", "--ephemeral", "ghost"], 1, "session"),
        (&["tree", "create", "/e", "--acl", "world"], 2, "scheme:id:perms"),
        (&["tree", "create", "/e", "--ttl", "30"], 2, "30s"),
    ] {
        let ran = cluster.client(arguments);
        assert_eq!(ran.code, Some(code), "{arguments:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(words), "{arguments:?}: {}", ran.stderr);
        assert!(ran.stdout.is_empty(), "{arguments:?}: {}", ran.stdout);
    }
}

#[test]
fn a_watch_prints_one_line_for_each_change_and_past_changes_on_request() {
    let cluster = DevCluster::start(&["--nodes", "1"]);
    cluster.client(&["tree", "create", "/log"]);
    let created: serde_json::Value =
        serde_json::from_str(&cluster.client(&["tree", "create", "/log/a", "-o", "json"]).stdout)
            .unwrap();
    cluster.client(&["tree", "set", "/log/a", "x"]);
    cluster.client(&["tree", "rm", "/log/a"]);
    let since = (created["revision"].as_u64().unwrap() - 1).to_string();
    let past = cluster.client(&["tree", "watch", "/log/", "--since", &since, "--count", "3"]);
    let lines: Vec<&str> = past.stdout.lines().collect();
    assert_eq!(lines.len(), 3, "{}", past.stderr);
    for (line, kind) in lines.iter().zip(["created", "changed", "deleted"]) {
        assert!(line.ends_with(&format!("  {kind}  /log/a")), "{line}");
    }
    cluster.client(&["tree", "watch", "/log/", "--since", "x"]).assert_code(2);
}

/// A terminal obeys escape sequences, so it gets none of another client.
#[test]
fn data_is_visible_on_a_terminal_and_unchanged_in_a_pipe() {
    let cluster = DevCluster::start(&["--nodes", "1"]);
    let title = "\u{1b}]0;owned\u{7}text";
    assert_eq!(cluster.client(&["tree", "create", "/title", title]).code, Some(0));
    assert_eq!(cluster.client(&["tree", "get", "/title"]).stdout.trim_end(), title);
    let address = format!("127.0.0.1:{}", cluster.port());
    let terminal = nix::pty::openpty(None, None).unwrap();
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_holdfast"))
        .args(["tree", "get", "/title", "--addr", &address])
        .stdout(std::process::Stdio::from(terminal.slave))
        .spawn()
        .unwrap();
    assert!(child.wait().unwrap().success());
    let mut shown = Vec::new();
    // The end of a terminal without a process is an error.
    drop(std::io::Read::read_to_end(&mut std::fs::File::from(terminal.master), &mut shown));
    assert_eq!(String::from_utf8(shown).unwrap(), "\\u{1b}]0;owned\\u{7}text");
}

#[test]
fn quotas_of_subtrees_are_set_listed_and_deleted() {
    let cluster = DevCluster::start(&["--nodes", "1"]);
    let run = |line: &str, code| {
        let ran = cluster.client(&line.split(' ').collect::<Vec<_>>());
        assert_eq!(ran.code, Some(code), "{line}: {}", ran.stderr);
        (ran.stdout.trim().to_owned(), ran.stderr)
    };
    assert_eq!(run("tree quota -o value", 0).0, "");
    assert!(run("tree quota", 0).0.starts_with("no quotas: holdfast tree quota set"));
    run("tree create /cfg x", 0);
    run("tree quota set cfg --znodes 2 --soft-bytes 9", 0);
    run("tree create /cfg/a", 0);
    let (_, full) = run("tree create /cfg/b", 1);
    assert!(full.contains("at most 2, and 2 are in use"), "{full}");
    assert!(full.contains("holdfast tree quota set PATH --znodes LIMIT"), "{full}");
    let rows = run("tree quota", 0).0;
    let words: Vec<Vec<&str>> =
        rows.lines().map(|line| line.split_whitespace().collect()).collect();
    let expected = [
        &["path", "used", "soft", "limit", "limit"][..],
        &["/cfg", "znodes", "2", "-", "2"],
        &["/cfg", "bytes", "1", "9", "-"],
    ];
    assert_eq!(words, expected, "{rows}");
    assert_eq!(run("tree quota /cfg", 0).0, rows);
    let json: serde_json::Value = serde_json::from_str(&run("tree quota -o json", 0).0).unwrap();
    assert_eq!(json[0]["limits"]["znodes"], 2, "{json}");
    assert_eq!(run("tree quota rm /cfg", 0).0, "");
    run("tree create /cfg/b", 0);
    for line in ["tree quota rm /cfg", "tree quota /cfg"] {
        let (_, none) = run(line, 1);
        assert!(none.contains("no quota") && none.contains("holdfast tree quota lists"), "{none}");
    }
}
