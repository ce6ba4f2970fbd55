//! Runs the client's examples on a real node and checks their output.

use holdfast_client::Client;
use holdfast_lab::Cluster;

use crate::program::{addresses, start_example};

#[tokio::test(flavor = "multi_thread")]
async fn the_examples_do_what_they_say() {
    let cluster = Cluster::of(1).start().await;
    let nodes = addresses(&cluster).join(",");
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("file").to_str().expect("a path").to_owned();

    let mut journal = start_example("journal", &[&nodes, "journal", "5000", &file, "3"]);
    let held = journal.line().await.expect("a line");
    let token = held.strip_prefix("held ").expect("it holds");
    assert_eq!(journal.line().await.as_deref(), Some("writing"));
    assert_eq!(journal.line().await.as_deref(), Some("released"));
    assert!(journal.end().await.success());
    let written = std::fs::read_to_string(&file).expect("the file");
    let tokens = written.lines().filter_map(|line| Some(line.split_once(' ')?.0));
    assert_eq!(tokens.collect::<Vec<_>>(), [token; 3]);

    let mut with_lock = start_example("with_lock", &[&nodes, "work"]);
    assert_eq!(with_lock.line().await.as_deref(), Some("sum 55"));
    assert!(with_lock.end().await.success());

    let mut kinds = start_example("kinds", &[&nodes]);
    for line in [
        "reading: shared and upgradable",
        "writing with a new token: true",
        "reading again with the same token: true",
        "3 permits: kinds/pool#0 kinds/pool#1 kinds/pool#2",
        "two more are too many: true",
        "lost: no progress for 200ms, so the lock was released",
    ] {
        assert_eq!(kinds.line().await.as_deref(), Some(line));
    }
    assert!(kinds.end().await.success());

    let mut blocking = start_example("blocking", &[&nodes, "blocking"]);
    let line = blocking.line().await.expect("a line");
    assert!(line.starts_with("token "), "{line}");
    assert!(blocking.end().await.success());
    let client = Client::new(addresses(&cluster)).expect("a client");
    let _guard = client.lock("blocking").try_acquire().await.expect("it was given back");
    let mut busy = start_example("blocking", &[&nodes, "blocking"]);
    assert_eq!(busy.line().await, None);
    assert_eq!(busy.end().await.code(), Some(1));
}
