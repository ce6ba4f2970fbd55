//! Malformed and out-of-range durations.

use crate::node::Node;

#[tokio::test]
async fn a_duration_without_a_unit_is_rejected_with_a_hint() {
    let node = Node::start().await;
    let reply = node.call("PUT", "/v1/locks/a?ttl=30").await;
    let problem = reply.problem(400, "bad-duration");
    assert_eq!(problem["hint"], "did you mean 30s?");
    assert_eq!(problem["parameter"], "ttl");
    let reply = node.call("PUT", "/v1/sessions/s?ttl=30").await;
    assert_eq!(reply.problem(400, "bad-duration")["hint"], "did you mean 30s?");
    let reply = node.call_json("PUT", "/v1/locks/a", r#"{"session":"me","wait":10}"#).await;
    assert_eq!(reply.problem(400, "bad-duration")["hint"], "did you mean 10s?");
    assert_eq!(node.call("GET", "/v1/locks/a").await.json()["held"], false);
}

#[tokio::test]
async fn malformed_and_out_of_bounds_durations_are_rejected() {
    let node = Node::start().await;
    for ttl in ["0s", "999ms", "25h", "99999999999999999999h", "18446744073709551615ms", "8760h"] {
        let problem = node.call("PUT", &format!("/v1/locks/a?ttl={ttl}")).await;
        let problem = problem.problem(400, "bad-duration");
        assert!(problem["detail"].as_str().unwrap().contains("out of bounds"), "{problem}");
        node.call("POST", &format!("/v1/sessions?ttl={ttl}")).await.problem(400, "bad-duration");
    }
    for ttl in ["-1s", "soon", "1.5s", "1e3s", "5parsecs", "s", "1s1h", "%F0%9F%95%90", "1s%00"] {
        let problem = node.call("PUT", &format!("/v1/locks/a?ttl={ttl}")).await;
        assert_eq!(problem.problem(400, "bad-duration")["parameter"], "ttl");
    }
}

#[tokio::test]
async fn a_wait_above_the_maximum_is_rejected_with_the_bounds() {
    let node = Node::start().await;
    for wait in ["301s", "5m1ms", "24h"] {
        let reply = node.call("PUT", &format!("/v1/locks/a?session=me&wait={wait}")).await;
        let detail = reply.problem(400, "bad-duration")["detail"].clone();
        assert!(detail.as_str().unwrap().ends_with("wait is from 0s to 5m"), "{detail}");
    }
    node.take("/v1/locks/a?session=me&wait=5m").await;
}
