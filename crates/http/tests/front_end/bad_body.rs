//! Bodies that are too large, malformed, or contradict the query.

use std::time::Duration;

use holdfast_http::HttpConfig;
use holdfast_service::ServiceConfig;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::client::{call_with, finish, raw};
use crate::node::Node;

#[tokio::test]
async fn a_body_over_the_limit_is_rejected() {
    let node = Node::start().await;
    let body = format!(r#"{{"session":"{}"}}"#, "a".repeat(64 * 1024));
    for body in [body.clone(), body.repeat(8)] {
        let problem = node.call_json("PUT", "/v1/locks/a", &body).await;
        assert_eq!(problem.problem(413, "payload-too-large")["limit"], 65_536);
    }
    let head = "PUT /v1/locks/a HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n";
    let chunked = format!("{head}{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    raw(node.address, chunked.as_bytes()).await.problem(413, "payload-too-large");
}

#[tokio::test]
async fn a_body_declared_over_the_limit_is_rejected_before_it_is_sent() {
    let node = Node::start().await;
    let head = "PUT /v1/locks/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1073741824\r\nExpect: 100-continue\r\n\r\n";
    raw(node.address, head.as_bytes()).await.problem(413, "payload-too-large");
}

#[tokio::test]
async fn a_body_that_is_not_an_object_of_known_parameters_is_rejected() {
    let node = Node::start().await;
    let deep = "[".repeat(60_000);
    for (body, words) in [
        ("[]", "object"),
        ("30s", "JSON"),
        ("{", "JSON"),
        (r#"{"session":null}"#, "session"),
        (r#"{"session":{}}"#, "session"),
        (r#"{"session":["me"]}"#, "session"),
        (r#"{"session":"me","session":"you"}"#, "session"),
        (r#"{"sesion":"me"}"#, "session"),
        (deep.as_str(), ""),
    ] {
        let reply = node.call_json("PUT", "/v1/locks/a", body).await;
        reply.problem(400, "invalid-argument");
        assert!(reply.body.contains(words), "{body}: {reply:?}");
    }
    let name = node.call_json("PUT", "/v1/locks/a", r#"{"session":"a/b"}"#).await;
    name.problem(400, "bad-name");
}

#[tokio::test]
async fn a_parameter_in_both_query_and_body_is_rejected() {
    let node = Node::start().await;
    let reply = node.call_json("PUT", "/v1/locks/a?session=me", r#"{"session":"me"}"#).await;
    assert_eq!(reply.problem(400, "invalid-argument")["detail"], "'session' is given twice");
}

#[tokio::test]
async fn parameters_in_a_json_or_form_body_work_like_query_parameters() {
    let node = Node::start().await;
    let body = r#"{"session":"me","ttl":"20s","labels":{"host":"web3"}}"#;
    assert_eq!(node.call_json("PUT", "/v1/locks/a", body).await.status, 200);
    let form = [("Content-Type", "application/x-www-form-urlencoded")];
    let reply = call_with(node.address, "PUT", "/v1/locks/a", &form, r#"{"session":"me"}"#).await;
    assert_eq!(reply.json()["renewed"], true);
    let holder = node.call("GET", "/v1/locks/a").await.json()["holders"][0].clone();
    assert_eq!(holder["labels"]["host"], "web3");
    let gone = node.call_json("DELETE", "/v1/locks/a", r#"{"session":"me"}"#).await;
    assert_eq!(gone.status, 204);
}

#[tokio::test]
async fn an_incomplete_body_is_rejected_at_the_body_timeout() {
    let http = HttpConfig { body_timeout: Duration::from_millis(200), ..HttpConfig::default() };
    let node = Node::start_with(http, ServiceConfig::default()).await;
    let mut stream = TcpStream::connect(node.address).await.unwrap();
    let head =
        "PUT /v1/locks/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{\"session\"";
    stream.write_all(head.as_bytes()).await.unwrap();
    let problem = finish(&mut stream).await.problem(400, "invalid-argument");
    assert_eq!(problem["detail"], "the body did not arrive within 200ms");
    assert_eq!(node.call("GET", "/v1/locks/a").await.json()["held"], false);
}
