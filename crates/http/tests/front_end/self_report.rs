//! Cluster view, health, metrics and request ids of a node.

use holdfast_http::{HttpConfig, LogFilter};
use holdfast_service::ServiceConfig;
use serde_json::json;

use crate::client::{Reply, call_with};
use crate::node::Node;

#[tokio::test]
async fn the_cluster_view_lists_the_leader_and_the_nodes() {
    let node = Node::start().await;
    let body = node.call("GET", "/v1/cluster").await.json();
    assert_eq!((&body["cluster"], &body["leader"]), (&json!("test"), &json!(1)));
    let member = &body["nodes"][0];
    assert_eq!((&member["id"], &member["role"]), (&json!(1), &json!("leader")));
    assert_eq!(member["http"], node.address.to_string());
    assert_eq!(member["healthy"], true);
    assert!(member["applied_revision"].is_u64() && member["peer"].is_string(), "{body}");
}

#[tokio::test]
async fn a_health_response_lists_each_check() {
    let node = Node::start().await;
    for target in ["/livez", "/livez?verbose", "/readyz", "/readyz?leader", "/readyz?verbose"] {
        let reply = node.call("GET", target).await;
        let body = reply.json();
        assert_eq!((reply.status, &body["ok"]), (200, &json!(true)), "{target}: {body}");
        assert!(body["checks"][0]["name"].is_string(), "{body}");
    }
}

#[tokio::test]
async fn calls_are_counted_by_route_and_without_lock_names() {
    let node = Node::holding("/v1/locks/secret-name?session=me").await;
    node.call("PUT", "/v1/locks/secret-name?session=you").await;
    let reply = node.call("GET", "/metrics").await;
    assert!(reply.header("content-type").unwrap().starts_with("text/plain; version=0.0.4"));
    for line in [
        r#"holdfast_http_requests_total{route="/v1/locks/{name}",method="PUT",code="200"} 1"#,
        r#"holdfast_http_requests_total{route="/v1/locks/{name}",method="PUT",code="423"} 1"#,
        r#"holdfast_http_request_seconds_count{route="/v1/locks/{name}"} 2"#,
        "holdfast_http_connections 1",
    ] {
        assert!(reply.body.contains(line), "{line} is missing in\n{}", reply.body);
    }
    assert!(!reply.body.contains("secret-name"));
}

/// promtool and older scrapers know only the types of the text format of Prometheus.
#[tokio::test]
async fn metrics_have_the_format_that_the_scraper_asks_for() {
    let node = Node::start().await;
    let asked =
        "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.1";
    let open = call_with(node.address, "GET", "/metrics", &[("accept", asked)], "").await;
    assert!(open.header("content-type").unwrap().starts_with("application/openmetrics-text"));
    assert!(
        open.body.ends_with("# EOF\n") && open.body.contains("# TYPE holdfast_keepalives counter")
    );
    for accept in ["text/plain", "text/plain; version=0.0.4", "*/*"] {
        let text = call_with(node.address, "GET", "/metrics", &[("accept", accept)], "").await;
        assert!(text.header("content-type").unwrap().starts_with("text/plain; version=0.0.4"));
        let kinds =
            text.body.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').nth(1));
        for kind in kinds {
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{kind}");
        }
        assert!(text.body.contains("# TYPE holdfast_keepalives_total counter"), "{}", text.body);
        assert!(!text.body.contains("# EOF") && !text.body.contains("# UNIT"));
    }
}

#[tokio::test]
async fn log_entries_commands_and_reads_are_counted() {
    let node = Node::start().await;
    let names = ["raft_entries_proposed", "raft_commands_proposed", "raft_entries_applied"];
    let names = [&names[..], &["raft_commands_applied", "raft_reads", "raft_read_rounds"]].concat();
    let names: Vec<String> = names.iter().map(|name| format!("{name}_total")).collect();
    let seconds =
        ["raft_commit", "raft_apply", "raft_log_sync"].map(|of| format!("{of}_seconds_count"));
    let names = [names, seconds.to_vec()].concat();
    let counts = async || -> Vec<u64> {
        let body = node.call("GET", "/metrics").await.body;
        let count = |name: &String| {
            let name = format!("holdfast_{name} ");
            let count = body.lines().find_map(|line| line.strip_prefix(&name));
            count.unwrap_or_else(|| panic!("{name} is missing in\n{body}")).parse().unwrap()
        };
        names.iter().map(count).collect()
    };
    let before = counts().await;
    node.take("/v1/locks/a?session=me").await;
    assert_eq!(node.call("GET", "/v1/locks/a").await.status, 200);
    let after = counts().await;
    for (name, (before, after)) in names.iter().zip(before.into_iter().zip(after)) {
        assert!(after > before, "{name}: {before} and then {after}");
    }
}

