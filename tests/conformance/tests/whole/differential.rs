//! The same operations on ZooKeeper 3.8.0 and on holdfast, with a comparison of the replies.

use std::path::{Path, PathBuf};

use holdfast_lab::Cluster;
use holdfast_tests_conformance::{
    Falsification, FaultyProxy, Generator, Pair, Recording, Target, Transcript, ZooKeeper, compare,
    parse_script, play, print_script,
};

/// Requests per run, and seeds; `scripts/conformance differential` runs longer campaigns.
const RUN: usize = 300;
const SEEDS: std::ops::Range<u64> = 1..11;

fn recordings() -> Vec<(String, Recording)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("regressions");
    let files = std::fs::read_dir(&folder).expect("the folder of recordings");
    let mut paths: Vec<_> = files.map(|file| file.expect("a file").path()).collect();
    paths.sort();
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).expect("a readable file");
        let name = path.display().to_string();
        let recording = Recording::parse(&text).unwrap_or_else(|why| panic!("{name}: {why}"));
        (name, recording)
    };
    paths.into_iter().map(read).collect()
}

fn target(cluster: &Cluster) -> Target {
    Target { nodes: cluster.nodes().iter().map(|node| node.zookeeper).collect() }
}

#[tokio::test]
async fn what_zookeeper_once_answered_is_what_holdfast_answers() {
    let cluster = Cluster::of(1).start().await;
    let recordings = recordings();
    assert!(recordings.len() >= 10, "recordings are missing");
    for (at, (file, recording)) in recordings.iter().enumerate() {
        let found = play(&target(&cluster), &format!("/recorded{at}"), &recording.steps).await;
        let found = found.unwrap_or_else(|why| panic!("{file}: {why}"));
        let difference = compare(&recording.steps, &recording.transcript, &found);
        assert_eq!(difference, None, "{file}");
    }
}

async fn campaign(nodes: u64, seeds: std::ops::Range<u64>) {
    if let Some(why) = ZooKeeper::missing() {
        return skip(&why);
    }
    let mut pair = Pair::start(nodes).await;
    for seed in seeds {
        let failure = pair.judge(&Generator::script(seed, RUN)).await.expect("both go on");
        if let Some(failure) = failure {
            let (script, difference) = (print_script(&failure.recording.steps), failure.difference);
            panic!("seed {seed}: {}\n{script}\n{difference:#?}", difference.what);
        }
    }
}

#[expect(clippy::print_stderr, reason = "a skipped test must be seen")]
fn skip(why: &str) {
    eprintln!("SKIPPED: {why}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_operations_are_answered_as_zookeeper_does() {
    campaign(1, SEEDS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_on_three_nodes_are_answered_as_by_one_zookeeper() {
    campaign(3, 101..105).await;
}

/// Every kind of reply that a [`Falsification`] changes, and events between replies.
const SCRIPT: &str = "
open 0
open 1
0: create /a x open persistent
0: create /a/b null open ephemeral
0: set /a y 0
0: set-acl /a open 0
1: set /a z -1
0: exists /a
0: exists /a/b
0: get /a watch
0: list /a watch
1: set /a w -1
1: create /a/c null open persistent
0: get /a watch ; ping ; set /a v -1
0: ping
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_injected_difference_is_found() {
    let cluster = Cluster::of(1).start().await;
    let server = target(&cluster).nodes[0];
    let steps = parse_script(SCRIPT).unwrap();
    let expected = play(&target(&cluster), "/truth", &steps).await.unwrap();
    for (at, lie) in Falsification::ALL.into_iter().enumerate() {
        let faulty_proxy = FaultyProxy::before(server, lie).await;
        let lying = Target { nodes: vec![faulty_proxy.address] };
        let found: Transcript = play(&lying, &format!("/lie{at}"), &steps).await.unwrap();
        assert!(faulty_proxy.has_lied(), "no frame matched {lie:?}");
        assert!(compare(&steps, &expected, &found).is_some(), "{lie:?} was not found: {found:#?}");
    }
    let again = play(&target(&cluster), "/again", &steps).await.unwrap();
    assert_eq!(compare(&steps, &expected, &again), None, "no difference without a falsified frame");
}
