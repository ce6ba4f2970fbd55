//! Live updates of pages.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::HOST;
use http_body_util::BodyExt as _;
use serde_json::json;

use super::{Stub, api, problem};

#[tokio::test]
async fn a_live_page_receives_its_region_and_the_addresses_of_other_nodes() {
    let stub = Stub::new(api("off", |_| true));
    let request = Request::get("/ui/updates?page=lock&name=a/b").header(HOST, "node1:7400");
    let response = stub.send(request.body(Body::empty()).unwrap()).await;
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let mut events = response.into_body();
    let mut next = async || {
        let frame = events.frame().await.unwrap().unwrap();
        String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap()
    };
    assert!(next().await.starts_with("event: addresses\ndata: {\"node\":1"));
    let fragment = next().await;
    let data = fragment.strip_prefix("event: fragment\ndata: ").unwrap();
    let fragment: String = serde_json::from_str(data.trim()).unwrap();
    assert!(fragment.starts_with("<div id=\"live\" data-revision=\"77\">"), "{fragment}");
    assert!(fragment.contains("data-waiter=\"web1\"") && !fragment.contains("<h1>"), "{fragment}");
}

/// Reads a stream until an event has this text.
async fn event_with(updates: &mut Body, wanted: &str) -> String {
    let mut read = String::new();
    let found = tokio::time::timeout(Duration::from_secs(10), async {
        while !read.contains(wanted) {
            let frame = updates.frame().await.expect("an event").expect("a frame");
            read.push_str(&String::from_utf8_lossy(frame.data_ref().expect("data")));
        }
    });
    assert!(found.await.is_ok(), "no {wanted:?} in {read}");
    read
}

impl Stub {
    /// The live updates of a page.
    async fn updates(&self, page: &str) -> Body {
        let request = Request::get(format!("/ui/updates?page={page}")).header(HOST, "node1:7400");
        self.send(request.body(Body::empty()).expect("a request")).await.into_body()
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_sends_an_event_while_nothing_changes_and_while_the_api_does_not_answer() {
    let stub = Stub::new(api("off", |_| true));
    for lock in ["a/b", "slow"] {
        let mut updates = stub.updates(&format!("lock&name={lock}")).await;
        event_with(&mut updates, "event: alive").await;
        event_with(&mut updates, "event: alive").await;
    }
}

#[tokio::test]
async fn a_page_without_a_leader_says_so_and_reads_nothing() {
    let stub = Stub::new(api("off", |_| true));
    stub.leader.store(0, Ordering::SeqCst);
    event_with(&mut stub.updates("lock&name=a/b").await, "(no-leader)").await;
    let calls = stub.calls.lock();
    assert!(!calls.iter().any(|(_, target, _)| target.starts_with("/v1/locks")), "{calls:?}");
}

#[tokio::test]
async fn a_page_that_waits_for_the_api_delays_no_other_page() {
    let stub = Stub::new(api("off", |_| true));
    let mut slow = stub.updates("lock&name=slow").await;
    let mut other = stub.updates("lock&name=a/b").await;
    tokio::select! {
        biased;
        read = event_with(&mut slow, "event: fragment") => panic!("{read}"),
        _ = event_with(&mut other, "event: fragment") => {}
    }
}

/// The script compares the leader of each update with the one that the page shows.
#[tokio::test]
async fn a_page_that_could_not_be_read_shows_the_new_leader_and_says_that_it_is_up_to_date() {
    let fails = Arc::new(AtomicBool::new(false));
    let (is_failing, healthy) = (fails.clone(), api("off", |_| true));
    let console = Stub::new(move |method, target| {
        let fails = is_failing.load(Ordering::SeqCst) && target.starts_with("/v1/locks/");
        if fails { problem("unavailable", 503) } else { healthy(method, target) }
    });
    let request = Request::get("/ui/updates?page=lock&name=a/b").header(HOST, "node1:7400");
    let response = console.send(request.body(Body::empty()).expect("a request")).await;
    let mut updates = response.into_body();
    event_with(&mut updates, "event: fragment").await;
    fails.store(true, Ordering::SeqCst);
    console.leader.store(3, Ordering::SeqCst);
    event_with(&mut updates, "tries again").await;
    fails.store(false, Ordering::SeqCst);
    let read = event_with(&mut updates, "event: fragment").await;
    let (told, shown) = (read.find("up to date again"), read.find(r#"data-leader=\"3\""#));
    assert!(told.is_some() && told < shown, "{read}");
}

#[tokio::test]
async fn live_pages_count_in_the_quota_of_streams_of_their_reader() {
    let others = api("on", |_| true);
    let stub = Stub::new(move |method, target| match target {
        "/v1/auth/quotas/ops" => {
            let (quotas, used) = (json!({ "streams": 3 }), json!({ "streams": 1 }));
            (200, json!({ "subject": "ops", "quotas": quotas, "used": used }))
        }
        _ => others(method, target),
    });
    let mut open = [stub.updates("lock&name=a/b").await, stub.updates("lock&name=a/b").await];
    for updates in &mut open {
        event_with(updates, "event: fragment").await;
    }
    event_with(&mut stub.updates("lock&name=a/b").await, "as your quota allows").await;
    drop(open);
    event_with(&mut stub.updates("lock&name=a/b").await, "event: fragment").await;
}
