//! The alarms of a node and of a cluster.

use holdfast_http::HttpConfig;
use holdfast_service::ServiceConfig;
use serde_json::{Value, json};

use crate::authorization::{as_token, guard, new_token};
use crate::client::Reply;
use crate::node::Node;

/// Alarms that the test machine can raise.
const OF_MACHINE: [&str; 2] = ["disk-low", "log-sync-slow"];

/// The alarms that do not depend on the test machine.
fn alarms_in(reply: &Reply) -> Vec<Value> {
    let mut alarms = reply.json()["alarms"].as_array().unwrap().clone();
    alarms.retain(|alarm| !OF_MACHINE.contains(&alarm["name"].as_str().unwrap()));
    alarms
}

#[tokio::test]
async fn an_alarm_has_a_fact_a_next_step_and_a_section() {
    let unprotected = Some("0.0.0.0:7400".to_owned());
    let config = ServiceConfig { unprotected, ..ServiceConfig::default() };
    let node = Node::start_with(HttpConfig::default(), config).await;
    let reply = node.call("GET", "/v1/alarms").await;
    assert_eq!(reply.json()["unreachable"], json!([]));
    let alarms = alarms_in(&reply);
    let [alarm] = &alarms[..] else { panic!("{alarms:?}") };
    assert_eq!((&alarm["name"], &alarm["severity"]), (&json!("open-mode"), &json!("warning")));
    assert_eq!(alarm["nodes"], json!([1]));
    assert_eq!(alarm["detail"], "other machines reach 0.0.0.0:7400 without TLS");
    assert_eq!(alarm["docs"], "docs/operations.md#open-mode");
    assert!(alarm["hint"].is_string(), "{alarm}");
    let metrics = node.call("GET", "/metrics").await.body;
    for line in [r#"holdfast_alarm{name="open-mode"} 1"#, r#"holdfast_alarm{name="no-leader"} 0"#] {
        assert!(metrics.contains(line), "{line} is missing in\n{metrics}");
    }
}

#[tokio::test]
async fn every_node_lists_what_the_leader_knows_about_a_stopped_member() {
    let mut nodes = Node::cluster().await;
    let stopped = nodes.pop().unwrap();
    let id = stopped.service.node().0;
    stopped.service.shutdown().await;
    let names = |reply: &Reply| -> Vec<Value> {
        alarms_in(reply).iter().map(|alarm| alarm["name"].clone()).collect()
    };
    for node in &nodes {
        let raised = |reply: &Reply| names(reply) == ["one-failure-left", "member-silent"];
        let reply = node.until("the alarms", "/v1/alarms", raised).await;
        assert_eq!(reply.json()["unreachable"], json!([id]));
        let leader = nodes[0].service.node().0;
        assert_eq!(alarms_in(&reply)[0]["nodes"], json!([leader]), "{reply:?}");
    }
    let metrics = nodes[0].call("GET", "/metrics").await.body;
    for (name, critical) in [("one-failure-left", 1), ("member-silent", 0), ("no-leader", 0)] {
        let line = format!("holdfast_alarm_critical{{name=\"{name}\"}} {critical}");
        assert!(metrics.contains(&line), "{line} is missing in\n{metrics}");
    }
}

#[tokio::test]
async fn a_token_of_an_operator_that_expires_and_a_full_namespace_raise_alarms() {
    let node = Node::start().await;
    let admin = guard(&node).await.admin;
    for target in ["/v1/auth/subjects/ops?role=operator", "/v1/namespaces/deploy?locks=1"] {
        assert_eq!(as_token(&node, &admin, "PUT", target, "").await.status, 204, "{target}");
    }
    let raised = async || alarms_in(&as_token(&node, &admin, "GET", "/v1/alarms", "").await);
    // Tokens of programs live shorter, and this one is not the last.
    new_token(&node, &admin, "ops", "&ttl=1h").await;
    assert_eq!(raised().await, [Value::Null; 0]);
    new_token(&node, &admin, "ops", "&ttl=336h").await;
    let held = as_token(&node, &admin, "PUT", "/v1/locks/deploy/a?session=admin", "").await;
    assert_eq!(held.status, 200, "{held:?}");
    let alarms = raised().await;
    let details: Vec<&str> = alarms.iter().map(|of| of["detail"].as_str().unwrap()).collect();
    let [token, quota] = details[..] else { panic!("{alarms:?}") };
    assert!(
        token.starts_with("the last access token of a privileged subject: ops in 1"),
        "{token}"
    );
    assert_eq!(quota, "locks of deploy 1 of 1");
    new_token(&node, &admin, "ops", "").await;
    let released = as_token(&node, &admin, "DELETE", "/v1/sessions/admin", "").await;
    assert!(released.status < 300, "{released:?}");
    assert_eq!(raised().await, [Value::Null; 0]);
}
