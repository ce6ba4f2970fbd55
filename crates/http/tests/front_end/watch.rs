//! Watches: long polls and streams return every change once, in order, with the revision to continue from.

use std::time::Duration;

use holdfast_http::HttpConfig;
use holdfast_service::ServiceConfig;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::client::TIMEOUT;
use crate::node::Node;
use crate::stream::Events;

/// Kinds and paths of a long poll's events.
fn kinds_and_paths(body: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let events = body["events"].as_array().unwrap_or_else(|| panic!("no events: {body}")).iter();
    events.map(|event| (text(&event["kind"]), text(&event["path"]))).collect()
}

fn expected(events: &[(&str, &str)]) -> Vec<(String, String)> {
    events.iter().map(|(kind, path)| ((*kind).to_owned(), (*path).to_owned())).collect()
}

#[tokio::test]
async fn a_long_poll_returns_all_changes_since_a_revision() {
    let node = Node::start().await;
    let begin = node.call("GET", "/v1/watch?prefix=/&wait=0s").await.json();
    assert_eq!(kinds_and_paths(&begin), expected(&[]));
    let since = begin["revision"].as_u64().unwrap();
    let mut revisions = Vec::new();
    for (method, target) in [
        ("PUT", "/v1/tree/a"),
        ("PUT", "/v1/tree/a"),
        ("PUT", "/v1/tree/b"),
        ("DELETE", "/v1/tree/a"),
    ] {
        let done = node.call(method, target).await;
        revisions.push(done.header("holdfast-revision").unwrap().parse::<u64>().unwrap());
    }
    let all = [("created", "/a"), ("changed", "/a"), ("created", "/b"), ("deleted", "/a")];
    let poll = node.call("GET", &format!("/v1/watch?prefix=/&since={since}")).await;
    assert_eq!(kinds_and_paths(&poll.json()), expected(&all));
    let last = revisions[3];
    assert_eq!(poll.json()["revision"], last);
    assert_eq!(poll.header("holdfast-revision"), Some(last.to_string().as_str()));
    let one = format!("/v1/watch?path=/a&since={}", revisions[0]);
    let one = node.call("GET", &one).await.json();
    assert_eq!(kinds_and_paths(&one), expected(&[("changed", "/a"), ("deleted", "/a")]));
    let quiet = node.call("GET", &format!("/v1/watch?prefix=/x&since={since}&wait=50ms")).await;
    assert_eq!(kinds_and_paths(&quiet.json()), expected(&[]));
    assert!(
        quiet.json()["revision"].as_u64().unwrap() >= last,
        "the revision includes changes outside the prefix"
    );
}

#[tokio::test]
async fn a_long_poll_waits_for_the_first_change() {
    let node = Node::start().await;
    let since = node.call("GET", "/v1/watch?prefix=/&wait=0s").await.json()["revision"].clone();
    let target = format!("/v1/watch?prefix=jobs/&since={since}&wait=60s");
    let address = node.address;
    let poll = tokio::spawn(async move { crate::client::call(address, "GET", &target).await });
    node.call("PUT", "/v1/tree/other").await;
    node.call("PUT", "/v1/tree/jobs/1?parents").await;
    let poll = poll.await.unwrap().json();
    assert_eq!(kinds_and_paths(&poll), expected(&[("created", "/jobs/1")]));
}

#[tokio::test]
async fn all_changes_of_one_revision_are_returned_in_one_reply() {
    let node = Node::start().await;
    let since = node.call("GET", "/v1/watch?prefix=/&wait=0s").await.json()["revision"].clone();
    let creates: Vec<Value> = (0..900).map(|n| json!({"create": format!("/n{n}")})).collect();
    let txn = json!({ "then": creates }).to_string();
    let mut revisions = Vec::new();
    for txn in [txn.clone(), txn.replace("/n", "/m")] {
        let done = node.call_json("POST", "/v1/txn", &txn).await;
        revisions.push(done.json()["revision"].as_u64().unwrap_or_else(|| panic!("{done:?}")));
    }
    let target = format!("/v1/watch?prefix=/&since={since}");
    let poll = node.call("GET", &target).await.json();
    assert_eq!(kinds_and_paths(&poll).len(), 1_800, "the reply contains both revisions");
    let mut events = Events::open(node.address, &target, None).await;
    let mut ids = Vec::new();
    for _ in 0..1_800 {
        ids.push(events.next_change().await.id.unwrap());
    }
    // A client can resume from any id without a gap: only the last change of a revision carries its id.
    for (ids, revision) in ids.chunks(900).zip(revisions) {
        assert!(ids[..899].iter().all(|id| *id < revision), "{:?}", &ids[..5]);
        assert_eq!(ids[899], revision);
    }
}

