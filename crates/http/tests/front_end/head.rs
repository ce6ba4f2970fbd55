//! Ambiguous heads, rare methods and targets, and regressions in their handling.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::client::{Reply, call_with, raw, request};
use crate::described::operations;
use crate::node::Node;

async fn send(node: &Node, head: &[&str], body: &str) -> Reply {
    raw(node.address, format!("{}\r\n\r\n{body}", head.join("\r\n")).as_bytes()).await
}

#[tokio::test]
async fn an_http_1_1_request_needs_exactly_one_host() {
    let node = Node::start().await;
    let (line, close) = ("GET /livez HTTP/1.1", "Connection: close");
    send(&node, &[line, close], "").await.problem(400, "invalid-argument");
    let two = [line, "Host: localhost", "Host: b", close];
    send(&node, &two, "").await.problem(400, "invalid-argument");
    assert_eq!(send(&node, &[line, "Host: localhost", close], "").await.status, 200);
    // HTTP/1.0 does not require `Host`.
    assert_eq!(send(&node, &["GET /livez HTTP/1.0"], "").await.status, 200);
}

#[tokio::test]
async fn a_transfer_encoding_other_than_one_chunked_is_rejected() {
    let node = Node::start().await;
    let line = "PUT /v1/locks/a?session=me HTTP/1.1";
    let body = "2\r\n{}\r\n0\r\n\r\n";
    let coded = |codings: &'static [&'static str]| {
        [&[line, "Host: localhost", "Connection: close"], codings].concat()
    };
    for codings in [
        &["Transfer-Encoding: gzip, chunked"][..],
        &["Transfer-Encoding: chunked", "Transfer-Encoding: chunked"],
    ] {
        send(&node, &coded(codings), body).await.problem(400, "invalid-argument");
    }
    assert_eq!(node.call("GET", "/v1/locks/a").await.json()["held"], false);
    let reply = send(&node, &coded(&["Transfer-Encoding: Chunked"]), body).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    for codings in
        [&["Transfer-Encoding: chunked, gzip"][..], &["Content-Length: 2", "Content-Length: 3"]]
    {
        assert_eq!(send(&node, &coded(codings), body).await.status, 400, "{codings:?}");
    }
}

/// Requests that acquire a lock, each with a bare LF. A proxy that requires CRLF parses a different request.
const BARE_LF: [&str; 6] = [
    "\nPUT /v1/locks/a?session=me HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    "PUT /v1/locks/a?session=me HTTP/1.1\nHost: localhost\r\nConnection: close\r\n\r\n",
    "PUT /v1/locks/a?session=me HTTP/1.1\r\nHost: localhost\nConnection: close\r\n\r\n",
    "PUT /v1/locks/a?session=me HTTP/1.1\r\nHost: localhost\r\nConnection: close\n\r\n",
    "PUT /v1/locks/a?session=me HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\n",
    "PUT /v1/locks/a?session=me HTTP/1.1\nHost: localhost\nConnection: close\n\n",
];

#[tokio::test]
async fn a_bare_lf_in_a_head_is_rejected() {
    let node = Node::start().await;
    let first = "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n";
    for request in BARE_LF {
        assert_eq!(raw(node.address, request.as_bytes()).await.status, 400, "{request:?}");
        let mut stream = TcpStream::connect(node.address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        for byte in request.as_bytes() {
            // The server reads nothing after the LF.
            if stream.write_all(&[*byte]).await.is_err() {
                break;
            }
        }
        let mut start = [0; 13];
        stream.read_exact(&mut start).await.unwrap();
        assert_eq!(&start, b"HTTP/1.1 400 ", "{request:?}, byte by byte");
        // The request comes second on its connection, in one segment with the first.
        let both = raw(node.address, format!("{first}{request}").as_bytes()).await;
        assert_eq!(both.status, 200, "{request:?}");
        assert!(both.body.contains("HTTP/1.1 400 "), "{request:?}: {both:?}");
    }
    assert_eq!(node.call("GET", "/v1/locks/a").await.json()["held"], false);
}

#[tokio::test]
async fn a_bare_lf_between_chunks_is_rejected() {
    let node = Node::start().await;
    let head = "PUT /v1/locks/a?session=me HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nTransfer-Encoding: chunked";
    for body in [
        "2\n{}\r\n0\r\n\r\n",
        "2;x=y\n{}\r\n0\r\n\r\n",
        "2\r\n{}\n0\r\n\r\n",
        "2\r\n{}\r\n0\n\r\n",
        "2\r\n{}\r\n0\r\n\n\r\n\r\n",
        "2\r\n{}\r\n0\r\nA: b\n\r\n\r\n",
        "2\r\n{}\r\n0\r\nA: b\nC: d\r\n\r\n",
    ] {
        let reply = send(&node, &[head], body).await;
        assert_eq!(reply.status, 400, "{body:?}: {reply:?}");
    }
    assert_eq!(node.call("GET", "/v1/locks/a").await.json()["held"], false);
}

#[tokio::test]
async fn a_bare_lf_within_a_body_is_data() {
    let node = Node::start().await;
    node.call("PUT", "/v1/sessions/me").await;
    let data = "\n\nPUT /v1/locks/a?session=me HTTP/1.1\n\n";
    let sized = format!("Content-Length: {}\r\n\r\n{data}", data.len());
    let chunk = format!("{:X};x=y\r\n{data}\r\n", data.len());
    let chunked = format!("Transfer-Encoding: chunked\r\n\r\n{chunk}0\r\nA: b\r\n\r\n");
    let last = "GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    for (path, body) in [("sized", sized), ("chunked", chunked)] {
        let put = format!("PUT /v1/tree/{path} HTTP/1.1\r\nHost: localhost\r\n{body}");
        // The next request of the connection is parsed from its first byte.
        let both = raw(node.address, format!("{put}{last}").as_bytes()).await;
        assert_eq!(both.status / 100, 2, "{both:?}");
        assert_eq!(both.body.matches("HTTP/1.1 200 ").count(), 1, "{both:?}");
        assert_eq!(node.call("GET", &format!("/v1/tree/{path}")).await.body, data);
    }
    assert_eq!(node.call("GET", "/v1/locks/a").await.json()["held"], false);
}

