//! Results in every format, completions, and the commands that show all holders.

use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::program::{DevCluster, eventually, holdfast};

fn lines(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{text}")))
        .collect()
}

#[test]
fn all_shared_holders_are_shown_everywhere() {
    let cluster = DevCluster::start(&["--nodes", "1"]);
    let hold = |session: &str| {
        let line = ["lock", "pool", "--shared", "--session", session, "--label", "team=shop"];
        let mut program = cluster.spawn_client(&line);
        program.next_stdout_line();
        program
    };
    let _holders = (hold("one"), hold("two"));
    let mut writer = cluster.spawn_client(&["lock", "pool", "--session", "three"]);
    let progress = writer.next_stderr_line();
    assert!(progress.starts_with("waiting for pool: held by one and two for up to "), "{progress}");
    assert!(progress.ends_with("you are 1st of 1"), "{progress}");
    let who = cluster.client(&["who", "pool"]).stdout;
    assert!(who.starts_with("pool is held by 2, shared") && who.contains("1 waiting"), "{who}");
    assert_eq!(who.matches("team=shop").count(), 2, "{who}");
    assert!(who.contains("three") && who.contains("exclusive"), "{who}");
    assert_eq!(cluster.client(&["who", "pool", "-o", "value"]).stdout, "one\ntwo\n");
    let rows = lines(&cluster.client(&["who", "pool", "-o", "jsonl"]).stdout);
    assert_eq!(rows.len(), 3);
    assert_eq!(rows[1]["holder"]["session"], "two");
    assert_eq!(rows[2]["waiter"]["session"], "three");
    let ls = cluster.client(&["ls"]).stdout;
    assert!(ls.contains("2 shared") && ls.contains("one and two"), "{ls}");
    let top = cluster.client(&["top"]).stdout;
    assert!(top.contains("one and two"), "{top}");
}

#[test]
fn locks_are_listed_by_the_given_filters() {
    let cluster = DevCluster::start(&["--nodes", "1"]);
    let hold = |lock: &str, session: &str| {
        let mut program = cluster.spawn_client(&["lock", lock, "--session", session]);
        program.next_stdout_line();
        program
    };
    let _held = (hold("a", "one"), hold("b", "one"), hold("c", "two"));
    let _waits = cluster.spawn_client(&["lock", "c", "--session", "one"]);
    let ls = |options: &[&str]| {
        let end = cluster.client(&[&["ls", "-o", "value"], options].concat()).assert_code(0);
        end.stdout.replace('\n', " ")
    };
    eventually("the waiter", || ls(&["--waiting"]) == "c ");
    assert_eq!(ls(&[]), "a b c ");
    assert_eq!(ls(&["--held"]), "a b c ");
    assert_eq!(ls(&["--session", "two"]), "c ");
    assert_eq!(ls(&["--sort", "waiting"]), "c a b ");
    assert_eq!(ls(&["--sort", "held", "-n", "1"]), "a ");
    let rows = lines(&cluster.client(&["ls", "-o", "jsonl"]).stdout);
    assert_eq!(rows.iter().map(|row| row["lock"].as_str().unwrap()).collect::<String>(), "abc");
    let whole = lines(&cluster.client(&["ls", "-o", "json"]).stdout);
    assert_eq!(whole[0]["locks"].as_array().unwrap().len(), 3);
    assert!(whole[0]["revision"].is_u64());
}

