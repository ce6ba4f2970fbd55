//! The lifetimes of access tokens: the policy, and what a rotation keeps.

use crate::authorization::{Tokens, as_token, guard};
use crate::client::Reply;
use crate::node::Node;

/// The lifetime of a token, seconds; `None` if it never expires.
async fn lifetime_of(node: &Node, admin: &str, id: &str) -> Option<u64> {
    let all = as_token(node, admin, "GET", "/v1/auth/tokens", "").await.json();
    let tokens = all["tokens"].as_array().unwrap();
    let token = tokens.iter().find(|token| token["id"] == id).unwrap();
    assert_eq!(token.get("expires_at").is_some(), token.get("ttl_ms").is_some());
    // The node computes the expiry before the log's time of the change.
    token.get("ttl_ms").map(|ms| (ms.as_u64().unwrap() + 500) / 1_000)
}

#[tokio::test]
async fn a_rotation_keeps_the_lifetime_and_only_an_allowed_request_makes_a_token_immortal() {
    let node = Node::start().await;
    let Tokens { admin, .. } = guard(&node).await;
    let post = async |target: &str| as_token(&node, &admin, "POST", target, "").await;
    let id_of = |reply: Reply| {
        assert_eq!(reply.status, 201, "{reply:?}");
        reply.json()["id"].as_str().unwrap().to_owned()
    };
    let new = async |more: &str| id_of(post(&format!("/v1/auth/tokens?subject=ci{more}")).await);
    let rotate = async |id: &str, more: &str| {
        id_of(post(&format!("/v1/auth/tokens/{id}/rotate?grace=1h{more}")).await)
    };
    let lifetime = async |id: &str| lifetime_of(&node, &admin, id).await;
    let hour = 3_600;
    let year = Some(365 * 24 * hour);
    assert_eq!(lifetime(&new("").await).await, year);
    let month = new("&ttl=720h").await;
    let second = rotate(&month, "").await;
    // The grace has shortened the old one, and a second rotation of it still keeps the month.
    for id in [&second, &rotate(&month, "").await, &rotate(&second, "").await] {
        assert_eq!(lifetime(id).await, Some(720 * hour));
    }
    assert_eq!(lifetime(&rotate(&month, "&ttl=5h").await).await, Some(5 * hour));
    let immortal = new("&never").await;
    assert_eq!(lifetime(&immortal).await, None);
    assert_eq!(lifetime(&rotate(&immortal, "").await).await, None);
    assert_eq!(lifetime(&rotate(&month, "&never").await).await, None);
    let policy = "/v1/auth/token-policy?default_ttl=720h&max_ttl=8000h";
    assert_eq!(as_token(&node, &admin, "PUT", policy, "").await.status, 204);
    assert_eq!(lifetime(&new("").await).await, Some(720 * hour));
    assert_eq!(lifetime(&rotate(&immortal, "").await).await, Some(8_000 * hour));
    for target in [
        "/v1/auth/tokens?subject=ci&never".to_owned(),
        "/v1/auth/tokens?subject=ci&ttl=8100h".to_owned(),
        format!("/v1/auth/tokens/{month}/rotate?never"),
        "/v1/auth/tokens?subject=ci&never&ttl=1h".to_owned(),
    ] {
        post(&target).await.problem(400, "invalid-argument");
    }
    let contradictory = "/v1/auth/token-policy?default_ttl=8000h&max_ttl=720h";
    as_token(&node, &admin, "PUT", contradictory, "").await.problem(400, "invalid-argument");
    let shown = as_token(&node, &admin, "GET", "/v1/auth", "").await.json();
    assert_eq!(shown["token_policy"]["max_ttl_ms"], 8_000_u64 * 3_600_000);
}
