//! The limits of subjects: what one access token can create, open and call.

use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::authorization::{Tokens, as_token, guard};
use crate::node::Node;
use crate::stream::Events;

async fn set_quotas(node: &Node, admin: &str, target: &str) {
    let set = as_token(node, admin, "PUT", &format!("/v1/auth/quotas{target}"), "").await;
    assert_eq!(set.status, 204, "{set:?}");
}

/// Sends calls until one is refused, and returns the problem.
async fn until_refused(
    node: &Node,
    token: &str,
    call: impl Fn(usize) -> (&'static str, String),
) -> Value {
    for at in 0..10_000 {
        let (method, target) = call(at);
        let reply = as_token(node, token, method, &target, "").await;
        if reply.status >= 400 {
            return reply.problem(403, "quota-exceeded");
        }
    }
    panic!("no call was refused")
}

#[tokio::test]
async fn a_token_meets_the_limits_of_its_subject_before_those_of_the_cluster() {
    let node = Node::start().await;
    let Tokens { admin, ci, .. } = guard(&node).await;
    set_quotas(&node, &admin, "?sessions=20&queue_entries=15&bytes=6000").await;
    let read = as_token(&node, &ci, "GET", "/v1/auth/quotas/ci", "").await.json();
    assert_eq!(
        (read["quotas"]["sessions"].as_u64(), read["used"]["sessions"].as_u64()),
        (Some(20), Some(0))
    );
    assert_eq!(read["quotas"]["connections"], 4_000, "{read}");
    // S-H2: sessions with labels.
    let label = "v".repeat(200);
    let labels = [0, 1, 2, 3, 4, 5, 6, 7].map(|n| format!("&label.k{n}={label}")).concat();
    let flood = |at| ("PUT", format!("/v1/sessions/big-{at}?ttl=24h{labels}"));
    let full = until_refused(&node, &ci, flood).await;
    assert_eq!(full["bound"], "bytes of the subject", "{full}");
    let flood = |at| ("PUT", format!("/v1/sessions/small-{at}?ttl=24h"));
    let full = until_refused(&node, &ci, flood).await;
    assert_eq!(
        (full["bound"].as_str(), full["limit"].as_u64()),
        (Some("sessions of the subject"), Some(20))
    );
    let hint = full["hint"].as_str().unwrap();
    assert!(hint.contains("holdfast auth subject set ci --quota sessions=LIMIT"), "{full}");
    assert!(full["detail"].as_str().unwrap().contains("the subject 'ci'"), "{full}");
    // An acquire opens a session too.
    let implicit = as_token(&node, &ci, "PUT", "/v1/locks/deploy/a?session=new", "").await;
    assert_eq!(implicit.problem(403, "quota-exceeded")["bound"], "sessions of the subject");
    // Holds and waiters.
    let flood = |at| ("PUT", format!("/v1/locks/deploy/l{at}?session=small-0"));
    let full = until_refused(&node, &ci, flood).await;
    assert_eq!(full["bound"], "queue_entries of the subject", "{full}");
    let waits =
        as_token(&node, &ci, "PUT", "/v1/locks/deploy/l0?session=small-1&wait=60s", "").await;
    waits.problem(403, "quota-exceeded");
    // Renewals, releases and other subjects are not concerned.
    for (token, method, target, status) in [
        (&ci, "POST", "/v1/sessions/small-0/keepalive", 200),
        (&ci, "PUT", "/v1/sessions/small-0?ttl=24h", 200),
        (&ci, "DELETE", "/v1/locks/deploy/l0?session=small-0", 204),
        (&admin, "PUT", "/v1/locks/other?session=admin", 200),
    ] {
        let reply = as_token(&node, token, method, target, "").await;
        assert_eq!(reply.status, status, "{target}: {reply:?}");
    }
    let read = as_token(&node, &admin, "GET", "/v1/auth/quotas/ci", "").await.json();
    assert_eq!(
        (read["used"]["sessions"].as_u64(), read["used"]["queue_entries"].as_u64()),
        (Some(20), Some(14))
    );
    // An administrator raises the limit of one subject.
    set_quotas(&node, &admin, "/ci?sessions=21").await;
    let opened = as_token(&node, &ci, "PUT", "/v1/sessions/new", "").await;
    assert_eq!(opened.status, 201, "{opened:?}");
    let trail = as_token(&node, &admin, "GET", "/v1/audit?action=set-quotas", "").await.json();
    let targets: Vec<_> =
        trail["records"].as_array().unwrap().iter().map(|one| &one["target"]).collect();
    assert_eq!(targets, ["default", "ci"], "{trail}");
}

#[tokio::test]
async fn streams_and_connections_of_a_subject_are_limited() {
    let node = Node::start().await;
    let Tokens { admin, ci, .. } = guard(&node).await;
    set_quotas(&node, &admin, "/ci?streams=2&connections=4").await;
    let credential = format!("Authorization: Bearer {ci}\r\n");
    let watch = "/v1/watch?prefix=/cfg/";
    let mut streams = Vec::new();
    for _ in 0..2 {
        let mut events = Events::begin_with(node.address, "GET", watch, &credential).await;
        events.expect("bookmark").await;
        streams.push(events);
    }
    let refused = Events::begin_with(node.address, "GET", watch, &credential).await;
    assert!(refused.head.starts_with("HTTP/1.1 429"), "{}", refused.head);
    drop(refused);
    let read = as_token(&node, &admin, "GET", "/v1/auth/quotas/ci", "").await.json();
    assert_eq!(read["used"]["streams"], 2, "{read}");
    // Connections that stay open; the first two belong to the streams.
    let mut open = Vec::new();
    let head = format!("GET /v1/auth/me HTTP/1.1\r\nHost: x\r\n{credential}\r\n");
    let mut refused = None;
    for _ in 0..20 {
        let mut connection = TcpStream::connect(node.address).await.unwrap();
        connection.write_all(head.as_bytes()).await.unwrap();
        let mut bytes = vec![0; 4_096];
        let read = tokio::time::timeout(Duration::from_secs(30), connection.read(&mut bytes));
        let count = read.await.unwrap().unwrap();
        let text = String::from_utf8_lossy(&bytes[..count]).into_owned();
        open.push(connection);
        if text.starts_with("HTTP/1.1 429") {
            refused = Some(text);
            break;
        }
        assert!(text.starts_with("HTTP/1.1 200"), "{text}");
    }
    let refused = refused.expect("no connection was refused");
    assert!(refused.contains("connections of the subject 'ci'"), "{refused}");
    assert!(open.len() <= 3, "{}", open.len());
    // Beyond the limit a keepalive is executed, and ends its connection as any other call.
    let mut beyond = open.pop().unwrap();
    assert_eq!(until_end(&mut beyond).await, "");
    let mut beyond = TcpStream::connect(node.address).await.unwrap();
    let keepalive = format!(
        "POST /v1/keepalive HTTP/1.1\r\nHost: x\r\n{credential}Content-Length: 2\r\n\r\n[]"
    );
    beyond.write_all(keepalive.as_bytes()).await.unwrap();
    let answer = until_end(&mut beyond).await;
    assert!(answer.to_ascii_lowercase().contains("connection: close"), "{answer}");
    assert!(!answer.starts_with("HTTP/1.1 429"), "{answer}");
    // Another subject calls, and a closed connection makes room.
    assert_eq!(as_token(&node, &admin, "GET", "/v1/auth/me", "").await.status, 200);
    drop((open, streams));
    node.until_as("room for a connection", "/v1/auth/me", &ci, |reply| reply.status == 200).await;
}

#[tokio::test]
async fn calls_of_a_subject_outside_of_namespaces_are_limited() {
    let node = Node::start().await;
    let Tokens { admin, ci, .. } = guard(&node).await;
    set_quotas(&node, &admin, "/ci?calls_per_second=5").await;
    assert_eq!(as_token(&node, &ci, "PUT", "/v1/sessions/c", "").await.status, 201);
    let mut refused = None;
    for _ in 0..1_000 {
        let reply = as_token(&node, &ci, "GET", "/v1/auth/me", "").await;
        if reply.status == 429 {
            refused = Some(reply.problem(429, "rate-limited"));
            break;
        }
    }
    let refused = refused.expect("no call was refused");
    assert_eq!(refused["bound"], "calls_per_second of the subject", "{refused}");
    let renewed = as_token(&node, &ci, "POST", "/v1/sessions/c/keepalive", "").await;
    assert_eq!(renewed.status, 200, "{renewed:?}");
    let metrics = as_token(&node, &admin, "GET", "/metrics", "").await.body;
    assert!(metrics.contains("holdfast_subject_calls_limited_total "), "{metrics}");
}

#[tokio::test]
async fn wrong_quotas_of_subjects_are_refused() {
    let node = Node::start().await;
    let Tokens { admin, ci, .. } = guard(&node).await;
    for (token, method, target, status, code) in [
        (&admin, "PUT", "/v1/auth/quotas/none?sessions=5", 404, "not-found"),
        (&admin, "GET", "/v1/auth/quotas/none", 404, "not-found"),
        (&admin, "PUT", "/v1/auth/quotas/ci?locks=5", 400, "invalid-argument"),
        (&admin, "PUT", "/v1/auth/quotas?calls_per_second=0", 400, "invalid-argument"),
        (&ci, "PUT", "/v1/auth/quotas?sessions=5", 403, "forbidden"),
        (&ci, "PUT", "/v1/auth/quotas/ci?sessions=5", 403, "forbidden"),
        (&ci, "GET", "/v1/auth/quotas", 403, "forbidden"),
        (&ci, "GET", "/v1/auth/quotas/root", 403, "forbidden"),
    ] {
        as_token(&node, token, method, target, "").await.problem(status, code);
    }
}

/// What arrives until the node closes the connection.
async fn until_end(connection: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(30), connection.read_to_end(&mut bytes));
    read.await.expect("the node closes the connection").unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}
