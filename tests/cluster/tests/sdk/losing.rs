//! Holders that are paused, disconnected or killed: the guard reports the loss before the next grant.

use std::path::Path;
use std::time::{Duration, Instant};

use holdfast_client::{Client, Error, Loss};
use holdfast_lab::{Cluster, DEADLINE, Links, Program};
use nix::sys::signal::Signal;
use tokio::task::JoinSet;

use crate::journal;
use crate::program::{addresses, start_example};

const TTL: Duration = Duration::from_secs(1);
/// Concurrent trials of a campaign, each with its own lock and process.
const AT_ONCE: usize = 10;

fn trials() -> usize {
    std::env::var("HOLDFAST_TRIALS").ok().and_then(|trials| trials.parse().ok()).unwrap_or(AT_ONCE)
}

/// Runs the trials of the campaign, several at once.
async fn campaign<F>(trial: impl Fn(usize) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let all: Vec<usize> = (0..trials()).collect();
    for batch in all.chunks(AT_ONCE) {
        let mut running = JoinSet::new();
        for number in batch {
            running.spawn(trial(*number));
        }
        while let Some(done) = running.join_next().await {
            done.expect("no trial fails");
        }
    }
}

/// A process that writes under a lock, with its journal.
async fn writer(addresses: &str, lock: &str, file: &Path) -> (Program, u64) {
    let (ttl, file) = (TTL.as_millis().to_string(), file.to_str().expect("a path"));
    let mut program = start_example("journal", &[addresses, lock, &ttl, file]);
    let line = program.line().await.expect("a line");
    let token = line.strip_prefix("held ").and_then(|token| token.parse().ok());
    assert_eq!(program.line().await.as_deref(), Some("writing"));
    (program, token.unwrap_or_else(|| panic!("not held: {line}")))
}

/// The holder's process is stopped for longer than its TTL, and the lock goes to the next waiter. After the holder
/// resumes, its guard reports the loss, and the holder starts no further write. A write that was interrupted by the stop
/// may arrive late; the fence must reject it.
#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_was_stopped_beyond_its_ttl_asks_for_no_write_when_it_wakes() {
    let cluster = Cluster::three().await;
    let dir = tempfile::tempdir().expect("a directory");
    let next = Client::new(addresses(&cluster)).expect("a client");
    let endpoints = addresses(&cluster).join(",");
    campaign(|number| {
        let (next, endpoints) = (next.clone(), endpoints.clone());
        let (lock, file) = (format!("paused/{number}"), dir.path().join(number.to_string()));
        async move {
            let (mut paused, first) = writer(&endpoints, &lock, &file).await;
            paused.signal(Signal::SIGSTOP);
            let guard = next.lock(&lock).timeout(DEADLINE).acquire().await.expect("the lock");
            assert!(guard.token().0 > first);
            let (granted, before) = (journal::now(), journal::lines(&file));
            guard.ensure().expect("the next one holds");
            paused.signal(Signal::SIGCONT);
            let line = paused.line().await.expect("a line");
            assert!(line.starts_with("lost no renewal was acknowledged"), "{line}");
            assert_eq!(paused.end().await.code(), Some(3));
            let written = journal::lines(&file);
            assert_eq!(journal::verdict(&written, first, granted), Ok(()));
            assert!(written.len() <= before.len() + 1, "one write alone can be under way");
            assert!(written.iter().all(|line| line.token == first));
            guard.release().await.expect("released");
        }
    })
    .await;
}

/// The next waiter gets the lock of a killed holder when the TTL has passed, not before.
#[tokio::test(flavor = "multi_thread")]
async fn the_lock_of_a_killed_process_is_the_next_ones_after_its_ttl() {
    let cluster = Cluster::three().await;
    let dir = tempfile::tempdir().expect("a directory");
    let next = Client::new(addresses(&cluster)).expect("a client");
    let (mut killed, first) =
        writer(&addresses(&cluster).join(","), "killed", &dir.path().join("file")).await;
    let earliest = cluster.node(1).http.earliest_expiry("killed", TTL).await;
    killed.signal(Signal::SIGKILL);
    killed.end().await;
    let guard = next.lock("killed").timeout(DEADLINE).acquire().await.expect("the lock");
    assert!(Instant::now() + Duration::from_millis(50) >= earliest);
    assert!(guard.token().0 > first);
}

/// One process observes the loss and the next grant on one clock: the loss comes first.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_is_cut_off_knows_before_the_next_one_is_granted() {
    let cluster = Cluster::three().await;
    let ttl = 3 * TTL;
    campaign(|number| {
        let (endpoints, lock) = (addresses(&cluster), format!("cut/{number}"));
        async move {
            let links = Links::of_client(&endpoints).await;
            let client =
                Client::builder(links.client_endpoints()).ttl(ttl).build().expect("a client");
            let next = Client::new(endpoints).expect("a client");
            let guard = client.lock(&lock).acquire().await.expect("the lock");
            links.isolate_client();
            let told = async {
                let loss = guard.lost().await;
                (Instant::now(), loss)
            };
            let granted = async {
                let next = next.lock(&lock).timeout(DEADLINE).acquire().await.expect("the lock");
                (Instant::now(), guard.is_held(), next)
            };
            let ((told_at, loss), (granted_at, still_held, next)) = tokio::join!(told, granted);
            assert!(matches!(loss, Loss::NotRenewed { .. }), "{loss:?}");
            assert!(!still_held, "the guard says so by its clock");
            assert!(told_at < granted_at, "late by {:?}", told_at - granted_at);
            assert!(next.token() > guard.token());
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn work_under_a_lock_is_cancelled_before_the_next_one_begins() {
    let cluster = Cluster::three().await;
    let links = Links::of_client(&addresses(&cluster)).await;
    let client = Client::builder(links.client_endpoints()).ttl(3 * TTL).build().expect("a client");
    let next = Client::new(addresses(&cluster)).expect("a client");
    let (begun, has_begun) = tokio::sync::oneshot::channel();
    let work = client.lock("orders").with_lock(async |hold: holdfast_client::Hold| {
        begun.send(hold).expect("somebody listens");
        std::future::pending::<()>().await;
    });
    let other = async {
        let hold = has_begun.await.expect("the work begins");
        links.isolate_client();
        let next = next.lock("orders").timeout(DEADLINE).acquire().await.expect("the lock");
        assert!(!hold.is_held());
        (Instant::now(), next)
    };
    let work = async { (work.await, Instant::now()) };
    let ((done, cancelled_at), (granted_at, _next)) = tokio::join!(work, other);
    assert!(matches!(done, Err(Error::Lost(Loss::NotRenewed { .. }))), "{done:?}");
    assert!(cancelled_at < granted_at);
}
