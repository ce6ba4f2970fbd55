//! Rows 31 to 37, 69 to 71, 74 and 79: queue order, grants and their notification.

use std::time::Duration;

use holdfast_client::Loss;
use holdfast_lab::{Cluster, DEADLINE, Http, Method, until};
use serde_json::{Value, json};

use crate::lab::{WOKEN, changes, client, now, one, revisions};

#[tokio::test(flavor = "multi_thread")]
async fn row_31_an_owner_is_a_session_and_a_name_and_its_count_is_shown() {
    let (_cluster, http) = one().await;
    http.take("a?session=me&owner=import&ttl=1m&attempt=1").await;
    http.take("a?session=me&owner=import&attempt=2").await;
    http.put("/v1/locks/a?session=me&owner=export").await.assert_code(423, "lock-busy");
    http.put("/v1/locks/a?session=you&owner=import").await.assert_code(423, "lock-busy");
    let holder = http.lock("a").await["holders"][0].clone();
    assert_eq!(
        (&holder["session"], &holder["owner"], &holder["hold_count"]),
        (&json!("me"), &json!("import"), &json!(2))
    );
    // An owner is neither a thread nor a connection: each of these calls used a new connection.
    http.delete("/v1/locks/a?session=me&owner=export").await.assert_code(409, "not-holder");
}

#[tokio::test(flavor = "multi_thread")]
async fn row_32_the_last_release_grants_the_next_in_its_own_entry_and_tells_nobody_else() {
    let (_cluster, http) = one().await;
    http.take("a?session=me&ttl=1m&attempt=1").await;
    http.take("a?session=me&attempt=2").await;
    let next = http.queue_up("a?session=w1");
    http.until_waiters("a", 1).await;
    let others = [http.queue_up("a?session=w2"), http.queue_up("a?session=w3")];
    http.until_waiters("a", 3).await;
    let since = now(&http).await;
    http.release("a?session=me&attempt=1").await;
    assert_eq!(revisions(&changes(&http, "/locks/a", since).await, "lost"), [0; 0], "one is left");
    http.release("a?session=me&attempt=2").await;
    next.await.expect("a task").assert_status(200);
    let told = changes(&http, "/locks/a", since).await;
    let (lost, granted) = (revisions(&told, "lost"), revisions(&told, "granted"));
    assert_eq!((lost.len(), &lost), (1, &granted), "one entry frees and grants: {told:?}");
    assert_eq!(http.metric_value(WOKEN).await, 1, "nobody else was woken");
    assert!(others.iter().all(|other| !other.is_finished()));
}

