//! Options of an acquire on the command line: permits, priority, value. Token checks. Groups.

use serde_json::{Value, json};

use crate::program::{DevCluster, Program, eventually};

fn one() -> DevCluster {
    DevCluster::start(&["--nodes", "1"])
}

fn look(cluster: &DevCluster, lock: &str) -> Value {
    let end = cluster.client(&["who", lock, "-o", "json"]);
    serde_json::from_str(&end.stdout).unwrap_or_else(|_| panic!("{end:?}"))
}

/// Sends SIGINT, like ^C.
fn interrupt(program: &mut Program) {
    program.interrupt();
    program.wait().assert_code(0);
}

/// The arguments that acquire permits of the semaphore `pool`.
fn take<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&["lock", "pool"], more].concat()
}

#[test]
fn permits_are_acquired_shown_rejected_and_released() {
    let cluster = one();
    let mut two = cluster.spawn_client(&take(&["--permits", "2/4", "--session", "w1"]));
    let token: u64 = two.next_stdout_line().parse().unwrap();
    let mut single =
        cluster.spawn_client(&take(&["--permits", "1", "-o", "json", "--session", "w2"]));
    let grant: Value = serde_json::from_str(&single.next_stdout_line()).unwrap();
    assert_eq!((&grant["permits"], &grant["slots"]), (&json!(1), &json!([2])), "{grant}");
    assert!(grant["token"].as_u64() > Some(token));
    let who = cluster.client(&["who", "pool"]).stdout;
    assert!(who.starts_with("pool: 3 of 4 permits are held, by 2\n"), "{who}");
    assert!(who.contains("2 permits, slots 0,1") && who.contains("1 permit, slot 2"), "{who}");
    let many = cluster.client(&take(&["--permits", "2", "--try", "--quiet"]));
    assert_eq!((many.code, many.stdout.as_str()), (Some(75), ""), "{}", many.stderr);
    many.assert_stderr_contains(["held by w1"]);
    let wrong = cluster.client(&take(&["--permits", "1/9", "--try"]));
    assert_eq!((wrong.code, wrong.stdout.as_str()), (Some(1), ""), "{}", wrong.stderr);
    let mut waiting = cluster.spawn_client(&take(&["--permits", "3", "--quiet"]));
    eventually("the waiter", || look(&cluster, "pool")["waiters"] == 1);
    interrupt(&mut two);
    waiting.next_stdout_line();
    interrupt(&mut waiting);
    interrupt(&mut single);
    assert_eq!(cluster.client(&["who", "pool"]).stdout.trim(), "pool is free");
    let policy = cluster.client(&["policy", "pool", "--limit", "6", "-o", "json"]).stdout;
    assert!(policy.contains(r#""limit":6"#), "{policy}");
    assert_eq!(cluster.client(&["policy", "pool", "--limit", "0"]).code, Some(2));
}

#[test]
fn high_priorities_go_first_and_lock_and_run_show_values() {
    let cluster = one();
    let mut holder = cluster.spawn_client(&["lock", "job", "--value", "host 1", "--session", "h"]);
    holder.next_stdout_line();
    assert_eq!(look(&cluster, "job")["holders"][0]["value"], "host 1");
    let mut patient = cluster.spawn_client(&["lock", "job", "--quiet", "--session", "patient"]);
    eventually("the first waiter", || look(&cluster, "job")["waiters"] == 1);
    let urgent = ["run", "job", "--quiet", "--priority", "9", "--value", "host 2"];
    let line = [&urgent[..], &["--session", "urgent", "--", "echo", "first"]].concat();
    let mut urgent = cluster.spawn_client(&line);
    eventually("the second waiter", || look(&cluster, "job")["waiters"] == 2);
    let first = look(&cluster, "job")["queue"][0].clone();
    assert_eq!(
        [&first["session"], &first["priority"], &first["value"]],
        [&json!("urgent"), &json!(9), &json!("host 2")]
    );
    interrupt(&mut holder);
    let ran = urgent.wait();
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "first\n"), "{}", ran.stderr);
    patient.next_stdout_line();
    interrupt(&mut patient);
    for wrong in [["--priority", "10"], ["--priority", "-1"]] {
        let end = cluster.client(&[&["lock", "job", "--try"][..], &wrong].concat());
        assert_eq!(end.code, Some(2), "{wrong:?}: {}", end.stderr);
    }
}

#[test]
fn a_token_is_checked_in_every_format() {
    let cluster = one();
    let mut holder = cluster.spawn_client(&["lock", "orders", "--session", "h"]);
    let token = holder.next_stdout_line();
    let check = |token: &str, format: &str| {
        cluster.client(&["fence", "check", "orders", token, "-o", format])
    };
    assert_eq!(check(&token, "value").stdout, "valid\n");
    assert!(check(&token, "table").stdout.contains("is good"));
    for format in ["json", "jsonl"] {
        let body: Value = serde_json::from_str(&check(&token, format).stdout).unwrap();
        assert_eq!(
            [&body["lock"], &body["token"].to_string().into(), &body["valid"]],
            [&json!("orders"), &json!(token), &json!(true)]
        );
    }
    interrupt(&mut holder);
    for format in ["value", "table", "json", "jsonl"] {
        let stale = check(&token, format);
        assert_eq!((stale.code, stale.stdout.as_str()), (Some(1), ""), "{format}");
        stale.assert_stderr_contains(["not valid"]);
    }
}

#[test]
fn a_member_stays_in_its_group_until_an_interrupt_or_the_end_of_its_command() {
    let cluster = one();
    let ls = |format: &str| cluster.client(&["group", "ls", "web", "-o", format]).stdout;
    assert_eq!(ls("table"), "web has no members\n");
    let mut first = cluster.spawn_client(&["group", "join", "web", "--value", "10.0.0.1:80"]);
    let session = first.next_stdout_line();
    assert_eq!(ls("value"), "10.0.0.1:80\n");
    assert!(ls("table").contains(&session));
    let row: Value = serde_json::from_str(&ls("jsonl")).unwrap();
    assert_eq!(row, json!({ "session": session, "value": "10.0.0.1:80" }));
    let second = ["group", "join", "web", "--value", "10.0.0.2:80", "--", "sh", "-c", "exit 7"];
    assert_eq!(cluster.client(&second).code, Some(7), "the exit code of the command");
    assert_eq!(ls("value"), "10.0.0.1:80\n", "the member has left");
    interrupt(&mut first);
    assert_eq!(ls("value"), "");
    // An ended session is not a member, and the process reports this.
    let mut lost = cluster.spawn_client(&["group", "join", "web", "--ttl", "1s"]);
    let session = lost.next_stdout_line();
    assert!(cluster.client(&["session", "ls"]).stdout.contains(&session));
    let shown = cluster.client(&["session", "show", &session]).stdout;
    assert!(shown.contains("expires in"), "{shown}");
    cluster.client(&["session", "end", &session, "--reason", "test"]).assert_code(0);
    cluster
        .client(&["session", "end", &session, "--reason", "test"])
        .assert_code(1)
        .assert_stderr_contains(["there is no open session"]);
    lost.wait().assert_code(76).assert_stderr_contains(["no longer in web"]);
}
