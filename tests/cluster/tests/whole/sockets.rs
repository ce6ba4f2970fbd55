//! Misbehaving connections: incomplete requests, invalid bytes, and more waiters than a lock may have.

use std::time::Duration;

use holdfast_lab::{Cluster, Http, raise_descriptor_limit, until};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Longer than any socket timeout of a node.
const CLOSE_DEADLINE: Duration = Duration::from_mins(2);

async fn a_cycle_works(http: &Http, lock: &str) {
    http.put(&format!("/v1/locks/{lock}?session=me&ttl=30s")).await.assert_status(200);
    http.delete(&format!("/v1/locks/{lock}?session=me")).await.assert_status(204);
}

/// The bytes that the server sends before it closes the connection, and whether it closes it.
async fn ended(mut stream: TcpStream) -> Option<String> {
    let mut answer = Vec::new();
    let read = tokio::time::timeout(CLOSE_DEADLINE, stream.read_to_end(&mut answer)).await;
    read.ok().map(|_| String::from_utf8_lossy(&answer).into_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_half_sent_request_is_given_up_and_harms_nobody() {
    let cluster = Cluster::of(1).start().await;
    let http = &cluster.node(1).http;
    let halves = [
        "PU",
        "PUT /v1/locks/half?session=half HTTP/1.1\r\nhost:",
        "PUT /v1/locks/half?session=half HTTP/1.1\r\nhost: localhost\r\n",
        "PUT /v1/locks/half?session=half HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{\"ttl\"",
        "PUT /v1/locks/half?session=half HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n5\r\n{\"t",
    ];
    let mut endings = Vec::new();
    for half in halves {
        let mut stream = http.connect().await;
        stream.write_all(half.as_bytes()).await.expect("the server accepts bytes");
        endings.push(tokio::spawn(ended(stream)));
    }
    a_cycle_works(http, "meanwhile").await;
    for (half, ending) in halves.iter().zip(endings) {
        let answer = ending.await.expect("the reader");
        let answer = answer.unwrap_or_else(|| panic!("left open for {CLOSE_DEADLINE:?}: {half:?}"));
        let polite = answer.is_empty() || answer.starts_with("HTTP/1.1 4");
        assert!(polite, "{half:?}: {answer}");
    }
    let held = http.get("/v1/locks/half").await.assert_status(200).json();
    assert_eq!(held["held"], false, "half a request takes no lock");
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_is_answered_with_400_or_an_end() {
    let cluster = Cluster::of(1).start().await;
    let http = &cluster.node(1).http;
    let endless_head =
        format!("GET / HTTP/1.1\r\nhost: localhost\r\ny: {}\r\n\r\n", "z".repeat(1 << 20));
    let many_headers = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(5_000));
    let long_target =
        format!("GET /v1/locks/{} HTTP/1.1\r\nhost: localhost\r\n\r\n", "a".repeat(1 << 20));
    let garbage: [&[u8]; 8] = [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 hello, TLS?\r\n\r\n",
        b"\x00\x00\x00\x2c\x00\x00\x00\x00\x00\x00\x00\x00\r\n\r\n",
        b"GET /v1/locks/a HTTP/9.9\r\nhost: localhost\r\n\r\n",
        b"GET\r\n\r\n",
        b"PUT /v1/locks/a?session=s HTTP/1.1\r\nhost: localhost\r\ncontent-length: -1\r\n\r\n",
        endless_head.as_bytes(),
        many_headers.as_bytes(),
        long_target.as_bytes(),
    ];
    for bytes in garbage {
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(40)]).into_owned();
        let (answer, closed) = http.raw(bytes, CLOSE_DEADLINE).await;
        assert!(closed, "left open: {shown:?}");
        assert!(
            answer.is_empty()
                || answer.starts_with("HTTP/1.1 4")
                || answer.starts_with("HTTP/1.0 4"),
            "{shown:?}: {answer}"
        );
    }
    a_cycle_works(http, "afterwards").await;
}

/// Two lengths in one request allow request smuggling through a proxy.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_with_two_lengths_is_refused() {
    let cluster = Cluster::of(1).start().await;
    let http = &cluster.node(1).http;
    let ambiguous = "PUT /v1/locks/a?session=s HTTP/1.1\r\nhost: localhost\r\ncontent-length: 4\r\ncontent-length: 5\r\n\r\nabcde";
    let (answer, closed) = http.raw(ambiguous.as_bytes(), CLOSE_DEADLINE).await;
    assert!(closed && !answer.starts_with("HTTP/1.1 2"), "{answer}");
}

/// Maximum number of waiters of one lock, part of the replicated state.
const WAITERS_MAX: usize = 10_000;

#[tokio::test(flavor = "multi_thread")]
async fn one_waiter_more_than_the_bound_is_429() {
    raise_descriptor_limit(12_000);
    let cluster = Cluster::three().await;
    let http = &cluster.node(1).http;
    http.put("/v1/locks/hot?session=me&ttl=10m").await.assert_status(200);
    let mut queued = Vec::new();
    for index in 0..WAITERS_MAX {
        let mut stream = cluster.nodes()[index % 3].http.connect().await;
        let target = format!("/v1/locks/hot?session=w{index}&ttl=10m&wait=5m");
        let request = format!("PUT {target} HTTP/1.1\r\nhost: localhost\r\n\r\n");
        stream.write_all(request.as_bytes()).await.expect("the node reads");
        queued.push(stream);
    }
    until("all to queue", CLOSE_DEADLINE, || async {
        http.get("/v1/locks/hot").await.assert_status(200).json()["waiters"] == WAITERS_MAX
    })
    .await;
    for node in cluster.nodes() {
        let refused = node.http.put("/v1/locks/hot?session=one-more&ttl=10m&wait=1s").await;
        refused.assert_code(429, "too-many-waiters");
        assert!(refused.retryable() && refused.header("retry-after").is_some(), "{refused}");
    }
    // After a grant to the first waiter there is room for one more.
    let lock = http.get("/v1/locks/hot").await.json();
    let first = lock["queue"][0]["session"].as_str().expect("a waiter").to_owned();
    http.delete("/v1/locks/hot?session=me").await.assert_status(204);
    let index: usize = first.trim_start_matches('w').parse().expect("one of ours");
    let mut bytes = [0; 4_096];
    let len = queued[index].read(&mut bytes).await.expect("an answer");
    let answer = String::from_utf8_lossy(&bytes[..len]).into_owned();
    assert!(answer.starts_with("HTTP/1.1 200"), "{first}: {answer}");
    http.put("/v1/locks/hot?session=one-more&ttl=10m&wait=300ms")
        .await
        .assert_code(423, "wait-timeout");
}
