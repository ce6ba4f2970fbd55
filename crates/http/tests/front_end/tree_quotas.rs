//! Quotas of subtrees: set, read, enforced, and stored as a client of ZooKeeper stores them.

use serde_json::{Value, json};

use crate::authorization::{Tokens, as_token, guard};
use crate::node::Node;

/// The znodes below `/zookeeper/quota`.
async fn stored(node: &Node) -> Vec<String> {
    let below = node.call("GET", "/v1/tree/zookeeper/quota?recursive").await.json();
    let paths = below["znodes"].as_array().unwrap().iter().skip(1);
    paths.map(|znode| znode["path"].as_str().unwrap().to_owned()).collect()
}

async fn assert_status(node: &Node, call: &str, status: u16) {
    let (method, target) = call.split_once(' ').unwrap();
    let reply = node.call(method, target).await;
    assert_eq!(reply.status, status, "{call}: {reply:?}");
}

#[tokio::test]
async fn a_hard_limit_rejects_growth_and_the_error_names_the_quota_its_use_and_its_limit() {
    let node = Node::start().await;
    assert_status(&node, "PUT /v1/tree-quotas/shop?znodes=2&soft_bytes=9", 204).await;
    for call in ["PUT /v1/tree/shop", "PUT /v1/tree/shop/a"] {
        assert_status(&node, call, 201).await;
    }
    let full = node.call("PUT", "/v1/tree/shop/b").await.problem(403, "quota-exceeded");
    assert_eq!(full["detail"], "znodes of the subtree '/shop': at most 2, and 2 are in use");
    assert_eq!(
        (&full["path"], &full["bound"], &full["limit"]),
        (&json!("/shop"), &json!("znodes of the subtree"), &json!(2))
    );
    let hint = full["hint"].as_str().unwrap();
    assert!(hint.contains("holdfast tree quota set PATH --znodes LIMIT"), "{hint}");
    let read = node.call("GET", "/v1/tree-quotas/shop").await.json();
    let expected = json!({
        "path": "/shop",
        "limits": { "znodes": 2, "soft_bytes": 9 },
        "used": { "znodes": 2, "bytes": 0 },
    });
    assert_eq!(read, expected);
    // A later PUT replaces all limits.
    assert_status(&node, "PUT /v1/tree-quotas/shop?bytes=4", 204).await;
    assert_status(&node, "PUT /v1/tree/shop/b", 201).await;
    let long = node.call_json("PUT", "/v1/tree/shop/b", "\"long\"").await;
    let long = long.problem(403, "quota-exceeded");
    assert_eq!(long["detail"], "bytes of the subtree '/shop': at most 4, and 0 are in use");
}

#[tokio::test]
async fn a_quota_is_stored_as_zookeeper_stores_it_and_leaves_nothing_behind() {
    let node = Node::start().await;
    assert_status(&node, "PUT /v1/tree-quotas/a/b?znodes=5&soft_znodes=4&bytes=60", 204).await;
    assert_status(&node, "PUT /v1/tree-quotas/a?znodes=9", 204).await;
    assert_status(&node, "PUT /v1/tree-quotas/?soft_znodes=1000", 204).await;
    let limits = "/v1/tree/zookeeper/quota/a/b/zookeeper_limits";
    let data = node.call("GET", limits).await.body;
    assert_eq!(data, "count=4,bytes=-1=;byteHardLimit=60;countHardLimit=5");
    let at = |path: &str| {
        ["limits", "stats"].map(|kind| format!("/zookeeper/quota{path}/zookeeper_{kind}"))
    };
    let all = stored(&node).await;
    for path in ["", "/a", "/a/b"].iter().flat_map(|path| at(path)) {
        assert!(all.contains(&path), "{path}: {all:?}");
    }
    assert_eq!(all.len(), 8, "{all:?}");
    // The quota of /a/b keeps the directory of /a.
    assert_status(&node, "DELETE /v1/tree-quotas/a", 204).await;
    assert_eq!(stored(&node).await.len(), 6);
    for call in ["DELETE /v1/tree-quotas/a/b", "DELETE /v1/tree-quotas/"] {
        assert_status(&node, call, 204).await;
    }
    assert_eq!(stored(&node).await, Vec::<String>::new());
    for method in ["GET", "DELETE"] {
        let missing = node.call(method, "/v1/tree-quotas/a").await.problem(404, "not-found");
        assert_eq!(missing["detail"], "the subtree '/a' has no quota", "{method}");
        assert_eq!(missing["path"], "/a");
    }
}

