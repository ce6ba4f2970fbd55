//! Row 36: a lock is renewed during the work and not longer.

use std::time::Duration;

use holdfast_client::{Client, Loss};
use holdfast_lab::{Cluster, DEADLINE, Http, until};

use crate::lab::one;
use crate::program::addresses;

const TTL: Duration = Duration::from_secs(2);

fn client(cluster: &Cluster) -> Client {
    Client::builder(addresses(cluster)).ttl(TTL).build().expect("a client")
}

async fn renewals(http: &Http) -> u64 {
    http.metric_value("holdfast_keepalives_total").await
}

/// The number of open sessions.
async fn sessions(http: &Http) -> usize {
    let body = http.get("/v1/sessions").await.assert_status(200).json();
    body["sessions"].as_array().expect("a list").len()
}

#[tokio::test(flavor = "multi_thread")]
async fn row_36_renewals_go_on_at_a_third_of_the_time_and_end_with_the_guard_or_its_task() {
    let (cluster, http) = one().await;
    for how in ["drop", "cancel"] {
        let client = client(&cluster);
        let lock = client.lock(format!("kept/{how}"));
        let (tell, told) = tokio::sync::oneshot::channel();
        let (end, ended) = tokio::sync::oneshot::channel::<()>();
        let task = tokio::spawn(async move {
            let guard = lock.acquire().await.expect("held");
            tell.send(guard.hold()).expect("somebody listens");
            drop(ended.await);
            drop(guard);
        });
        let hold = told.await.expect("held");
        let before = renewals(&http).await;
        until("renewals for three lives of it", DEADLINE, || async {
            renewals(&http).await >= before + 9
        })
        .await;
        hold.ensure().expect("renewed in time");
        match how {
            "drop" => end.send(()).expect("it waits"),
            _ => task.abort(),
        }
        // The client is alive but has no guard, so it does not renew, and its session expires.
        until("no lock", DEADLINE, || async {
            !http.lock(&format!("kept/{how}")).await["held"].as_bool().expect("a word")
        })
        .await;
        until("no session", DEADLINE, || async { sessions(&http).await == 0 }).await;
        drop(client);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn row_36_a_missed_beacon_gives_the_lock_back_and_the_longest_hold_wins_over_every_renewal() {
    let (cluster, _http) = one().await;
    let client = client(&cluster);
    let every = Duration::from_millis(300);
    let stuck = client.lock("stuck").progress_timeout(every).acquire().await.expect("held");
    // The process is alive, and another guard renews the session.
    let _other = client.lock("other").acquire().await.expect("held");
    let next = client.lock("stuck").timeout(DEADLINE).acquire().await.expect("given back");
    assert_eq!(stuck.ensure(), Err(Loss::Stalled { timeout: every }));
    assert!(next.token() > stuck.token());
    let max = 2 * TTL;
    let long =
        client.lock("long").progress_timeout(TTL).max_hold(max).acquire().await.expect("held");
    let mut progress = tokio::time::interval(TTL / 16);
    let loss = loop {
        progress.tick().await;
        if let Err(loss) = long.report_progress() {
            break loss;
        }
    };
    assert_eq!(loss, Loss::MaxHoldExceeded { max });
    let next = client.lock("long").timeout(DEADLINE).acquire().await;
    assert!(next.expect("it is over there, too").token() > long.token());
}
