//! Row 64: a disconnected holder gets a warning, then the loss, before the next grant; its later writes are rejected.

use std::time::{Duration, Instant};

use holdfast_client::{Client, Loss};
use holdfast_lab::{Cluster, DEADLINE, FencedStore, Links};

use crate::program::addresses;

const TTL: Duration = Duration::from_secs(3);

#[tokio::test(flavor = "multi_thread")]
async fn row_64_jeopardy_comes_before_the_loss_the_loss_before_the_next_and_stale_writes_are_refused()
 {
    let cluster = Cluster::three().await;
    let links = Links::of_client(&addresses(&cluster)).await;
    let client = Client::builder(links.client_endpoints()).ttl(TTL).build().expect("a client");
    let next = Client::new(addresses(&cluster)).expect("a client");
    let store = FencedStore::default();
    let guard = client.lock("orders").acquire().await.expect("the lock");
    assert_eq!(store.read(guard.token().0), Some(0));
    links.isolate_client();
    let warned = async {
        let left = guard.at_risk().await;
        (Instant::now(), left, guard.is_held())
    };
    let told = async {
        let loss = guard.lost().await;
        (Instant::now(), loss)
    };
    let granted = async {
        let guard = next.lock("orders").timeout(DEADLINE).acquire().await.expect("the lock");
        (Instant::now(), guard)
    };
    let ((warned_at, left, still_held), (told_at, loss), (granted_at, heir)) =
        tokio::join!(warned, told, granted);
    assert!(still_held && left > Duration::ZERO && left < TTL / 2, "{left:?}");
    assert!(matches!(loss, Loss::NotRenewed { .. }), "{loss:?}");
    assert!(warned_at < told_at && told_at < granted_at, "warned, told, and then granted");
    assert_eq!(guard.at_risk().await, Duration::ZERO, "once it is lost nothing is left");
    // The former holder writes with its stale token.
    assert_eq!(store.read(heir.token().0), Some(0));
    assert!(!store.write(guard.token().0, 13), "refused");
    assert!(store.write(heir.token().0, 1));
    assert_eq!(store.value(), 1);
}

/// At any moment, the client's deadline is not later than the server's.
#[tokio::test(flavor = "multi_thread")]
async fn row_64_the_deadline_here_is_never_later_than_the_deadline_there() {
    let cluster = Cluster::three().await;
    let client = Client::builder(addresses(&cluster)).ttl(TTL).build().expect("a client");
    let guard = client.lock("orders").acquire().await.expect("the lock");
    let http = &cluster.node(1).http;
    let target = format!("/v1/sessions/{}", guard.session());
    let mut compared = 0;
    // The loop covers more than one renewal.
    while compared < 30 {
        let here = guard.deadline();
        let there = http.get(&target).await.assert_status(200).json();
        let Some(left) = there["expires_in_ms"].as_u64() else { continue };
        // A renewal between the two reads extends the later value.
        assert!(here <= Instant::now() + Duration::from_millis(left), "{here:?}, {there}");
        compared += 1;
        let lost = tokio::time::timeout(TTL / 15, guard.lost()).await;
        assert!(lost.is_err(), "{lost:?}");
    }
}