#[tokio::test]
async fn a_stream_sends_changes_of_nodes_and_locks_and_resumes_after_an_event() {
    let node = Node::start().await;
    let mut events = Events::open(node.address, "/v1/watch?prefix=/", None).await;
    for header in [
        "content-type: text/event-stream",
        "cache-control: no-cache, no-transform",
        "x-accel-buffering: no",
    ] {
        assert!(events.head.contains(header), "{}", events.head);
    }
    let begun = events.next().await.unwrap();
    assert_eq!(begun.name, "bookmark", "{begun:?}");
    node.call("PUT", "/v1/tree/a").await;
    let created = events.next_change().await;
    assert_eq!((created.name.as_str(), &created.data["path"]), ("created", &"/a".into()));
    assert_eq!(Some(created.id.unwrap()), created.data["revision"].as_u64());
    let token = node.take("/v1/locks/orders?session=me").await;
    let granted = loop {
        let event = events.next_change().await;
        if event.name == "granted" {
            break event;
        }
    };
    assert_eq!((&granted.data["lock"], &granted.data["token"]), (&"orders".into(), &token.into()));
    drop(events);
    node.call("DELETE", "/v1/sessions/me").await;
    node.call("DELETE", "/v1/tree/a").await;
    let mut resumed = Events::open(node.address, "/v1/watch?prefix=/&since=0", granted.id).await;
    let mut names = Vec::new();
    while names.last().is_none_or(|last: &String| last != "deleted /a") {
        let event = resumed.next_change().await;
        names.push(format!("{} {}", event.name, event.data["path"].as_str().unwrap()));
    }
    assert!(names.iter().any(|name| name == "lost /locks/orders"), "{names:?}");
    assert!(!names.iter().any(|name| name.starts_with("granted")), "sent twice: {names:?}");
}

#[tokio::test]
async fn a_stream_without_changes_sends_comments_and_bookmarks_and_stays_open() {
    let http = HttpConfig {
        stream_comment: Duration::from_millis(50),
        idle_timeout: Duration::from_secs(1),
        ..HttpConfig::default()
    };
    let service =
        ServiceConfig { bookmark_every: Duration::from_millis(500), ..ServiceConfig::default() };
    let node = Node::start_with(http, service).await;
    let mut events = Events::open(node.address, "/v1/watch?prefix=/quiet/", None).await;
    for n in 0..3 {
        let put = node.call("PUT", &format!("/v1/tree/loud{n}")).await.json();
        let mut last = 0;
        // Bookmarks also report revisions of changes outside the prefix.
        while last < put["revision"].as_u64().unwrap() {
            let bookmark = events.next().await.unwrap();
            assert_eq!(bookmark.name, "bookmark");
            assert!(bookmark.id.unwrap() >= last, "{bookmark:?}");
            last = bookmark.id.unwrap();
        }
    }
    assert!(events.comments > 3, "{} comments", events.comments);
}

#[tokio::test]
async fn a_watch_from_a_dropped_revision_is_rejected_with_the_restart_revision() {
    let service = ServiceConfig { history_events_max: 8, ..ServiceConfig::default() };
    let node = Node::start_with(HttpConfig::default(), service).await;
    for n in 0..40 {
        node.call("PUT", &format!("/v1/tree/n{n}")).await;
    }
    let gone = node.call("GET", "/v1/watch?prefix=/&since=2").await;
    let problem = gone.problem(410, "revision-compacted");
    let restart = problem["restart_from"].as_u64().unwrap();
    assert!(restart > 30, "{problem}");
    let again = node.call("GET", &format!("/v1/watch?prefix=/&since={restart}&wait=0s")).await;
    assert_eq!(again.status, 200, "{again:?}");
}

/// A slow reader never misses changes silently: it gets a `compacted` event. Other calls do not wait for it.
#[tokio::test]
async fn a_slow_reader_gets_a_compacted_event() {
    let service = ServiceConfig { history_events_max: 64, ..ServiceConfig::default() };
    let node = Node::start_with(HttpConfig::default(), service).await;
    let mut slow = Events::open(node.address, "/v1/watch?prefix=/", None).await;
    let name = "n".repeat(900);
    let creates: Vec<Value> = (0..256).map(|n| json!({"create": format!("/{name}{n}")})).collect();
    let deletes: Vec<Value> = (0..256).map(|n| json!({"delete": format!("/{name}{n}")})).collect();
    let (create, delete) = (json!({ "then": creates }), json!({ "then": deletes }));
    // More bytes than the socket buffers hold.
    for _ in 0..24 {
        for txn in [&create, &delete] {
            let done = node.call_json("POST", "/v1/txn", &txn.to_string()).await;
            assert_eq!(done.status, 200, "{}", &done.body[..done.body.len().min(300)]);
        }
    }
    let mut revision = 0;
    loop {
        let event = slow.next().await.expect("the stream ended without `compacted`");
        if event.name == "compacted" {
            assert_eq!(event.data["code"], "revision-compacted");
            assert!(event.data["restart_from"].as_u64().unwrap() > revision, "{event:?}");
            break;
        }
        revision = event.data["revision"].as_u64().unwrap().max(revision);
    }
    assert_eq!(slow.next().await, None, "the stream ends after `compacted`");
}