#[tokio::test]
async fn a_repeated_idempotency_key_or_last_event_id_is_rejected() {
    let node = Node::start().await;
    node.call("PUT", "/v1/sessions/me").await;
    for (method, target, headers) in [
        ("PUT", "/v1/tree/a?session=me", [("Idempotency-Key", "a"), ("Idempotency-Key", "b")]),
        ("GET", "/v1/watch?prefix=/&wait=0s", [("Last-Event-ID", "1"), ("Last-Event-ID", "2")]),
    ] {
        let reply = call_with(node.address, method, target, &headers, "").await;
        reply.problem(400, "invalid-argument");
    }
    node.call("GET", "/v1/tree/a").await.problem(404, "not-found");
}

#[tokio::test]
async fn every_path_supports_head_and_options_and_rejects_unknown_methods() {
    let node = Node::start().await;
    for (method, path, _) in operations() {
        let target = path.replace(['{', '}'], "");
        let options = node.call("OPTIONS", &target).await;
        assert_eq!(options.status, 204, "{target}: {options:?}");
        let allowed: Vec<&str> = options.header("allow").unwrap().split(',').collect();
        assert!(allowed.contains(&method.to_uppercase().as_str()), "{target}: {allowed:?}");
        assert_eq!(allowed.contains(&"HEAD"), allowed.contains(&"GET"), "{target}");
        let (get, head) = (node.call("GET", &target).await, node.call("HEAD", &target).await);
        assert_eq!((head.status, head.body.as_str()), (get.status, ""), "{target}");
        for wrong in ["TRACE", "BREW"] {
            let problem = node.call(wrong, &target).await;
            problem.problem(405, "method-not-allowed");
            assert_eq!(problem.header("allow"), options.header("allow"), "{target}");
        }
    }
    let all = raw(node.address, request("OPTIONS", "*", &[], "").as_bytes()).await;
    assert_eq!((all.status, all.header("allow").is_some()), (204, true));
}

#[tokio::test]
async fn a_watch_from_a_revision_above_the_maximum_is_rejected() {
    let node = Node::start().await;
    for since in ["9007199254740992", "18446744073709551615"] {
        let target = format!("/v1/watch?prefix=/&wait=0s&since={since}");
        let problem = node.call("GET", &target).await.problem(400, "invalid-argument");
        assert_eq!(problem["parameter"], "since");
    }
}

/// A call that ignored a condition would change what its caller meant to protect.
#[tokio::test]
async fn a_change_rejects_a_condition_that_it_does_not_check() {
    let node = Node::start().await;
    node.call("PUT", "/v1/sessions/me").await;
    node.call("PUT", "/v1/counters/hits?value=5").await;
    for (method, target, header) in [
        ("DELETE", "/v1/counters/hits", ("If-Match", "\"0\"")),
        ("POST", "/v1/counters/hits?add=1", ("If-Match", "\"0\"")),
        ("PUT", "/v1/locks/a?session=me", ("If-None-Match", "*")),
        ("PUT", "/v1/locks/a?session=me", ("Idempotency-Key", "7")),
        ("DELETE", "/v1/barriers/b?session=me", ("Idempotency-Key", "7")),
        ("DELETE", "/v1/double-barriers/b?session=me", ("Idempotency-Key", "7")),
    ] {
        let refused = call_with(node.address, method, target, &[header], "").await;
        let detail = refused.problem(400, "invalid-argument")["detail"].to_string();
        assert!(detail.contains(&header.0.to_ascii_lowercase()), "{method} {target}: {detail}");
    }
    assert_eq!(node.call("GET", "/v1/counters/hits").await.json()["value"], 5);
    assert_eq!(node.call("GET", "/v1/locks/a").await.json()["held"], false);
}

#[tokio::test]
async fn the_creation_of_the_root_is_rejected_with_node_exists() {
    let node = Node::start().await;
    node.call("PUT", "/v1/sessions/me").await;
    for target in ["/v1/tree/?container", "/v1/tree?ephemeral&session=me"] {
        node.call("PUT", target).await.problem(409, "znode-exists");
    }
    let headers = [("If-None-Match", "*")];
    let reply = call_with(node.address, "PUT", "/v1/tree/", &headers, "").await;
    assert_eq!(reply.problem(409, "znode-exists")["path"], "/");
}

#[tokio::test]
async fn an_ephemeral_in_a_transaction_needs_a_session() {
    let node = Node::start().await;
    let body = r#"{"then":[{"create":"/e","ephemeral":true}]}"#;
    let problem = node.call_json("POST", "/v1/txn", body).await.problem(400, "invalid-argument");
    assert_eq!(problem["parameter"], "session");
}