#[tokio::test]
async fn a_quota_that_another_client_has_set_in_part_is_completed_and_deleted() {
    let node = Node::start().await;
    for (part, data) in [("limits", "count=3,bytes=-1"), ("stats", "count=0,bytes=0")] {
        let target = format!("/v1/tree/zookeeper/quota/a/zookeeper_{part}?parents");
        assert_eq!(node.call_json("PUT", &target, data).await.status, 201, "{part}");
        assert_status(&node, "PUT /v1/tree-quotas/a?znodes=7", 204).await;
        assert_eq!(
            node.call("GET", "/v1/tree-quotas/a").await.json()["limits"],
            json!({ "znodes": 7 })
        );
        assert_eq!(stored(&node).await.len(), 3, "{part}");
        assert_status(&node, "DELETE /v1/tree-quotas/a", 204).await;
        assert_eq!(stored(&node).await, Vec::<String>::new(), "{part}");
    }
}

#[tokio::test]
async fn quotas_are_listed_by_path_page_by_page() {
    let node = Node::start().await;
    for path in ["b", "a/c", "a", "d"] {
        assert_status(&node, &format!("PUT /v1/tree-quotas/{path}?znodes=5"), 204).await;
    }
    let mut found = Vec::new();
    let mut token = String::new();
    loop {
        let page = node.call("GET", &format!("/v1/tree-quotas?limit=2{token}")).await.json();
        let quotas = page["quotas"].as_array().unwrap();
        assert_eq!(quotas.len(), 2, "{page}");
        found.extend(quotas.iter().map(|quota| quota["path"].clone()));
        let Some(next) = page["next_page_token"].as_str() else { break };
        token = format!("&page_token={next}");
    }
    assert_eq!(found, ["/a", "/a/c", "/b", "/d"].map(Value::from));
    node.call("GET", "/v1/tree-quotas?page_token=a").await.problem(400, "bad-name");
}

#[tokio::test]
async fn a_subtree_that_counts_for_no_quota_and_a_path_that_is_too_long_are_rejected() {
    let node = Node::start().await;
    let long = "a".repeat(991);
    for path in ["zookeeper", "zookeeper/quota/a", "a//b", "a/..", &long] {
        let target = format!("/v1/tree-quotas/{path}?znodes=5");
        let problem = node.call("PUT", &target).await.problem(400, "bad-name");
        assert!(problem["detail"].is_string(), "{path}: {problem}");
    }
    assert_status(&node, &format!("PUT /v1/tree-quotas/{}?znodes=5", &long[1..]), 204).await;
}

#[tokio::test]
async fn a_quota_needs_the_rights_on_its_znodes() {
    let node = Node::start().await;
    let Tokens { admin, ci, .. } = guard(&node).await;
    let set = "/v1/tree-quotas/app?znodes=5";
    let denied = as_token(&node, &ci, "PUT", set, "").await.problem(403, "forbidden");
    let needed = "tree write /zookeeper/quota/app/zookeeper_limits";
    assert!(denied.to_string().contains(needed), "{denied}");
    assert_eq!(as_token(&node, &admin, "PUT", set, "").await.status, 204);
    for (method, target) in [
        ("GET", "/v1/tree-quotas"),
        ("GET", "/v1/tree-quotas/app"),
        ("DELETE", "/v1/tree-quotas/app"),
    ] {
        as_token(&node, &ci, method, target, "").await.problem(403, "forbidden");
    }
    let role = r#"{"permission":["tree write /zookeeper/quota/*"]}"#;
    let given = as_token(&node, &admin, "PUT", "/v1/auth/roles/deploy", role).await;
    assert_eq!(given.status, 204, "{given:?}");
    for (method, status) in [("PUT", 204), ("DELETE", 204)] {
        let target = if method == "PUT" { set } else { "/v1/tree-quotas/app" };
        assert_eq!(as_token(&node, &ci, method, target, "").await.status, status, "{method}");
    }
    // An access list of another client binds, too.
    let limits = "/v1/tree/zookeeper/quota/x/zookeeper_limits?parents&acl=ip:192.0.2.1:r";
    assert_eq!(as_token(&node, &admin, "PUT", limits, "count=5,bytes=-1").await.status, 201);
    as_token(&node, &ci, "GET", "/v1/tree-quotas/x", "").await.problem(403, "forbidden");
    let listed = as_token(&node, &ci, "GET", "/v1/tree-quotas", "").await.json();
    assert_eq!(listed["quotas"], json!([]));
}