#[test]
fn jsonl_prints_one_document_for_each_row() {
    let cluster = DevCluster::start(&["--nodes", "3"]);
    let nodes = lines(&cluster.client(&["status", "-o", "jsonl"]).stdout);
    assert_eq!(
        nodes.iter().map(|node| node["id"].as_u64().unwrap()).collect::<Vec<_>>(),
        [1, 2, 3]
    );
    for (command, count) in [
        (&["run", "job", "--", "true"][..], 0),
        (&["history", "job", "-o", "jsonl"], 1),
        (&["tree", "create", "/a", "-o", "jsonl"], 1),
        (&["tree", "create", "/a/b", "-o", "jsonl"], 1),
        (&["tree", "stat", "/a", "-o", "jsonl"], 1),
        (&["tree", "ls", "/a", "-r", "-o", "jsonl"], 2),
        (&["tree", "watch", "/a", "--since", "0", "--count", "2", "-o", "jsonl"], 2),
        (&["latch", "create", "l", "--count", "1", "-o", "jsonl"], 1),
        (&["counter", "add", "c", "1", "-o", "jsonl"], 1),
        (&["top", "-o", "jsonl"], 1),
        (&["wait", "job", "--free", "-o", "jsonl"], 1),
    ] {
        let end = cluster.client(command);
        assert_eq!(end.code, Some(0), "{command:?}: {}", end.stderr);
        assert_eq!(lines(&end.stdout).len(), count, "{command:?}: {}", end.stdout);
    }
    let codes = lines(&holdfast(&["explain", "-o", "jsonl"]).stdout);
    assert!(codes.len() > 20 && codes.iter().any(|row| row["code"] == "lock-busy"));
    let one = lines(&holdfast(&["explain", "lock-busy", "-o", "json"]).stdout);
    assert!(one[0]["explanation"].as_str().unwrap().contains("lock-busy"));
    assert_eq!(one[0]["retryable"], true);
}

#[test]
fn bash_completes_commands_and_options() {
    let script = holdfast(&["completions", "bash"]).stdout;
    let asked = |words: &str, count: usize| {
        let test = format!(
            "{script}\nCOMP_WORDS=({words})\nCOMP_CWORD={count}\n_holdfast holdfast \"${{COMP_WORDS[{count}]}}\" \"${{COMP_WORDS[{count}-1]}}\"\necho \"${{COMPREPLY[@]}}\"\n"
        );
        // The script exceeds the maximum length of an argument.
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(test.as_bytes()).unwrap();
        let mut bash = Command::new("bash");
        let bash = bash.arg("--norc").arg(file.path()).stdin(Stdio::null()).output().unwrap();
        assert!(bash.status.success(), "{}", String::from_utf8_lossy(&bash.stderr));
        String::from_utf8(bash.stdout).unwrap()
    };
    let commands = asked("holdfast do", 1);
    assert!(commands.contains("doctor"), "{commands}");
    assert!(asked("holdfast ls --so", 2).contains("--sort"));
    let orders = asked("holdfast ls --sort \"\"", 3);
    assert!(orders.contains("waiting") && orders.contains("holders"), "{orders}");
    for shell in ["zsh", "fish", "elvish", "powershell"] {
        let end = holdfast(&["completions", shell]);
        assert!(end.code == Some(0) && end.stdout.contains("doctor"), "{shell}");
    }
    assert_eq!(holdfast(&["completions", "tcsh"]).code, Some(2));
}

#[test]
fn members_of_a_double_barrier_enter_with_one_command_and_leave_with_another() {
    let cluster = DevCluster::start(&["--nodes", "3"]);
    let line = |what: &str, session: &'static str| {
        let mut line = vec!["barrier".to_owned(), what.to_owned(), "batch".to_owned()];
        line.extend(["--session", session, "--wait", "30s"].map(str::to_owned));
        line
    };
    let run = |line: &[String]| {
        cluster.spawn_client(&line.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let enter =
        |session| [line("enter", session), vec!["--parties".to_owned(), "2".to_owned()]].concat();
    let who = |format: &str| cluster.client(&["barrier", "who", "batch", "-o", format]).stdout;
    assert_eq!(who("table"), "batch has no members\n");
    let mut first = run(&enter("one"));
    eventually("the first waits", || who("table").contains("waits to enter"));
    let mut second = run(&enter("two"));
    let places = [first.next_stdout_line(), second.next_stdout_line()];
    assert_eq!(places, ["0", "1"]);
    assert_eq!((first.wait().code, second.wait().code), (Some(0), Some(0)));
    assert_eq!(who("value"), "one\ntwo\n");
    let late = cluster.client(&["barrier", "leave", "batch", "--session", "one"]);
    assert_eq!(late.code, Some(75), "the other member is still inside: {}", late.stderr);
    assert_eq!(run(&line("leave", "two")).next_stdout_line(), "left");
    assert_eq!(run(&line("leave", "two")).next_stdout_line(), "was not inside");
    let mut alone = run(&enter("three"));
    eventually("it waits", || who("table").contains("three"));
    alone.interrupt();
    assert_eq!(alone.wait().code, Some(130));
    assert_eq!(who("table"), "batch has no members\n", "its arrival is withdrawn");
}
