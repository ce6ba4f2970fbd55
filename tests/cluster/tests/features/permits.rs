//! Rows 41, 42 and 81a: semaphores.

use holdfast_client::Error;
use holdfast_lab::{DEADLINE, Method, until};
use serde_json::json;

use crate::lab::{client, one};

#[tokio::test(flavor = "multi_thread")]
async fn row_41_permits_are_taken_in_order_come_back_after_a_crash_and_are_never_given_back_twice()
{
    let (_cluster, http) = one().await;
    let held = async || http.lock("pool").await["permits_held"].clone();
    http.take("pool?session=a&ttl=5m&limit=4&permits=3").await;
    http.put("/v1/locks/pool?session=b&ttl=5m&permits=2").await.assert_code(423, "lock-busy");
    // FIFO: a smaller request does not overtake a larger one.
    let many = http.queue_up("pool?session=b&permits=2");
    http.until_waiters("pool", 1).await;
    let few = http.queue_up("pool?session=c");
    http.until_waiters("pool", 2).await;
    assert_eq!(held().await, 3, "one is free, and kept for the first in line");
    http.release("pool?session=a").await;
    many.await.expect("a task").assert_status(200);
    few.await.expect("a task").assert_status(200);
    assert_eq!(held().await, 3);
    // A repeated release, and a release by a session without permits, free no more permits than were taken.
    http.release("pool?session=a").await;
    http.put("/v1/sessions/nobody?ttl=1m").await.assert_status(201);
    http.delete("/v1/locks/pool?session=nobody").await.assert_code(409, "not-holder");
    assert_eq!(held().await, 3);
    http.put("/v1/locks/pool?session=d&ttl=5m&permits=2").await.assert_code(423, "lock-busy");
    // A crash: the session expires, and its permits are free again.
    http.take("pool?session=dead&ttl=1s").await;
    assert_eq!(held().await, 4);
    until("the permit of the dead", DEADLINE, || async { held().await == 3 }).await;
}

/// The Rust client gives back a part, and enters a semaphore again as another permit.
#[tokio::test(flavor = "multi_thread")]
async fn row_41_a_guard_gives_back_some_of_its_permits_and_keeps_the_others() {
    let (cluster, http) = one().await;
    let client = client(&cluster);
    let held = async || http.lock("pool").await["permits_held"].clone();
    let mut guard = client.semaphore("pool", 8).permits(3).acquire().await.expect("permits");
    let token = guard.token();
    guard.release_permits(1).await.expect("given back");
    assert_eq!((guard.permits(), guard.slots(), guard.token()), (2, vec![0, 1], token));
    assert_eq!(held().await, 2);
    let rest = guard.release_permits(2).await;
    assert!(matches!(rest, Err(Error::InvalidArgument(_))), "{rest:?}");
    let again = guard.reenter().await.expect("entered");
    assert_eq!((again.token(), again.slots()), (token, vec![0, 1]));
    again.release().await.expect("released");
    assert_eq!(held().await, 2);
    let other = client.semaphore("pool", 8).acquire().await.expect("another permit");
    assert!(other.token() > token && other.slots() == [2], "{other:?}");
    other.release().await.expect("released");
    assert_eq!(held().await, 2);
    guard.release().await.expect("released");
    assert_eq!(held().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn row_42_each_permit_has_an_id_an_expiry_and_a_token_and_is_given_back_by_its_id_once() {
    let (_cluster, http) = one().await;
    let permit = async |id: &str, more: &str| {
        let target = format!("/v1/locks/pool?session=me&owner={id}&ttl=5m&limit=3{more}");
        http.put(&target).await.assert_status(200).json()
    };
    let (first, second) = (permit("p1", "&max_hold=1m").await, permit("p2", "&max_hold=1s").await);
    let third = permit("p3", "").await;
    assert_eq!((&first["owner"], &first["slots"]), (&json!("p1"), &json!([0])));
    assert!(
        first["token"].as_u64() < second["token"].as_u64()
            && second["token"].as_u64() < third["token"].as_u64()
    );
    assert!(
        first["ends_in_ms"].as_u64() > second["ends_in_ms"].as_u64(),
        "each its own: {first} {second}"
    );
    let ids = async || {
        let holders = http.lock("pool").await["holders"].clone();
        let holders = holders.as_array().expect("holders").iter();
        holders
            .map(|holder| holder["owner"].as_str().unwrap_or_default().to_owned())
            .collect::<Vec<_>>()
    };
    // The second permit expires; the session and its other permits stay.
    until("the end of p2", DEADLINE, || async { ids().await == ["p1", "p3"] }).await;
    for _ in 0..2 {
        http.release("pool?session=me&owner=p1").await;
        assert_eq!(ids().await, ["p3"], "once, and only that one");
    }
    let token = &first["token"];
    http.get(&format!("/v1/fence/pool?token={token}")).await.assert_code(412, "stale-token");
    let token = &third["token"];
    http.get(&format!("/v1/fence/pool?token={token}")).await.assert_status(200);
    http.delete("/v1/locks/pool?session=me&owner=p9").await.assert_code(409, "not-holder");
}

#[tokio::test(flavor = "multi_thread")]
async fn row_81a_the_limit_of_a_semaphore_is_the_servers_and_is_changed_while_it_is_used() {
    let (cluster, http) = one().await;
    let (client, other) = (client(&cluster), client(&cluster));
    let pool = || client.semaphore("pool", 2);
    let both = pool().permits(2).acquire().await.expect("both");
    let wrong = other.semaphore("pool", 3).try_acquire().await.expect_err("it has 2");
    assert_eq!(wrong.problem().expect("a problem").code.as_str(), "limit-mismatch");
    let waiting = http.queue_up("pool?session=w");
    http.until_waiters("pool", 1).await;
    pool().set_limit(3).await.expect("larger");
    waiting.await.expect("a task").assert_status(200);
    // The limit falls below the number of held permits: no holder loses one, and no waiter gets one until it fits.
    http.call(Method::PATCH, "/v1/policies/pool?limit=1").await.assert_status(200);
    assert!(both.is_held());
    assert_eq!(http.lock("pool").await["permits_held"], 3);
    both.release().await.expect("released");
    assert!(matches!(other.semaphore("pool", 1).try_acquire().await, Err(Error::Busy(_))));
    http.release("pool?session=w").await;
    other
        .semaphore("pool", 1)
        .try_acquire()
        .await
        .expect("it fits")
        .release()
        .await
        .expect("released");
}
