//! Rows 44c, 72, 73 and 76: repeated acquires of one owner, accepted and rejected.

use holdfast_client::{Client, Error};
use holdfast_lab::DEADLINE;

use crate::lab::{client, one};
use crate::program::addresses;

#[tokio::test(flavor = "multi_thread")]
async fn row_44c_a_second_acquire_that_is_not_to_be_reentrant_fails_at_once() {
    let (_cluster, http) = one().await;
    let token = http.take("a?session=me&ttl=1m&attempt=1&reentrant=false").await;
    // The acquire would wait for its own owner: rejected, whatever its wait time.
    let second = "/v1/locks/a?session=me&attempt=2&reentrant=false&wait=3m";
    http.put(second).await.assert_code(409, "not-reentrant");
    assert_eq!(http.lock("a").await["holders"][0]["hold_count"], 1);
    // A repeated acquire with the same re-entry id is a renewal.
    let again = http.put("/v1/locks/a?session=me&attempt=1&reentrant=false").await;
    assert_eq!((again.assert_status(200).token(), &again.json()["renewed"]), (token, &true.into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn row_72_the_rust_client_enters_waits_for_a_time_and_releases() {
    let (cluster, http) = one().await;
    let (client, other) = (client(&cluster), client(&cluster));
    let import = |client: &Client| client.lock("a").owner("import");
    let first = import(&client).acquire().await.expect("held");
    let second = import(&client).acquire().await.expect("once more");
    assert_eq!(
        (first.token(), http.lock("a").await["holders"][0]["hold_count"].as_u64()),
        (second.token(), Some(2))
    );
    let wait = std::time::Duration::from_millis(100);
    assert!(matches!(import(&other).timeout(wait).acquire().await, Err(Error::Busy(_))));
    first.release().await.expect("released");
    assert_eq!(http.lock("a").await["held"], true);
    second.release().await.expect("released");
    let next = import(&other).timeout(DEADLINE).acquire().await.expect("free");
    next.release().await.expect("released");
}

/// The cluster keeps the hold count: a restarted program with the same session has its old count.
#[tokio::test(flavor = "multi_thread")]
async fn row_73_the_count_survives_a_restart_of_the_client_with_the_same_session() {
    let (cluster, http) = one().await;
    http.put("/v1/sessions/web1?ttl=5m").await.assert_status(201);
    let begin = || {
        let builder = Client::builder(addresses(&cluster)).named_session("web1");
        builder.build().expect("a client")
    };
    let before = begin();
    let guard = before.lock("a").owner("import").acquire().await.expect("held");
    let token = guard.token();
    // The client ends without a release.
    std::mem::forget(guard);
    std::mem::forget(before);
    let after = begin();
    let again = after.lock("a").owner("import").try_acquire().await.expect("it is the same owner");
    assert_eq!(again.token(), token);
    assert_eq!(
        http.lock("a").await["holders"][0]["hold_count"],
        2,
        "the first entry is still counted"
    );
    again.release().await.expect("released");
    assert_eq!(http.holders("a").await, ["web1"]);
    http.release("a?session=web1&owner=import").await;
    assert_eq!(http.lock("a").await["held"], false);
}

#[tokio::test(flavor = "multi_thread")]
async fn row_76_a_mutex_that_is_not_reentrant_is_an_error_and_no_deadlock_of_ones_own() {
    let (cluster, _http) = one().await;
    let client = client(&cluster);
    let strict = || client.lock("a").owner("me").not_reentrant();
    let held = strict().acquire().await.expect("held");
    let again = tokio::time::timeout(DEADLINE, strict().acquire()).await.expect("it does not hang");
    let refused = again.expect_err("it is held by this very owner");
    assert_eq!(refused.problem().expect("a problem").code.as_str(), "not-reentrant");
    held.release().await.expect("released");
    strict().try_acquire().await.expect("free").release().await.expect("released");
}
