//! Small calls beside hundreds of large bodies: they are not delayed by more than a few bodies, and the leader stays.

use std::sync::Arc;
use std::time::{Duration, Instant};

use holdfast_lab::{Cluster, DEADLINE, Http, until};
use tokio::task::JoinSet;

const BODIES: usize = 400;
const BODY_BYTES: usize = 1_000_000;
/// Small calls of each measurement, each an acquire and a release.
const CYCLES: usize = 40;
/// Far above the median beside large bodies of this machine (0.1 s), and far below what it was without the limits (8 s).
const MEDIAN_MAX: Duration = Duration::from_secs(1);

async fn median_cycle(http: &Http) -> Duration {
    let mut took = Vec::new();
    for _ in 0..CYCLES {
        let began = Instant::now();
        http.put("/v1/locks/small?session=small&ttl=5m").await.assert_status(200);
        http.delete("/v1/locks/small?session=small").await.assert_status(204);
        took.push(began.elapsed());
    }
    took.sort();
    took[CYCLES / 2]
}

/// Sends large bodies one after the other until the task is aborted, and records the status of each response.
async fn send_bodies(http: Http, request: Arc<Vec<u8>>, statuses: Arc<std::sync::Mutex<Vec<u16>>>) {
    loop {
        let (response, _) = http.raw(&request, DEADLINE).await;
        if let Some(status) = response.get(9..12).and_then(|status| status.parse().ok()) {
            statuses.lock().expect("the statuses").push(status);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn small_calls_beside_hundreds_of_large_bodies_take_a_second_at_most_and_the_leader_stays() {
    let cluster = Cluster::three().await;
    let leader = cluster.wait_ready().await;
    let (term, _) = cluster.term_at(leader).await;
    let http = cluster.node(leader).http.clone();
    let usual = median_cycle(&http).await;
    let head = format!(
        "PUT /v1/tree/large HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {BODY_BYTES}\r\n\r\n"
    );
    let mut request = head.into_bytes();
    request.resize(request.len() + BODY_BYTES, b'x');
    let (request, statuses) = (Arc::new(request), Arc::default());
    let mut senders = JoinSet::new();
    for _ in 0..BODIES {
        senders.spawn(send_bodies(http.clone(), Arc::clone(&request), Arc::clone(&statuses)));
    }
    let stored = |statuses: &[u16]| statuses.iter().filter(|status| **status < 300).count();
    let answered = async || stored(&statuses.lock().expect("the statuses")) > 3;
    until("large bodies to be stored", DEADLINE, answered).await;
    let beside = median_cycle(&http).await;
    senders.shutdown().await;
    let statuses = std::mem::take(&mut *statuses.lock().expect("the statuses"));
    println!(
        "the median was {usual:?}, and {beside:?} beside {BODIES} bodies, of which {} of {} were stored",
        stored(&statuses),
        statuses.len()
    );
    assert!(beside < MEDIAN_MAX, "{beside:?}");
    let known = |status: &u16| matches!(status, 200 | 201 | 429 | 503);
    assert!(statuses.iter().all(known), "{statuses:?}");
    assert_eq!(cluster.term_at(leader).await, (term, Some(leader)), "the leader has changed");
}
