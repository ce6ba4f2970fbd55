//! `holdfast who`, `top`, `history` and `wait`: the current state, the past and the future of a lock.

use crate::program::{DevCluster, eventually};

/// Ages change all the time, so they are no reason to print a lock again.
#[test]
fn who_watch_prints_a_lock_again_after_each_change() {
    let cluster = DevCluster::start(&["--nodes", "3"]);
    let mut watch = cluster.spawn_client(&["who", "a", "--watch", "-o", "jsonl"]);
    let mut first = cluster.spawn_client(&["lock", "a", "--session", "one"]);
    assert!(watch.next_stdout_line().starts_with(r#"{"holder":{"session":"one""#));
    let mut second = cluster.spawn_client(&["lock", "a", "--session", "two"]);
    assert!(watch.next_stdout_line().starts_with(r#"{"holder":{"session":"one""#));
    assert!(watch.next_stdout_line().starts_with(r#"{"waiter":{"session":"two""#));
    first.interrupt();
    first.wait();
    assert!(watch.next_stdout_line().starts_with(r#"{"holder":{"session":"two""#));
    watch.interrupt();
    second.interrupt();
    second.wait();
    cluster.client(&["who", "a", "--watch", "--stale"]).assert_code(2);
    let recent = cluster.client(&["recent", "locks_held", "--last", "1m"]);
    assert!(recent.stdout.contains("locks_held  cluster  "), "{recent:?}");
}

#[test]
fn who_top_history_and_wait_show_a_lock() {
    let cluster = DevCluster::start(&["--nodes", "3"]);
    let asking =
        |lock: &str, session: &str| cluster.spawn_client(&["lock", lock, "--session", session]);
    let holding = |lock: &str, session: &str| {
        let mut program = asking(lock, session);
        program.next_stdout_line();
        program
    };
    let mut first = holding("a", "one");
    let mut second = holding("b", "two");
    let deeper = asking("b", "one");
    let waiting = asking("a", "three");
    let who = || cluster.client(&["who", "a"]).stdout;
    eventually("the queues", || {
        who().contains("itself waits for b (held by two)") && who().contains("1 waiting")
    });
    let explained = who();
    assert!(
        explained.contains("last renewed ") && explained.contains("unless renewed"),
        "{explained}"
    );
    let top = cluster.client(&["top"]).assert_code(0);
    assert_eq!(top.stdout.lines().count(), 3, "{}", top.stdout);
    assert_eq!(cluster.client(&["top", "-n", "1", "-o", "value"]).stdout.trim().len(), 1);
    assert_eq!(cluster.client(&["wait", "a", "--held"]).code, Some(0));
    cluster.client(&["wait", "a", "--free", "--wait", "100ms"]).assert_code(75);
    let mut freed = cluster.spawn_client(&["wait", "b", "--free"]);
    drop((waiting, deeper));
    for holder in [&mut first, &mut second] {
        holder.interrupt();
        holder.wait();
    }
    cluster.client(&["unlock", "b", "--session", "one"]);
    assert_eq!(freed.wait().code, Some(0));
    let history = cluster.client(&["history", "a"]);
    assert!(history.stdout.contains("one") && history.stdout.contains("released"), "{history:?}");
    let then = cluster.client(&["history", "a", "--at", "1h", "-o", "value"]);
    assert_eq!((then.code, then.stdout.trim()), (Some(0), ""), "{then:?}");
}
