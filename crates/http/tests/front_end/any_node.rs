//! Calls to a follower.

use serde_json::json;

use crate::authorization::{as_token, guard};
use crate::client::Reply;
use crate::node::Node;

#[tokio::test]
async fn a_follower_serves_calls_like_the_leader() {
    let nodes = Node::cluster().await;
    let (leader, follower) = (&nodes[0], &nodes[1]);
    let reply = follower.call("PUT", "/v1/locks/a?session=me").await;
    assert_eq!(reply.status, 200, "{reply:?}");
    assert_eq!(reply.header("holdfast-node").unwrap(), follower.service.node().to_string());
    assert_eq!(reply.header("holdfast-leader").unwrap(), leader.service.node().to_string());
    let waiting = follower.begin("PUT", "/v1/locks/a?session=you&wait=60s");
    leader.until_waiters("a", 1).await;
    assert_eq!(nodes[2].call("DELETE", "/v1/locks/a?session=me").await.status, 204);
    assert_eq!(waiting.await.unwrap().json()["session"], "you");
    assert_eq!(nodes[2].call("POST", "/v1/sessions/you/keepalive").await.status, 200);
    let busy = nodes[2].call("PUT", "/v1/locks/a?session=me").await;
    assert_eq!(busy.problem(423, "lock-busy")["holder"]["session"], "you");
}

#[tokio::test]
async fn a_follower_redirects_a_call_with_redirect_to_the_leader() {
    let nodes = Node::cluster().await;
    let (leader, follower) = (&nodes[0], &nodes[1]);
    for (method, target) in [
        ("PUT", "/v1/locks/a%2Fb?session=me&redirect=true"),
        ("DELETE", "/v1/locks/a?session=me&redirect"),
        ("GET", "/v1/locks?redirect"),
        ("GET", "/v1/fence/a?token=1&redirect"),
        ("POST", "/v1/sessions/me/keepalive?redirect=true"),
    ] {
        let reply = follower.call(method, target).await;
        let location = format!("http://{}{target}", leader.address);
        assert_eq!((reply.status, reply.header("location")), (307, Some(location.as_str())));
    }
    assert_eq!(follower.call("GET", "/v1/locks/a/b").await.json()["held"], false);
    let ready = follower.call("GET", "/readyz?leader").await;
    assert_eq!((ready.status, &ready.json()["ok"]), (503, &json!(false)));
}

/// The address of the leader needs a permission.
#[tokio::test]
async fn a_follower_redirects_no_caller_without_a_credential() {
    let nodes = Node::cluster().await;
    let (leader, follower) = (&nodes[0], &nodes[1]);
    let tokens = guard(leader).await;
    follower.service.catch_up(leader.service.revision()).await.unwrap();
    for (method, target) in
        [("PUT", "/v1/locks/deploy/x?session=me&redirect"), ("GET", "/v1/tree/cfg?redirect")]
    {
        let refused = follower.call(method, target).await;
        assert_eq!((refused.status, refused.header("location")), (401, None), "{target}");
        let redirected = as_token(follower, &tokens.ci, method, target, "").await;
        assert_eq!(redirected.status, 307, "{redirected:?}");
    }
}

#[tokio::test]
async fn a_transfer_through_a_follower_ends_one_leadership() {
    let nodes = Node::cluster().await;
    let mut before = nodes[0].call("GET", "/v1/cluster").await.json();
    let mut elections = Vec::new();
    for _ in 0..4 {
        let leads = |node: &&Node| before["leader"] == node.service.node().0;
        let follower = nodes.iter().find(|node| !leads(node)).unwrap();
        let moved = follower.call("POST", "/v1/cluster/transfer").await.json();
        assert_ne!(moved["leader"], before["leader"]);
        for node in &nodes {
            let follows = |reply: &Reply| reply.json()["leader"] == moved["leader"];
            node.until("the new leader", "/v1/cluster", follows).await;
        }
        let after = follower.call("GET", "/v1/cluster").await.json();
        let term = |of: &serde_json::Value| of["term"].as_u64().unwrap();
        elections.push(term(&after) - term(&before));
        before = after;
    }
    // A busy machine can cost another election.
    assert!(elections.iter().filter(|count| **count == 1).count() >= 2, "{elections:?}");
}
