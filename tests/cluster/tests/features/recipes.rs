//! Rows 12, 43, 81b, 81c and 81e: conditional writes, latches, elections, barriers and counters.

use holdfast_client::Error;
use holdfast_lab::{DEADLINE, Method, until};
use serde_json::json;

use crate::lab::{changes, client, now, one, revisions};

/// Of all writers with the same version, exactly one succeeds; the others get a mismatch and retry.
#[tokio::test(flavor = "multi_thread")]
async fn row_12_of_those_who_replace_the_version_they_read_exactly_one_gets_through() {
    const WRITERS: i64 = 6;
    let (cluster, _http) = one().await;
    let clients: Vec<_> = (0..WRITERS).map(|_| client(&cluster)).collect();
    let first = clients[0].counter("stock").set(100).await.expect("set");
    let racing = clients.iter().map(|client| {
        let stock = client.counter("stock");
        tokio::spawn(async move { stock.set_if(99, first.version).await })
    });
    let (mut won, mut refused) = (0, 0);
    for raced in racing.collect::<Vec<_>>() {
        match raced.await.expect("a task") {
            Ok(body) => {
                assert!(body.version > first.version);
                won += 1;
            }
            Err(Error::Rejected(problem)) if problem.code.as_str() == "version-mismatch" => {
                refused += 1;
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!((won, refused), (1, WRITERS - 1));
    // With a retry after each rejection every writer succeeds, and no update is lost.
    let trying = clients.iter().map(|client| {
        let stock = client.counter("stock");
        tokio::spawn(async move {
            let mut retries = 0;
            loop {
                let read = stock.get().await.expect("read");
                match stock.set_if(read.value - 1, read.version).await {
                    Ok(_) => return retries,
                    Err(Error::Rejected(_)) => retries += 1,
                    Err(error) => panic!("{error}"),
                }
            }
        })
    });
    let mut retries = 0;
    for tried in trying.collect::<Vec<_>>() {
        retries += tried.await.expect("a task");
    }
    println!("{WRITERS} writers, {retries} retries");
    assert_eq!(clients[0].counter("stock").get().await.expect("read").value, 99 - WRITERS);
}

#[tokio::test(flavor = "multi_thread")]
async fn row_43_a_latch_is_set_once_counts_each_key_once_wakes_all_and_counts_the_dead() {
    let (_cluster, http) = one().await;
    let latch = "/v1/latches/done";
    http.put(&format!("{latch}?count=3")).await.assert_status(201);
    http.put(&format!("{latch}?count=3")).await.assert_status(200);
    http.put(&format!("{latch}?count=4")).await.assert_code(409, "count-mismatch");
    let waiting = [(); 3].map(|()| http.begin(Method::GET, &format!("{latch}?wait=3m")));
    for left in [2, 2] {
        let down = http.post(&format!("{latch}?key=eu")).await;
        assert_eq!(down.assert_status(200).json()["left"], left, "each key once");
    }
    http.put("/v1/sessions/dies?ttl=1s").await.assert_status(201);
    http.post(&format!("{latch}?key=us&session=dies&on_death=count")).await.assert_status(200);
    until("the dead to be counted", DEADLINE, || async {
        http.get(latch).await.json()["left"] == 1
    })
    .await;
    assert!(waiting.iter().all(|wait| !wait.is_finished()));
    assert_eq!(http.post(&format!("{latch}?key=ap")).await.assert_status(200).json()["left"], 0);
    for wait in waiting {
        assert_eq!(wait.await.expect("a task").assert_status(200).json()["open"], true);
    }
}

fn arrival(session: &str, ttl: &str) -> String {
    format!("/v1/barriers/go?parties=3&session={session}&ttl={ttl}&wait=3m")
}

#[tokio::test(flavor = "multi_thread")]
async fn row_81c_the_last_arrival_opens_for_all_in_one_entry_and_a_death_opens_for_nobody() {
    let (_cluster, http) = one().await;
    let arrived = async |count: usize| {
        until("the arrivals", DEADLINE, || async {
            let body = http.get("/v1/barriers/go").await.json();
            body["arrived"].as_array().map(Vec::len) == Some(count)
        })
        .await;
    };
    // One of the first three is killed: the two waiting members get an error, and none passes.
    let first = http.begin(Method::PUT, &arrival("w1", "5m"));
    arrived(1).await;
    let dying = http.begin(Method::PUT, &arrival("w2", "1s"));
    arrived(2).await;
    dying.abort();
    let told = first.await.expect("a task");
    told.assert_code(409, "barrier-broken");
    assert_eq!(
        (&told.json()["session"], &told.json()["cause"]),
        (&json!("w2"), &json!("session-expired"))
    );
    arrived(0).await;
    // Then all three members arrive.
    let calls = [
        http.begin(Method::PUT, &arrival("w1", "5m")),
        http.begin(Method::PUT, &arrival("w3", "5m")),
    ];
    arrived(2).await;
    assert!(calls.iter().all(|call| !call.is_finished()), "nobody passes without the third");
    let last = http.put(&arrival("w4", "5m")).await.assert_status(200).json();
    assert_eq!(last["index"], 2);
    for call in calls {
        let passed = call.await.expect("a task").assert_status(200).json();
        assert_eq!(passed["generation"], last["generation"], "one opening for all");
    }
    // A double barrier: members enter and leave together, and a member that is killed inside counts as left.
    let room = "/v1/double-barriers/room";
    let enter =
        |session: &str, ttl: &str| format!("{room}?parties=2&session={session}&ttl={ttl}&wait=3m");
    let one = http.begin(Method::PUT, &enter("in1", "5m"));
    let two = http.begin(Method::PUT, &enter("in2", "1s"));
    one.await.expect("a task").assert_status(200);
    two.await.expect("a task").assert_status(200);
    http.delete(&format!("{room}?session=in1&wait=25s")).await.assert_status(200);
}

/// An election is a lock with a value: one queue, one kind of grant.
#[tokio::test(flavor = "multi_thread")]
async fn row_81b_candidates_show_their_value_and_the_next_leads_with_a_larger_token_when_one_resigns()
 {
    let (_cluster, http) = one().await;
    let first = http.take("elections/db?session=db1&ttl=5m&value=10.0.0.1").await;
    let second = http.queue_up("elections/db?session=db2&value=10.0.0.2");
    http.until_waiters("elections/db", 1).await;
    let third = http.queue_up("elections/db?session=db3&value=10.0.0.3");
    http.until_waiters("elections/db", 2).await;
    let seen = http.lock("elections/db").await;
    assert_eq!(
        [&seen["holders"][0]["value"], &seen["queue"][0]["value"], &seen["queue"][1]["value"]],
        [&json!("10.0.0.1"), &json!("10.0.0.2"), &json!("10.0.0.3")]
    );
    let since = now(&http).await;
    http.release("elections/db?session=db1").await;
    let token = second.await.expect("a task").assert_status(200).token();
    assert!(token > first && !third.is_finished());
    // One change of the log notifies observers of the old leader's end and of the new leader.
    let told = changes(&http, "/locks/elections/", since).await;
    assert_eq!(
        (revisions(&told, "lost").len(), revisions(&told, "granted")),
        (1, revisions(&told, "lost")),
        "{told:?}"
    );
    // A leader that resigned may campaign again, at the end of the queue.
    let again = http.queue_up("elections/db?session=db1&value=10.0.0.1");
    http.until_waiters("elections/db", 2).await;
    http.delete("/v1/sessions/db2").await.assert_status(204);
    third.await.expect("a task").assert_status(200);
    assert_eq!(http.lock("elections/db").await["holders"][0]["value"], "10.0.0.3");
    drop(again);
}

const CHANGED: &str =
    r#"holdfast_http_requests_total{route="/v1/counters/{name}",method="POST",code="200"}"#;

#[tokio::test(flavor = "multi_thread")]
async fn row_81e_a_counter_is_changed_by_one_call_that_succeeds_or_says_why_and_counts_once() {
    const CLIENTS: u64 = 20;
    let (cluster, http) = one().await;
    let shared = client(&cluster);
    let _session = shared.session().await.expect("open");
    let adding = (0..CLIENTS).map(|_| {
        let hits = shared.counter("hits");
        tokio::spawn(async move { hits.add(1).await.expect("added").value })
    });
    let mut values = Vec::new();
    for added in adding.collect::<Vec<_>>() {
        values.push(added.await.expect("a task"));
    }
    values.sort_unstable();
    assert_eq!(values, (1..=20).collect::<Vec<_>>(), "each saw its own");
    assert_eq!(http.metric_value(CHANGED).await, CLIENTS, "however contended, one call each");
    // A repeated call with the same request id has one effect and gets the first reply.
    let session = "/v1/sessions/me?ttl=5m";
    http.put(session).await.assert_status(201);
    let once = "/v1/counters/hits?add=5&session=me&request=1";
    let first = http.post(once).await.assert_status(200).json();
    http.post("/v1/counters/hits?add=1").await.assert_status(200);
    let again = http.post(once).await.assert_status(200).json();
    assert_eq!((&first["value"], &again["value"]), (&json!(25), &json!(25)));
    assert_eq!(http.get("/v1/counters/hits").await.json()["value"], 26);
    // The counter does not wrap: an overflow is an error.
    let end = i64::MAX.to_string();
    let refused = http.post(&format!("/v1/counters/hits?add={end}")).await;
    assert!((400..500).contains(&refused.status) && !refused.retryable(), "{refused}");
    assert_eq!(http.get("/v1/counters/hits").await.json()["value"], 26);
}
