//! Stale reads of a cluster with authorization.

use holdfast_service::AccessTokenSecret;
use serde_json::Value;

use crate::authorization::{Tokens, as_token, example, guard};
use crate::client::Reply;
use crate::described::operations;
use crate::node::Node;

/// The node decides by its own subjects, roles and tokens, which are as old as the rest of the response.
#[tokio::test]
async fn a_node_without_a_quorum_serves_every_stale_read_to_the_callers_it_knows() {
    let mut nodes = Node::cluster().await;
    let Tokens { admin, ci, .. } = guard(&nodes[0]).await;
    let taken = as_token(&nodes[0], &ci, "PUT", "/v1/locks/deploy/a?session=me", "").await;
    assert_eq!(taken.status, 200, "{taken:?}");
    let follower = nodes.pop().unwrap();
    let target = "/v1/locks/deploy/a?stale";
    let is_held = |reply: &Reply| reply.status == 200 && reply.json()["held"] == true;
    follower.until_as("the follower knows the hold", target, &ci, is_held).await;
    for node in &nodes {
        node.service.shutdown().await;
    }
    follower.until("no leader", "/readyz", |reply| reply.status == 503).await;
    let takes_stale = |operation: &Value| {
        let parameters = operation["parameters"].as_array().into_iter().flatten();
        parameters.into_iter().any(|parameter| parameter["name"] == "stale")
    };
    let mut served = 0;
    for (.., operation) in operations().filter(|(.., operation)| takes_stale(operation)) {
        let (_, target, _) = example(operation);
        let separator = if target.contains('?') { '&' } else { '?' };
        let target = format!("{target}{separator}stale");
        let read = as_token(&follower, &admin, "GET", &target, "").await;
        assert!(read.status != 503, "{target}: {read:?}");
        if read.status == 200 {
            let age = read.header("holdfast-leader-contact-ms").unwrap();
            assert!(age.parse::<u64>().is_ok(), "{target}: {age}");
            served += 1;
        }
    }
    assert!(served >= 8, "only {served} calls had an answer");
    let held = as_token(&follower, &ci, "GET", target, "").await;
    assert_eq!(held.json()["holders"][0]["session"], "me");
    let forbidden = as_token(&follower, &ci, "GET", "/v1/locks/other?stale", "").await;
    forbidden.problem(403, "forbidden");
    // This node cannot know whether the others have issued such a token.
    let unknown = AccessTokenSecret::generate().unwrap().reveal();
    as_token(&follower, &unknown, "GET", target, "").await.problem(503, "no-leader");
}