#[tokio::test]
async fn a_call_that_waits_is_not_counted_among_the_fast_ones() {
    let node = Node::holding("/v1/locks/a?session=me").await;
    node.call("PUT", "/v1/locks/a?session=you&wait=300ms").await.problem(423, "wait-timeout");
    let body = node.call("GET", "/metrics").await.body;
    for line in [
        r#"holdfast_http_request_seconds_count{route="/v1/locks/{name}"} 1"#,
        r#"holdfast_http_waiting_request_seconds_count{route="/v1/locks/{name}"} 1"#,
        "holdfast_has_quorum 1",
        "holdfast_raft_leader_changes_total 1",
    ] {
        assert!(body.contains(line), "{line} is missing in\n{body}");
    }
}

#[tokio::test]
async fn a_valid_request_id_is_returned_and_an_invalid_one_is_replaced() {
    let node = Node::start().await;
    let of = async |id: &str| -> Reply {
        let headers = [("Holdfast-Request-Id", id)];
        call_with(node.address, "GET", "/version", &headers, "").await
    };
    assert_eq!(of("trace-7").await.header("holdfast-request-id"), Some("trace-7"));
    let made = of("no spaces please").await;
    assert!(made.header("holdfast-request-id").unwrap().starts_with("1-"));
    assert!(made.json()["version"].is_string());
}

#[tokio::test]
async fn an_error_code_has_an_explanation_as_plain_text() {
    let node = Node::start().await;
    let reply = node.call("GET", "/errors/lock-busy").await;
    assert_eq!(reply.header("content-type"), Some("text/plain; charset=utf-8"));
    assert!(reply.body.starts_with("lock-busy: The lock is held by another caller\nstatus 423;"));
}

#[tokio::test]
async fn the_filter_of_the_log_changes_for_a_time() {
    let apply = |filter: &str| match filter {
        "loud" => Err("\"loud\" is not a log level: write debug".to_owned()),
        _ => Ok(()),
    };
    let log_filter = LogFilter::new("info", apply);
    let config = HttpConfig { log_filter, ..HttpConfig::default() };
    let node = Node::start_with(config, ServiceConfig::default()).await;
    let changed = node.call("PATCH", "/v1/node?log=debug&for=10m").await.json();
    let expected =
        json!({ "node": 1, "log": "debug", "configured": "info", "ends_in_ms": 600_000 });
    assert_eq!(changed, expected);
    let body = r#"{"log":"info,holdfast_raft=debug","for":"2s"}"#;
    let changed = node.call_json("PATCH", "/v1/node", body).await.json();
    assert_eq!(
        (&changed["ends_in_ms"], &changed["log"]),
        (&json!(2_000), &json!("info,holdfast_raft=debug"))
    );
    let reset = node.call("PATCH", "/v1/node").await.json();
    assert_eq!((&reset["ends_in_ms"], &reset["log"]), (&json!(null), &json!("info")));
    let wrong = node.call("PATCH", "/v1/node?log=loud").await;
    wrong.problem(400, "invalid-argument");
    let problem = wrong.json();
    assert_eq!(problem["parameter"], "log");
    assert!(problem["detail"].as_str().unwrap().ends_with("write debug"), "{problem}");
    let trail = node.call("GET", "/v1/audit").await.body;
    assert!(trail.contains("holdfast_raft=debug") && !trail.contains("loud"), "{trail}");
    for target in ["/v1/node?log=debug&for=25h", "/v1/node?log=debug&for=10"] {
        node.call("PATCH", target).await.problem(400, "bad-duration");
    }
    // The program of this test cannot change its log.
    let fixed = Node::start_with(HttpConfig::default(), ServiceConfig::default()).await;
    fixed.call("PATCH", "/v1/node").await.problem(400, "invalid-argument");
}
