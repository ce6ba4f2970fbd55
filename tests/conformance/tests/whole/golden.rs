//! The golden scripts of the machine over both front-ends of a real node.

use std::path::Path;

use holdfast_tests_conformance::{FrontEnd, Outcome, play_golden};

/// Plays every script; returns the number of lines that the front-end could express.
async fn all_scripts(front_end: FrontEnd) -> Outcome {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/machine/scripts");
    let mut all = Outcome::default();
    let mut wrong = Vec::new();
    for file in std::fs::read_dir(folder).expect("the folder of scripts") {
        let path = file.expect("a file").path();
        if path.extension().is_some_and(|extension| extension == "txt") {
            let script = std::fs::read_to_string(&path).expect("a readable script");
            match play_golden(&script, front_end).await {
                Ok(Outcome { compared, left_out }) => {
                    all.compared += compared;
                    all.left_out += left_out;
                }
                Err(why) => wrong.push(format!("{}: {why}", path.display())),
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_machine_says_http_says() {
    let all = all_scripts(FrontEnd::Http).await;
    assert!(all.compared >= 200, "{all:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_machine_says_the_zookeeper_port_says() {
    let all = all_scripts(FrontEnd::ZooKeeper).await;
    assert!(all.compared >= 150, "{all:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_different_answer_of_a_front_end_is_found() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/machine/scripts");
    let script = std::fs::read_to_string(folder.join("tree_stat.txt")).expect("a script");
    for (said, otherwise) in [
        ("version=2 cversion=2", "version=3 cversion=2"),
        ("p=r3", "p=r2"),
        ("Tree(BadVersion", "Tree(NoZnode"),
        ("data=\"one\"", "data=\"two\""),
    ] {
        let wrong = script.replace(&format!(" {said}"), &format!(" {otherwise}"));
        assert_ne!(wrong, script, "{said}");
        for front_end in [FrontEnd::Http, FrontEnd::ZooKeeper] {
            assert!(play_golden(&wrong, front_end).await.is_err(), "{front_end:?} {said}");
        }
    }
}
