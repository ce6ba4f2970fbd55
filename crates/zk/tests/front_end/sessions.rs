//! The lifetime of a session, and the effects of its end.

use holdfast_lab::zk::{ZkClient, create, exists, get, new_session, set};
use holdfast_lab::{DEADLINE, until};
use std::time::{Duration, Instant};

use holdfast_types::{AuthChange, QuotaKind, Quotas};
use holdfast_zk::ZkConfig;
use holdfast_zkwire::{ConnectRequest, Request, encode_request};

use crate::authorization::{authenticate, guarded, subject};
use crate::node::{Node, config};

#[tokio::test]
async fn a_silent_session_expires_with_its_ephemerals() {
    let node = Node::start().await;
    let mut silent = ZkClient::connect(node.address, &new_session(1_000)).await.unwrap();
    silent.create("/e", 1).await;
    let mut watcher = node.client().await;
    watcher.done(exists("/e", true)).await;
    let (_, path) = watcher.event().await;
    assert_eq!(path, "/e");
    silent.closed().await;
    let again = ConnectRequest {
        session_id: silent.opened.session_id,
        password: Some(silent.opened.password),
        ..new_session(1_000)
    };
    let refused = ZkClient::connect(node.address, &again).await.unwrap();
    assert_eq!(refused.opened.session_id, 0);
}

#[tokio::test]
async fn a_session_that_pings_stays_open() {
    let node = Node::start().await;
    let mut client = ZkClient::connect(node.address, &new_session(3_000)).await.unwrap();
    client.create("/e", 1).await;
    let mut ticks = tokio::time::interval(Duration::from_millis(300));
    for _ in 0..24 {
        ticks.tick().await;
        client.done(Request::Ping).await;
    }
    assert!(client.stat("/e").await.is_some());
}

#[tokio::test]
async fn a_session_that_only_writes_or_only_reads_stays_open() {
    let node = Node::start().await;
    let mut writer = ZkClient::connect(node.address, &new_session(3_000)).await.unwrap();
    let mut reader = ZkClient::connect(node.address, &new_session(3_000)).await.unwrap();
    writer.create("/w", 1).await;
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(7) {
        writer.done(set("/w", b"x", -1)).await;
        reader.done(get("/w", false)).await;
    }
}

#[tokio::test]
async fn a_dropped_connection_does_not_end_the_session() {
    let (node, mut client) = Node::with_client().await;
    client.create("/e", 1).await;
    let session = client.resumption();
    drop(client);
    let mut client = ZkClient::resume(node.address, &session).await;
    assert!(client.stat("/e").await.is_some());
}

#[tokio::test]
async fn closing_a_session_gets_a_reply_and_then_closes_the_connection() {
    let (node, mut client) = Node::with_client().await;
    client.create("/e", 1).await;
    client.done(Request::CloseSession).await;
    client.closed().await;
    let mut other = node.client().await;
    assert_eq!(other.stat("/e").await, None);
}

/// The client does not know that another connection has taken over the session: it sends the close before it reads the end
/// of its own connection.
#[tokio::test]
async fn a_close_sent_before_the_end_of_its_connection_ends_a_session_that_another_connection_took_over()
 {
    let node = Node::start().await;
    let mut first = node.client().await;
    first.create("/e", 1).await;
    let mut second = ZkClient::resume(node.address, &first.resumption()).await;
    let mut third = ZkClient::resume(node.address, &first.resumption()).await;
    second.send(&exists("/e", false)).await;
    second.send(&Request::CloseSession).await;
    third.closed().await;
    assert_eq!(node.client().await.stat("/e").await, None);
}

/// The end of a connection does not withdraw a request that its client has sent. The C client does not wait for replies.
#[tokio::test]
async fn a_close_counts_although_earlier_replies_cannot_be_written() {
    let node = Node::start_with(ZkConfig { tick: Duration::from_secs(2), ..config() }).await;
    let mut client = ZkClient::open(node.address, 40_000).await;
    assert_eq!(client.opened.timeout_ms, 40_000, "longer than the wait below");
    client.create("/e", 1).await;
    let mut frames = Vec::new();
    for xid in 100..140 {
        frames.extend(encode_request(xid, &set("/e", b"x", -1)).unwrap());
        frames.extend(encode_request(xid + 100, &exists("/e", false)).unwrap());
    }
    frames.extend(encode_request(300, &Request::CloseSession).unwrap());
    client.send_raw(&frames).await;
    drop(client);
    let mut other = node.client().await;
    until("the session ends", Duration::from_secs(10), async || other.stat("/e").await.is_none())
        .await;
}

#[tokio::test]
async fn requests_after_a_close_are_not_executed() {
    let (node, mut client) = Node::with_client().await;
    client.send(&Request::CloseSession).await;
    client.send(&create("/late", 0)).await;
    client.closed().await;
    assert_eq!(node.client().await.stat("/late").await, None);
}

/// A client without a reply does not know whether its write happened.
#[tokio::test]
async fn a_shutdown_answers_the_requests_that_were_read() {
    let node = Node::start_with(ZkConfig { drain_timeout: DEADLINE, ..config() }).await;
    let (admin, token) = guarded(&node).await;
    let quotas = Quotas([(QuotaKind::CallsPerSecond, 1)].into());
    let slow = AuthChange::SetQuotas { subject: Some(subject("ci")), quotas };
    admin.change_auth(slow).await.unwrap();
    let mut client = node.client().await;
    assert_eq!(authenticate(&mut client, &format!("ci:{}", token.reveal())).await, 0);
    // They arrive together. After the reply to the first, the second waits for the rate.
    let mut frames = Vec::new();
    for (xid, request) in (100..).zip([create("/app", 0), create("/app/a", 0)]) {
        frames.extend(encode_request(xid, &request).unwrap());
        client.expect_reply(xid, request.reply_kind());
    }
    client.send_raw(&frames).await;
    assert_eq!(client.reply().await.unwrap().0.err, 0);
    node.service.drain().await;
    let ((), second) = tokio::join!(node.stop(), client.reply());
    assert_eq!(second.unwrap().0.err, 0);
    client.closed().await;
}

#[tokio::test]
async fn a_shutdown_closes_connections_and_ends_no_session() {
    let (node, mut client) = Node::with_client().await;
    client.create("/e", 1).await;
    let service = node.service.clone();
    node.stop().await;
    client.closed().await;
    assert_eq!(service.counts().sessions, 1);
}
