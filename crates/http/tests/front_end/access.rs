//! The head of a call decides before its body is read: a refused caller gets its response although it sends no body.

use serde_json::Value;

use crate::authorization::{Needs, Tokens, as_token, example, guard, needs, new_token};
use crate::client::{Reply, only_head, raw};
use crate::described::operations;
use crate::node::Node;

/// An access token that no cluster has.
const UNKNOWN: &str = "hf_0000000000007_CQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkeio2AQ";

/// The ways to announce a body.
const BODIES: [&str; 3] = [
    "Content-Length: 1000\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Content-Length: 1900000\r\nExpect: 100-continue\r\n",
];

fn head(method: &str, target: &str, token: Option<&str>, body: &str) -> String {
    let token = token.map(|token| format!("Authorization: Bearer {token}\r\n"));
    let token = token.unwrap_or_default();
    format!("{method} {target} HTTP/1.1\r\nHost: test\r\n{token}{body}\r\n")
}

/// The operations that take a body, each with what it needs, its method and its target.
fn with_body() -> impl Iterator<Item = (&'static str, Needs, String, String)> {
    operations().filter(|(.., operation)| operation.get("requestBody").is_some()).map(
        |(_, _, operation): (_, _, &'static Value)| {
            let id = operation["operationId"].as_str().unwrap();
            let (method, target, _) = example(operation);
            (id, needs(operation), method, target)
        },
    )
}

#[tokio::test]
async fn a_call_without_its_permission_is_refused_before_a_byte_of_its_body() {
    let nodes = Node::cluster().await;
    let Tokens { admin, .. } = guard(&nodes[0]).await;
    let set = as_token(&nodes[0], &admin, "PUT", "/v1/auth/subjects/nobody", "").await;
    assert_eq!(set.status, 204, "{set:?}");
    let (without_role, _) = new_token(&nodes[0], &admin, "nobody", "").await;
    let mut refused = 0;
    for node in &nodes[..2] {
        for (id, needs, method, target) in with_body() {
            for body in BODIES {
                let send = async |token| {
                    only_head(node.address, &head(&method, &target, token, body)).await
                };
                let mut expect = |reply: Reply, status, code| {
                    assert_eq!(reply.problem(status, code)["code"], code, "{id}: {reply:?}");
                    refused += 1;
                };
                expect(send(Some(UNKNOWN)).await, 401, "unauthenticated");
                if needs != Needs::ValidCredential {
                    expect(send(None).await, 401, "unauthenticated");
                }
                if matches!(needs, Needs::Permission | Needs::OpensSession) {
                    expect(send(Some(&without_role)).await, 403, "forbidden");
                }
            }
        }
    }
    assert!(refused > 700, "{refused}");
}

#[tokio::test]
async fn a_refused_client_that_sends_its_whole_body_receives_the_response() {
    let node = Node::start().await;
    guard(&node).await;
    for body in ["x".repeat(60_000), "x".repeat(1_900_000)] {
        let head = head("POST", "/v1/txn", None, &format!("Content-Length: {}\r\n", body.len()));
        let request = head.replace("Host", "Connection: close\r\nHost") + &body;
        raw(node.address, request.as_bytes()).await.problem(401, "unauthenticated");
    }
}

#[tokio::test]
async fn a_permission_for_another_name_is_decided_by_the_handler() {
    let node = Node::start().await;
    let Tokens { ci, .. } = guard(&node).await;
    let body = r#"{"session":"ci-1"}"#;
    let refused = as_token(&node, &ci, "PUT", "/v1/locks/orders", body).await;
    assert_eq!(refused.problem(403, "forbidden")["needed"], "lock acquire orders");
    let allowed = as_token(&node, &ci, "PUT", "/v1/locks/deploy/a", body).await;
    assert_eq!(allowed.status, 200, "{allowed:?}");
}
