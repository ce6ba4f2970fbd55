//! Changes of the feature level.

use crate::authorization::{Tokens, as_token, guard};
use crate::node::Node;

#[tokio::test]
async fn the_feature_level_is_one_that_every_program_knows() {
    let node = Node::start().await;
    let Tokens { admin, ci, .. } = guard(&node).await;
    let level = |level: u16| format!("/v1/cluster/level?level={level}");
    let cluster = as_token(&node, &admin, "GET", "/v1/cluster", "").await.json();
    assert_eq!((&cluster["level"], &cluster["nodes"][0]["level_max"]), (&1.into(), &1.into()));
    let refused = as_token(&node, &ci, "POST", &level(1), "").await.problem(403, "forbidden");
    assert_eq!(refused["needed"], "cluster manage");
    let unknown = as_token(&node, &admin, "POST", &level(2), "").await;
    let detail = unknown.problem(409, "level-not-ready")["detail"].to_string();
    assert!(detail.contains("node 1") && detail.contains("levels up to 1"), "{detail}");
    let below = as_token(&node, &admin, "POST", &level(0), "").await;
    assert_eq!(below.status, 400, "{below:?}");
    let present = as_token(&node, &admin, "POST", &level(1), "").await;
    assert_eq!((present.status, &present.json()["level"]), (200, &1.into()));
}
