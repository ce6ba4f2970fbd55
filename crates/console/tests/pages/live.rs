//! Live updates of pages.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::HOST;
use http_body_util::BodyExt as _;
use parking_lot::Mutex;
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
    let mut updates = console.updates("lock&name=a/b").await;
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
async fn one_reader_has_at_most_a_quarter_of_the_live_pages_of_a_node() {
    let subject = Arc::new(Mutex::new(None));
    let (named, others) = (subject.clone(), api("off", |_| true));
    let me = |subject: Option<&str>| json!({ "subject": subject, "credential": "none", "roles": [], "mode": "off" });
    let stub = Stub::new(move |method, target| match target {
        "/v1/auth/me?stale" => (200, me(*named.lock())),
        _ => others(method, target),
    });
    let open = async |(name, address): (Option<&'static str>, u8)| {
        *subject.lock() = name;
        let request = Request::get("/ui/updates?page=lock&name=a/b").header(HOST, "node1:7400");
        let request = request.extension(IpAddr::from([10, 0, 0, address])).body(Body::empty());
        stub.send(request.expect("a request")).await.into_body()
    };
    let mut places = Vec::new();
    for reader in [(Some("ops"), 1), (Some("web"), 1), (None, 1), (None, 2)] {
        for _ in 0..50 {
            places.push(open(reader).await);
        }
        event_with(&mut open(reader).await, "at most 50 live pages for each reader").await;
    }
    event_with(&mut open((Some("ci"), 1)).await, "event: full").await;
    places.truncate(199);
    event_with(&mut open((Some("ci"), 1)).await, "event: fragment").await;
}
