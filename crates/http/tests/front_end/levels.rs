//! Changes of the feature level.

use crate::authorization::{Tokens, as_token, guard};
use crate::node::Node;

#[tokio::test]
async fn the_feature_level_changes_by_one_and_only_if_nothing_needs_it() {
    let node = Node::start().await;
    let Tokens { admin, ci, .. } = guard(&node).await;
    let level = |level: u16| format!("/v1/cluster/level?level={level}");
    let cluster = as_token(&node, &admin, "GET", "/v1/cluster", "").await.json();
    assert_eq!((&cluster["level"], &cluster["nodes"][0]["level_max"]), (&2.into(), &2.into()));
    let refused = as_token(&node, &ci, "POST", &level(1), "").await.problem(403, "forbidden");
    assert_eq!(refused["needed"], "cluster manage");
    let unknown = as_token(&node, &admin, "POST", &level(3), "").await;
    let detail = unknown.problem(409, "level-not-ready")["detail"].to_string();
    assert!(detail.contains("node 1") && detail.contains("levels up to 2"), "{detail}");
    let fixer = r#"{"permission":["tree admin *"]}"#;
    let set_fixer = || as_token(&node, &admin, "PUT", "/v1/auth/roles/fixer", fixer);
    assert!(set_fixer().await.status < 300);
    let in_use = as_token(&node, &admin, "POST", &level(1), "").await;
    let detail = in_use.problem(409, "level-not-ready")["detail"].to_string();
    assert!(detail.contains("'fixer'"), "{detail}");
    let deleted = as_token(&node, &admin, "DELETE", "/v1/auth/roles/fixer", "").await;
    assert_eq!(deleted.status, 204, "{deleted:?}");
    for _ in 0..2 {
        let lowered = as_token(&node, &admin, "POST", &level(1), "").await;
        assert_eq!((lowered.status, &lowered.json()["level"]), (200, &1.into()));
    }
    let too_low = set_fixer().await.problem(409, "level-too-low");
    assert!(too_low["hint"].as_str().unwrap().contains("holdfast cluster level 2"), "{too_low}");
    let gap = as_token(&node, &admin, "POST", &level(0), "").await;
    assert_eq!(gap.status, 400, "{gap:?}");
    assert_eq!(as_token(&node, &admin, "POST", &level(2), "").await.status, 200);
    assert!(set_fixer().await.status < 300);
}
