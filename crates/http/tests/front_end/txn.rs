//! Transactions: conditions over nodes, locks and sessions; all or nothing.

use serde_json::{Value, json};

use crate::client::Reply;
use crate::node::Node;

async fn txn(node: &Node, body: &Value) -> Reply {
    node.call_json("POST", "/v1/txn", &body.to_string()).await
}

#[tokio::test]
async fn the_conditions_select_the_operations_and_each_operation_has_a_result() {
    let node = Node::start().await;
    let swap = json!({
        "if": [{"path": "/a", "exists": false}],
        "then": [{"create": "/a", "data": "1"}, {"create": "/a/n-", "sequential": true},
                 {"set": "/a", "data_base64": "AP8="}, {"check": "/a", "version": 1}],
        "else": [{"delete": "/a", "recursive": true}],
    });
    let done = txn(&node, &swap).await;
    assert_eq!(done.status, 200, "{done:?}");
    let body = done.json();
    assert_eq!(body["succeeded"], true);
    assert_eq!(body["results"][0]["create"], "/a");
    assert_eq!(body["results"][1]["create"], "/a/n-0000000000");
    assert_eq!(
        (&body["results"][2]["set"], &body["results"][2]["stat"]["version"]),
        (&"/a".into(), &1.into())
    );
    assert_eq!(body["results"][3], json!({"check": "/a"}));
    let stat = &body["results"][1]["stat"];
    assert_eq!(stat["created_revision"], body["revision"], "one revision for all: {body}");
    let undone = txn(&node, &swap).await.json();
    assert_eq!(undone["succeeded"], false);
    assert_eq!(undone["results"], json!([{"delete": "/a", "count": 2}]));
}

#[tokio::test]
async fn a_rejected_operation_aborts_the_transaction_and_its_index_is_returned() {
    let node = Node::start().await;
    node.call("PUT", "/v1/tree/a").await;
    let ops = |last: Value| json!({"then": [{"create": "/b"}, {"set": "/a", "data": "x"}, last]});
    for (last, status, code) in [
        (json!({"create": "/a"}), 409, "znode-exists"),
        (json!({"delete": "/none"}), 404, "not-found"),
        (json!({"set": "/a", "data": "", "version": 7}), 412, "version-mismatch"),
        (json!({"check": "/a", "version": 7}), 412, "version-mismatch"),
        (json!({"create": "/x/y"}), 404, "not-found"),
        (json!({"delete": "/"}), 400, "bad-name"),
    ] {
        let refused = txn(&node, &ops(last)).await.problem(status, code);
        assert_eq!(refused["at"], 2, "{refused}");
    }
    node.call("GET", "/v1/tree/b").await.problem(404, "not-found");
    assert_eq!(node.call("GET", "/v1/tree/a").await.header("etag"), Some("\"0\""));
}

#[tokio::test]
async fn a_write_can_depend_on_a_lock_and_on_a_session() {
    let node = Node::start().await;
    let token = node.take("/v1/locks/orders?session=me").await;
    let write = |token: u64, session: &str| {
        json!({"if": [{"lock": "orders", "holds": token}, {"session": session, "open": true}],
               "then": [{"create": "/done"}], "else": [{"check": "/"}]})
    };
    assert_eq!(txn(&node, &write(token + 1, "me")).await.json()["succeeded"], false);
    assert_eq!(txn(&node, &write(token, "you")).await.json()["succeeded"], false);
    assert_eq!(txn(&node, &write(token, "me")).await.json()["succeeded"], true);
    node.call("DELETE", "/v1/locks/orders?session=me").await;
    assert_eq!(txn(&node, &write(token, "me")).await.json()["succeeded"], false);
}

#[tokio::test]
async fn a_transaction_can_depend_on_data_versions_and_existence() {
    let node = Node::start().await;
    txn(&node, &json!({"then": [{"create": "/a", "data": "x"}]})).await;
    for (condition, holds) in [
        (json!({"path": "/a", "data": "x"}), true),
        (json!({"path": "/a", "data_base64": "eA=="}), true),
        (json!({"path": "/a", "data": "y"}), false),
        (json!({"path": "/a", "version": 0}), true),
        (json!({"path": "/a", "version": 1}), false),
        (json!({"path": "/none", "version": 0}), false),
        (json!({"path": "/none", "exists": false}), true),
    ] {
        let body = txn(&node, &json!({"if": [condition.clone()], "then": []})).await.json();
        assert_eq!(body["succeeded"], holds, "{condition}");
    }
}

#[tokio::test]
async fn a_retry_with_the_same_request_id_gets_the_first_reply() {
    let node = Node::start().await;
    node.call("PUT", "/v1/sessions/me").await;
    let body = json!({"session": "me", "request": 1,
                      "then": [{"create": "/n-", "sequential": true, "ephemeral": true}]});
    let first = txn(&node, &body).await.json();
    let again = txn(&node, &body).await.json();
    assert_eq!(first["results"][0]["create"], again["results"][0]["create"]);
    let lost = json!({"session": "ghost", "then": [{"create": "/g", "ephemeral": true}]});
    txn(&node, &lost).await.problem(410, "session-expired");
}

#[tokio::test]
async fn an_invalid_transaction_is_rejected_with_the_position_and_a_hint() {
    let node = Node::start().await;
    for (body, words) in [
        ("", "not a transaction"),
        ("{}", "does nothing"),
        (r#"{"thn":[]}"#, "did you mean 'then'"),
        (r#"{"then":[{"craete":"/a"}]}"#, "then[0]"),
        (r#"{"then":[{"set":"/a","dat":"x"}]}"#, "did you mean 'data'"),
        (r#"{"if":[{"path":"/a"}],"then":[]}"#, "if[0]"),
        (r#"{"then":[{"create":"/a","ephemeral":true}],"request":1}"#, "session"),
    ] {
        let refused = node.call_json("POST", "/v1/txn", body).await;
        refused.problem(400, "invalid-argument");
        assert!(refused.body.contains(words), "{body}: {refused:?}");
    }
    node.call_json("POST", "/v1/txn", r#"{"then":[{"check":"/a/"}]}"#)
        .await
        .problem(400, "bad-name");
    let large = format!(r#"{{"then":[{{"set":"/a","data":"{}"}}]}}"#, "x".repeat(2 << 20));
    node.call_json("POST", "/v1/txn", &large).await.problem(413, "payload-too-large");
    let many: Vec<Value> = (0..20_000).map(|_| json!({"check": "/"})).collect();
    let problem = txn(&node, &json!({"then": many})).await;
    assert_eq!(problem.status, 413, "{problem:?}");
}