/// The server closes a connection whose client has stopped reading.
#[tokio::test]
async fn a_stalled_reader_is_disconnected() {
    let http = HttpConfig {
        stream_comment: Duration::from_millis(1),
        idle_timeout: Duration::from_millis(500),
        head_timeout: Duration::from_secs(1),
        ..HttpConfig::default()
    };
    let node = Node::start_with(http, ServiceConfig::default()).await;
    let mut stuck = TcpStream::connect(node.address).await.unwrap();
    let head =
        "GET /v1/watch?prefix=/ HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n";
    stuck.write_all(head.as_bytes()).await.unwrap();
    let name = "n".repeat(900);
    let set: Vec<Value> =
        (0..512).map(|_| json!({"set": format!("/{name}"), "data": ""})).collect();
    let set = json!({ "then": set }).to_string();
    node.call("PUT", &format!("/v1/tree/{name}")).await;
    let cut = async {
        loop {
            let done = node.call_json("POST", "/v1/txn", &set).await;
            assert_eq!(done.status, 200, "{}", &done.body[..done.body.len().min(300)]);
            let metrics = node.call("GET", "/metrics").await.body;
            if metrics.contains("holdfast_http_connections 1\n") {
                return;
            }
        }
    };
    tokio::time::timeout(TIMEOUT, cut).await.expect("the stalled connection is still open");
    let mut rest = Vec::new();
    // The bytes in flight arrive, then the end.
    drop(tokio::time::timeout(TIMEOUT, stuck.read_to_end(&mut rest)).await.unwrap());
}

#[tokio::test]
async fn a_node_shutdown_ends_its_watches() {
    let node = Node::start().await;
    let mut events = Events::open(node.address, "/v1/watch?prefix=/", None).await;
    let address = node.address;
    let poll = tokio::spawn(async move {
        crate::client::call(address, "GET", "/v1/watch?prefix=/none&wait=5m").await
    });
    node.until("the start of the poll", "/metrics", |reply| {
        reply.body.contains("holdfast_http_connections 3\n")
    })
    .await;
    node.service.drain().await;
    let last = events.next_change().await;
    assert_eq!((last.name.as_str(), &last.data["code"]), ("reconnect", &"shutting-down".into()));
    assert_eq!((last.id, events.next().await), (None, None));
    poll.await.unwrap().problem(503, "shutting-down");
    node.call("GET", "/v1/watch?prefix=/").await.problem(503, "shutting-down");
}

#[tokio::test]
async fn a_front_end_shutdown_ends_streams_with_a_reconnect_event() {
    let node = Node::start().await;
    let mut events = Events::open(node.address, "/v1/watch?prefix=/", None).await;
    assert_eq!(events.next().await.unwrap().name, "bookmark");
    node.stop().await;
    assert_eq!(events.next_change().await.name, "reconnect");
    assert_eq!(events.next().await, None);
}

#[tokio::test]
async fn watches_are_bounded_and_reject_invalid_parameters() {
    let service = ServiceConfig { watch_streams_max: 1, ..ServiceConfig::default() };
    let node = Node::start_with(HttpConfig::default(), service).await;
    let mut first = Events::open(node.address, "/v1/watch?prefix=/", None).await;
    assert_eq!(first.next().await.unwrap().name, "bookmark");
    let refused = node.call("GET", "/v1/watch?prefix=/&wait=0s").await;
    assert_eq!(refused.problem(429, "rate-limited")["limit"], 1);
    drop(first);
    node.until("a free stream slot", "/v1/watch?prefix=/&wait=0s", |reply| reply.status == 200)
        .await;
    for query in
        ["", "prefix=/&path=/a", "path=/a/", "prefix=/&since=x", "prefx=/", "prefix=/&wait=10"]
    {
        let reply = node.call("GET", &format!("/v1/watch?{query}")).await;
        assert_eq!(reply.status, 400, "{query}: {reply:?}");
    }
}

#[tokio::test]
async fn names_without_read_permission_are_omitted() {
    let node = Node::start().await;
    let since = node.call("GET", "/v1/watch?prefix=/&wait=0s").await.json()["revision"].clone();
    let me = [("Authorization", "Basic bWU6c2VjcmV0")];
    for target in ["/v1/tree/mine?acl=auth::cdrwa", "/v1/tree/mine/secret?acl=auth::cdrwa"] {
        let made = crate::client::call_with(node.address, "PUT", target, &me, "").await;
        assert_eq!(made.status, 201, "{made:?}");
    }
    node.call("PUT", "/v1/tree/open").await;
    let target = format!("/v1/watch?prefix=/&since={since}");
    let seen = kinds_and_paths(&node.call("GET", &target).await.json());
    assert!(!seen.iter().any(|(_, path)| path == "/mine/secret"), "{seen:?}");
    assert!(seen.contains(&("created".to_owned(), "/open".to_owned())), "{seen:?}");
    let seen = crate::client::call_with(node.address, "GET", &target, &me, "").await;
    assert!(
        kinds_and_paths(&seen.json()).iter().any(|(_, path)| path == "/mine/secret"),
        "{seen:?}"
    );
}
