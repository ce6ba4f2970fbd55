//! ZooKeeper clients whose recipes do not see HTTP callers.

use serde_json::json;

use crate::node::Node;

const ENTRY: &str = "session=zk&ephemeral&sequential&name=x-0100-";

#[tokio::test]
async fn a_recipe_that_does_not_see_http_callers_is_rejected_beside_one_and_reported_without_one() {
    let node = Node::start().await;
    assert_eq!(node.call("PUT", "/v1/sessions/zk").await.status, 201);
    node.take("/v1/locks/a?session=me").await;
    for (method, target) in [
        ("POST", format!("?{ENTRY}")),
        ("POST", "?sequential&name=3f__lock__".to_owned()),
        ("PUT", "/foo?ephemeral&session=zk".to_owned()),
    ] {
        let beside = node.call(method, &format!("/v1/tree/locks/a{target}")).await;
        let problem = beside.problem(409, "in-use");
        assert!(problem["detail"].as_str().unwrap().contains("'/locks/a/"), "{problem}");
    }
    assert_eq!(node.call("GET", "/v1/locks/a").await.json().get("foreign_znodes"), None);
    assert_eq!(node.call("DELETE", "/v1/locks/a?session=me").await.status, 204);

    let created = node.call("POST", &format!("/v1/tree/locks/a?{ENTRY}")).await;
    assert_eq!(created.status, 201, "{created:?}");
    let path = "/locks/a/x-0100-0000000001";
    let problem = node.call("PUT", "/v1/locks/a?session=me&wait=5s").await;
    assert!(problem.problem(409, "in-use")["detail"].as_str().unwrap().contains(path));
    let lock = node.call("GET", "/v1/locks/a").await.json();
    assert_eq!(lock["foreign_znodes"], json!([path]));
    let alarms = node.call("GET", "/v1/alarms").await.json();
    let is_it = |alarm: &&serde_json::Value| alarm["name"] == "foreign-recipe";
    let alarm = alarms["alarms"].as_array().unwrap().iter().find(is_it).unwrap();
    assert!(alarm["detail"].as_str().unwrap().ends_with(path), "{alarm}");
}