#[tokio::test(flavor = "multi_thread")]
async fn row_33_a_grant_whose_notification_is_lost_is_there_when_it_is_asked_for() {
    let (_cluster, http) = one().await;
    http.take("a?session=me&ttl=1m").await;
    let deaf = http.queue_up("a?session=you");
    http.until_waiters("a", 1).await;
    let since = now(&http).await;
    // The caller has disconnected, so no client receives the grant.
    deaf.abort();
    http.release("a?session=me").await;
    http.until_held_by("a", &["you"]).await;
    let again = http.put("/v1/locks/a?session=you&ttl=4m").await;
    assert_eq!(again.assert_status(200).json()["renewed"], true, "the same grant: {again}");
    assert_eq!(http.lock("a").await["holders"][0]["token"], again.token());
    let news = http.post(&format!("/v1/sessions/you/keepalive?wait=0s&since={since}")).await.json();
    assert_eq!(
        (&news["events"][0]["kind"], &news["events"][0]["token"]),
        (&json!("granted"), &json!(again.token())),
        "{news}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn row_34_a_lock_is_taken_for_ever_for_a_time_or_tried_for_a_time_by_client_and_http() {
    let (cluster, http) = one().await;
    let client = client(&cluster);
    let (wait, lease) = (Duration::from_millis(100), Duration::from_mins(1));
    // lock()
    let plain = client.lock("a").acquire().await.expect("held");
    assert!(plain.grant().ends_in_ms.is_none(), "{:?}", plain.grant());
    // tryLock(wait, lease)
    let short = client.lock("a").timeout(wait).max_hold(lease).acquire().await.expect_err("held");
    assert_eq!(short.problem().expect("a problem").code.as_str(), "wait-timeout");
    plain.release().await.expect("released");
    // lock(lease)
    let leased = client.lock("a").max_hold(lease).acquire().await.expect("held");
    assert!(leased.grant().ends_in_ms.is_some_and(|left| left <= 60_000), "{:?}", leased.grant());
    assert!(leased.remaining() <= lease);
    drop(leased);

    let plain = http.put("/v1/locks/b?session=me&ttl=1m").await;
    assert!(plain.assert_status(200).json().get("ends_in_ms").is_none(), "{plain}");
    let short = http.put("/v1/locks/b?session=you&wait=100ms&max_hold=1m").await;
    short.assert_code(423, "wait-timeout");
    http.release("b?session=me").await;
    let leased = http.put("/v1/locks/b?session=you&wait=100ms&max_hold=1m").await;
    assert!(leased.assert_status(200).json()["ends_in_ms"].as_u64() <= Some(60_000), "{leased}");
}

/// The first event is the ticket: from then on the replicated queue has the entry, also without the connection.
#[tokio::test(flavor = "multi_thread")]
async fn row_35_an_enqueue_answers_at_once_and_the_result_is_asked_for_in_three_ways() {
    const CALL: &str = "/v1/locks/a?session=me&ttl=4m&wait=3m";
    let (_cluster, http) = one().await;
    http.take("a?session=other&ttl=5m").await;
    let mut events = http.stream(Method::PUT, CALL).await.expect("a stream");
    let receipt = events.next().await.expect("an event");
    assert_eq!((receipt.name.as_str(), &receipt.data["position"]), ("queued", &json!(1)));
    // By poll: not granted yet; the poll changes nothing.
    let waits = async || http.get("/v1/sessions/me").await.json()["waits"].clone();
    assert_eq!(waits().await, json!(["a"]));
    http.put("/v1/locks/a?session=me").await.assert_code(423, "lock-busy");
    assert_eq!(http.queue("a").await, ["me"]);
    // By a long poll, in parallel with the stream.
    let polled = http.begin(Method::PUT, CALL);
    until("the long poll", DEADLINE, || async { http.metric_value(PARKED).await == 2 }).await;
    http.release("a?session=other").await;
    let token = polled.await.expect("a task").assert_status(200).token();
    // By the event stream.
    let mut last = events.next().await.expect("an event");
    while last.name == "queued" {
        last = events.next().await.expect("an event");
    }
    assert_eq!((last.name.as_str(), &last.data["token"]), ("granted", &json!(token)));
    let held = http.get("/v1/sessions/me").await.json()["holds"].clone();
    let ticket = &last.data["ticket"];
    assert!(ticket.is_u64(), "{last:?}");
    assert_eq!(held, json!([{ "lock": "a", "ticket": ticket, "token": token }]));
}

const PARKED: &str = "holdfast_parked_calls";

#[tokio::test(flavor = "multi_thread")]
async fn row_37_the_order_is_strict_and_a_dead_waiter_costs_no_more_than_its_own_time() {
    let (_cluster, http) = one().await;
    http.take("a?session=me&ttl=5m").await;
    let dead = http.begin(Method::PUT, "/v1/locks/a?session=dead&ttl=1s&wait=3m");
    http.until_waiters("a", 1).await;
    let alive = http.queue_up("a?session=alive");
    http.until_waiters("a", 2).await;
    assert_eq!(http.queue("a").await, ["dead", "alive"]);
    // The waiter is killed, so its session gets no renewals. After the release it is granted, and then expires.
    dead.abort();
    http.release("a?session=me").await;
    alive.await.expect("a task").assert_status(200);
    http.get("/v1/sessions/dead").await.assert_code(410, "session-expired");
    // A dead waiter behind a holder delays no other waiter.
    let dead = http.begin(Method::PUT, "/v1/locks/a?session=dead2&ttl=1s&wait=3m");
    http.until_waiters("a", 1).await;
    let last = http.queue_up("a?session=last");
    http.until_waiters("a", 2).await;
    dead.abort();
    until("the dead one to leave the queue", DEADLINE, || async {
        http.queue("a").await == ["last"]
    })
    .await;
    assert_eq!(http.holders("a").await, ["alive"]);
    http.release("a?session=alive").await;
    last.await.expect("a task").assert_status(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn row_69_a_release_wakes_one_waiter_in_the_whole_cluster() {
    let cluster = Cluster::three().await;
    let endpoints = cluster.endpoints();
    let woken = async || {
        let mut sum = 0;
        for http in &endpoints {
            sum += http.metric_value(WOKEN).await;
        }
        sum
    };
    endpoints[0].take("a?session=first&ttl=5m").await;
    let mut calls = Vec::new();
    for number in 0..30 {
        calls.push(endpoints[number % 3].queue_up(&format!("a?session=w{number}")));
    }
    endpoints[0].until_waiters("a", 30).await;
    assert_eq!(woken().await, 0);
    let mut holder = "first".to_owned();
    for released in 1..=5 {
        endpoints[1].release(&format!("a?session={holder}")).await;
        holder = endpoints[2].holders("a").await[0].clone();
        until("the one wake-up", DEADLINE, || async { woken().await == released }).await;
    }
    assert_eq!(calls.iter().filter(|call| call.is_finished()).count(), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn row_70_a_waiter_that_dies_in_the_middle_orphans_nobody_and_lets_nobody_in_early() {
    let (_cluster, http) = one().await;
    http.take("a?session=me&ttl=5m").await;
    let mut calls = Vec::new();
    for (number, session) in ["w1", "w2", "w3"].into_iter().enumerate() {
        calls.push(http.queue_up(&format!("a?session={session}")));
        http.until_waiters("a", u64::try_from(number).expect("small") + 1).await;
    }
    http.delete("/v1/sessions/w2").await.assert_status(204);
    http.until_waiters("a", 2).await;
    assert_eq!(
        (http.holders("a").await, http.queue("a").await),
        (names(&["me"]), names(&["w1", "w3"]))
    );
    assert!(!calls[0].is_finished() && !calls[2].is_finished(), "nobody is granted early");
    http.release("a?session=me").await;
    calls.remove(0).await.expect("a task").assert_status(200);
    assert_eq!(http.holders("a").await, ["w1"]);
    http.release("a?session=w1").await;
    calls.pop().expect("the last").await.expect("a task").assert_status(200);
}

fn names(sessions: &[&str]) -> Vec<String> {
    sessions.iter().map(|session| (*session).to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn row_71_a_release_is_done_once_however_often_it_is_sent() {
    let (_cluster, http) = one().await;
    http.take("a?session=me&ttl=1m&attempt=1").await;
    http.take("a?session=me&attempt=2").await;
    let leave = async |attempt: u32| {
        let left = http.delete(&format!("/v1/locks/a?session=me&attempt={attempt}")).await;
        left.assert_status(204).header("holdfast-hold-count").map(str::to_owned)
    };
    // The reply was lost: the same call gets the first reply.
    assert_eq!(leave(1).await.as_deref(), Some("1"));
    assert_eq!(leave(1).await.as_deref(), Some("1"));
    assert_eq!(http.holders("a").await, ["me"], "the other attempt holds on");
    assert_eq!(leave(2).await.as_deref(), Some("0"));
    let next = http.take("a?session=you&ttl=1m").await;
    // Late copies of the release do not affect the next holder.
    http.delete("/v1/locks/a?session=me&attempt=2").await.assert_status(204);
    http.delete("/v1/locks/a?session=me").await.assert_status(204);
    assert_eq!(http.lock("a").await["holders"][0]["token"], next);
}

/// True if nothing of a queue entry is left: in the queue, in its session, and in the tree.
async fn is_gone(http: &Http, session: &str) -> bool {
    let told = http.get(&format!("/v1/sessions/{session}")).await.json();
    let children = http.get("/v1/tree/locks/a?children").await.assert_status(200).json();
    let places = children["children"].as_array().map(Vec::len);
    told["waits"].as_array().is_none_or(Vec::is_empty)
        && http.queue("a").await.is_empty()
        && places == Some(1)
}

#[tokio::test(flavor = "multi_thread")]
async fn row_74_timeout_cancel_and_disconnect_each_take_the_whole_place() {
    let (_cluster, http) = one().await;
    http.take("a?session=me&ttl=5m").await;
    http.put("/v1/locks/a?session=late&ttl=5m&wait=100ms").await.assert_code(423, "wait-timeout");
    assert!(is_gone(&http, "late").await, "timeout");
    let cancelled = http.queue_up("a?session=cancelled");
    http.until_waiters("a", 1).await;
    http.release("a?session=cancelled").await;
    assert!(is_gone(&http, "cancelled").await, "cancel");
    assert_eq!(cancelled.await.expect("a task").status, 423);
    // A caller with an anonymous session leaves the queue when it disconnects.
    let nameless = http.begin(Method::PUT, "/v1/locks/a?wait=3m&ttl=5m");
    http.until_waiters("a", 1).await;
    let session = http.queue("a").await.remove(0);
    nameless.abort();
    until("the end of the place", DEADLINE, || async { is_gone(&http, &session).await }).await;
    assert_eq!(http.holders("a").await, ["me"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn row_79_waiting_is_a_future_that_is_woken_once_and_can_be_given_up() {
    let (cluster, http) = one().await;
    let (client, other) = (client(&cluster), client(&cluster));
    let guard = client.lock("a").acquire().await.expect("held");
    let given_up = other.lock("a").acquire();
    let short = tokio::time::timeout(Duration::from_millis(300), given_up).await;
    assert!(short.is_err());
    http.until_waiters("a", 0).await;
    // The node may have noticed the disconnect after the entry left the queue, which is a wake-up, too.
    let woken_before = http.metric_value(WOKEN).await;
    let waiting = other.lock("a").acquire();
    let releasing = async {
        http.until_waiters("a", 1).await;
        guard.release().await.expect("released");
    };
    let (next, ()) = tokio::join!(waiting, releasing);
    let next = next.expect("held");
    assert_eq!(next.ensure(), Ok::<(), Loss>(()));
    let calls = http.metric_value(crate::lab::GRANTED).await;
    let woken = http.metric_value(WOKEN).await - woken_before;
    assert_eq!((calls, woken), (2, 1), "it asked once, and was woken once");
    let body: Value = http.lock("a").await;
    assert_eq!(body["holders"][0]["token"], next.token().0);
}
