//! Slow clients and many connections.

use std::time::Duration;

use holdfast_http::HttpConfig;
use holdfast_service::ServiceConfig;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::client::TIMEOUT;
use crate::node::Node;

/// Raises the limit of open files: both ends of every connection are in this process.
fn allow_many_files() {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).unwrap();
}

async fn open(node: &Node, count: usize, bytes: &[u8]) -> Vec<TcpStream> {
    let mut streams = Vec::with_capacity(count);
    for _ in 0..count {
        let mut stream = TcpStream::connect(node.address).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        streams.push(stream);
    }
    streams
}

#[tokio::test]
async fn two_thousand_idle_connections_do_not_block_other_calls() {
    allow_many_files();
    let node = Node::start().await;
    let idle = open(&node, 2_000, b"").await;
    let gauge = "holdfast_http_connections 2001";
    node.until("2,001 connections", "/metrics", |reply| reply.body.contains(gauge)).await;
    for _ in 0..20 {
        node.take("/v1/locks/a?session=me").await;
        assert_eq!(node.call("DELETE", "/v1/locks/a?session=me").await.status, 204);
    }
    let mut first = idle.into_iter().next().unwrap();
    let call = b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    first.write_all(call).await.unwrap();
    assert_eq!(crate::client::finish(&mut first).await.status, 200);
}

#[tokio::test]
async fn two_thousand_incomplete_heads_do_not_block_other_calls_and_are_closed() {
    allow_many_files();
    let http = HttpConfig { head_timeout: Duration::from_secs(2), ..HttpConfig::default() };
    let node = Node::start_with(http, ServiceConfig::default()).await;
    let dribblers = open(&node, 2_000, b"PUT /v1/locks/a HTTP/1.1\r\nHo").await;
    for _ in 0..20 {
        node.take("/v1/locks/a?session=me").await;
    }
    for mut dribbler in dribblers {
        let mut rest = Vec::new();
        let read = tokio::time::timeout(TIMEOUT, dribbler.read_to_end(&mut rest)).await;
        assert_eq!(read.expect("still open").unwrap(), 0);
    }
}

#[tokio::test]
async fn an_incomplete_request_acquires_no_lock() {
    let node = Node::start().await;
    let mut stream = TcpStream::connect(node.address).await.unwrap();
    stream.write_all(b"PUT /v1/locks/a?session=me HTTP/1.1\r\nHost: localhost\r\n").await.unwrap();
    drop(stream);
    let mut stream = TcpStream::connect(node.address).await.unwrap();
    let half =
        b"PUT /v1/locks/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 20\r\n\r\n{\"session\"";
    stream.write_all(half).await.unwrap();
    drop(stream);
    let alone = "holdfast_http_connections 1";
    node.until("only the polling connection", "/metrics", |reply| reply.body.contains(alone)).await;
    assert_eq!(node.call("GET", "/v1/locks/a").await.json()["held"], false);
}

#[tokio::test]
async fn pipelined_calls_get_their_responses_in_order() {
    let node = Node::start().await;
    let mut stream = TcpStream::connect(node.address).await.unwrap();
    let calls = b"PUT /v1/locks/a?session=me HTTP/1.1\r\nHost: localhost\r\n\r\n\
        DELETE /v1/locks/a?session=me HTTP/1.1\r\nHost: localhost\r\n\r\n\
        GET /v1/locks/a HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(calls).await.unwrap();
    let mut received = String::new();
    let read = tokio::time::timeout(TIMEOUT, stream.read_to_string(&mut received)).await;
    read.expect("no response").unwrap();
    let statuses: Vec<&str> =
        received.split("HTTP/1.1 ").skip(1).map(|reply| &reply[..3]).collect();
    assert_eq!(statuses, ["200", "204", "200"]);
    assert!(received.contains(r#""held":false"#), "{received}");
}
