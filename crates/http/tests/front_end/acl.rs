//! Access lists of nodes, and the credentials of callers.

use crate::client::{Reply, call_with};
use crate::node::Node;

/// `me:secret` and `you:secret`, as `curl -u` sends them.
const ME: (&str, &str) = ("Authorization", "Basic bWU6c2VjcmV0");
const YOU: (&str, &str) = ("Authorization", "Basic eW91OnNlY3JldA==");

async fn call_as(
    node: &Node,
    credentials: (&str, &str),
    method: &str,
    target: &str,
    body: &str,
) -> Reply {
    call_with(node.address, method, target, &[credentials], body).await
}

#[tokio::test]
async fn a_node_rejects_callers_that_its_access_list_does_not_name() {
    let node = Node::start().await;
    let made = call_as(&node, ME, "PUT", "/v1/tree/mine?acl=auth::cdrwa", "x").await;
    assert_eq!(made.status, 201, "{made:?}");
    assert_eq!(call_as(&node, ME, "GET", "/v1/tree/mine", "").await.body, "x");
    for (method, target, needed) in [
        ("GET", "/v1/tree/mine", "r"),
        ("GET", "/v1/tree/mine?children", "r"),
        ("PUT", "/v1/tree/mine", "w"),
        ("PUT", "/v1/tree/mine/below", "c"),
    ] {
        let problem = call_as(&node, YOU, method, target, "y").await.problem(403, "forbidden");
        assert_eq!((&problem["path"], &problem["needed"]), (&"/mine".into(), &needed.into()));
        node.call(method, target).await.problem(403, "forbidden");
    }
    assert_eq!(
        node.call("GET", "/v1/tree/mine?stat").await.status,
        403,
        "a stat needs the read permission"
    );
    let below = call_as(&node, ME, "PUT", "/v1/tree/mine/below", "").await;
    assert_eq!(below.status, 201, "{below:?}");
    node.call("DELETE", "/v1/tree/mine/below").await.problem(403, "forbidden");
}

/// A credential of an identity in the list does not help in a call for a lock.
#[tokio::test]
async fn a_rejected_call_for_a_lock_has_a_hint_that_helps() {
    let node = Node::start().await;
    let made = call_as(&node, ME, "PUT", "/v1/tree/locks/mine?acl=auth::cdrwa", "").await;
    assert_eq!(made.status, 201, "{made:?}");
    for (method, target) in [
        ("PUT", "/v1/locks/mine?session=s"),
        ("PUT", "/v1/locks/mine/below?session=s"),
        ("POST", "/v1/locks?name=mine&name=other&session=s"),
        ("PATCH", "/v1/policies/mine?cooldown=1s"),
    ] {
        let problem = call_as(&node, ME, method, target, "").await.problem(403, "forbidden");
        let hint = problem["hint"].as_str().unwrap();
        assert!(hint.contains("world:anyone") && !hint.contains("curl -u"), "{target}: {hint}");
    }
}

#[tokio::test]
async fn an_access_list_is_read_and_replaced_at_its_version_and_an_invalid_one_is_rejected() {
    let node = Node::start().await;
    node.call("PUT", "/v1/tree/a").await;
    let read = node.call("GET", "/v1/tree/a?acl").await;
    assert_eq!(read.header("etag"), Some("\"0\""));
    assert_eq!(read.json()["acl"], serde_json::json!(["world:anyone:cdrwa"]));
    let list = r#"{"acl":["world:anyone:ra","ip:127.0.0.0/8:w"]}"#;
    let set = node.call_json("PUT", "/v1/tree/a?acl", list).await;
    assert_eq!((set.status, &set.json()["acl_version"]), (200, &1.into()), "{set:?}");
    let read = node.call("GET", "/v1/tree/a?acl").await.json();
    assert_eq!(read["acl"], serde_json::json!(["world:anyone:ra", "ip:127.0.0.0/8:w"]));
    assert_eq!(
        node.call("PUT", "/v1/tree/a").await.status,
        200,
        "the `ip` entry permits the write"
    );
    let stale = [("If-Match", "\"0\"")];
    let stale = call_with(node.address, "PUT", "/v1/tree/a?acl", &stale, list).await;
    assert_eq!(stale.problem(412, "version-mismatch")["version"], 1);
    for (body, words) in [
        ("", "JSON object"),
        (r#"{"acl":["world:anyone"]}"#, "not an entry"),
        (r#"{"acl":["unknown:x:r"]}"#, "invalid entry"),
        (r#"{"acl":[]}"#, "empty"),
        (r#"{"acls":["world:anyone:r"]}"#, "acls"),
    ] {
        let refused = node.call_json("PUT", "/v1/tree/a?acl", body).await;
        refused.problem(400, "invalid-argument");
        assert!(refused.body.contains(words), "{body}: {refused:?}");
    }
    node.call("PUT", "/v1/tree/b?acl=world:anyone:x").await.problem(400, "invalid-argument");
    node.call("PUT", "/v1/tree/b?acl=auth::r").await.problem(400, "invalid-argument");
    node.call("GET", "/v1/tree/none?acl").await.problem(404, "not-found");
}

#[tokio::test]
async fn invalid_credentials_are_rejected_except_by_public_calls() {
    let node = Node::start().await;
    let bearer = ("Authorization", "Bearer abc");
    let refused = call_as(&node, bearer, "GET", "/v1/tree/", "").await;
    refused.problem(401, "unauthenticated");
    assert!(refused.header("www-authenticate").unwrap().starts_with("Bearer "), "{refused:?}");
    assert!(format!("{refused:?}").contains("www-authenticate: Basic "), "{refused:?}");
    let broken = ("Authorization", "Basic ###");
    call_as(&node, broken, "PUT", "/v1/locks/a", "").await.problem(400, "invalid-argument");
    assert_eq!(call_as(&node, bearer, "GET", "/livez", "").await.status, 200);
    assert_eq!(call_as(&node, ME, "PUT", "/v1/locks/a?session=me", "").await.status, 200);
}
