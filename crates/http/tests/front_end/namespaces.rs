//! Namespaces: what a subject of a namespace may read and change, and its calls per second.

use crate::authorization::{as_token, guard, new_token, written};
use crate::node::Node;

/// Registers `team` with the subject `team/ci`, which has every permission there. Returns the tokens of the
/// administrator and of `team/ci`.
async fn with_namespace(node: &Node, quotas: &str) -> (String, String) {
    let admin = guard(node).await.admin;
    for (target, body) in [
        (format!("/v1/namespaces/team?{quotas}"), ""),
        ("/v1/auth/subjects/team/ci".to_owned(), r#"{"role":["admin"]}"#),
    ] {
        let set = as_token(node, &admin, "PUT", &target, body).await;
        assert_eq!(set.status, 204, "{set:?}");
    }
    let (team, _) = new_token(node, &admin, "team/ci", "").await;
    (admin, team)
}

#[tokio::test]
async fn lists_and_watches_show_only_the_namespace() {
    let nodes = Node::cluster().await;
    let (admin, team) = with_namespace(&nodes[0], "").await;
    for lock in ["team/a", "other/b", "teams"] {
        let target = format!("/v1/locks/{lock}?session=admin");
        assert_eq!(as_token(&nodes[0], &admin, "PUT", &target, "").await.status, 200);
    }
    let acquired = as_token(&nodes[1], &team, "PUT", "/v1/locks/team/c?session=t", "").await;
    assert_eq!(acquired.status, 200, "{acquired:?}");
    for node in &nodes {
        let list = as_token(node, &team, "GET", "/v1/locks", "").await.json();
        let names: Vec<_> =
            list["locks"].as_array().unwrap().iter().map(|lock| lock["lock"].clone()).collect();
        assert_eq!(names, ["team/a", "team/c"]);
        let sessions = as_token(node, &team, "GET", "/v1/sessions", "").await.json();
        let ids: Vec<_> = sessions["sessions"].as_array().unwrap().iter().collect();
        assert_eq!(ids.len(), 1, "{sessions}");
        for (method, target) in [
            ("GET", "/v1/locks/other/b"),
            ("GET", "/v1/history/other/b"),
            ("GET", "/v1/fence/other/b?token=1"),
            ("GET", "/v1/tree/?children"),
            ("GET", "/v1/tree/locks/other"),
            ("GET", "/v1/watch?prefix=/locks/"),
            ("GET", "/v1/watch?prefix=/locks/team"),
            ("GET", "/v1/cluster"),
            ("GET", "/v1/alarms"),
            ("GET", "/metrics"),
            ("GET", "/v1/audit"),
            ("GET", "/v1/namespaces"),
            ("GET", "/v1/namespaces/other"),
            ("PUT", "/v1/locks/other/c?session=t"),
            ("POST", "/v1/force-releases/other/b?reason=x"),
        ] {
            as_token(node, &team, method, target, "").await.problem(403, "forbidden");
        }
        let missing = as_token(node, &team, "DELETE", "/v1/sessions/admin", "").await;
        missing.problem(410, "session-expired");
    }
    // One operation outside of the namespace, and nothing of the transaction happens.
    let txn = r#"{"then":[{"create":"/team/x","parents":true},{"create":"/x"}]}"#;
    as_token(&nodes[0], &team, "POST", "/v1/txn", txn).await.problem(403, "forbidden");
    let many = r#"{"name":["team/m","other/m"],"session":"t"}"#;
    as_token(&nodes[0], &team, "POST", "/v1/locks", many).await.problem(403, "forbidden");
    as_token(&nodes[0], &admin, "GET", "/v1/tree/team", "").await.problem(404, "not-found");
    let own = as_token(&nodes[2], &team, "GET", "/v1/namespaces/team", "").await.json();
    assert_eq!(
        (own["used"]["locks"].clone(), own["used"]["sessions"].clone()),
        (2.into(), 1.into())
    );
    let me = as_token(&nodes[2], &team, "GET", "/v1/auth/me", "").await.json();
    assert_eq!(me["namespace"], "team");
    let can = as_token(&nodes[0], &team, "GET", "/v1/auth/can?permission=lock%20acquire%20x", "");
    let can = can.await.json();
    assert_eq!((&can["allowed"], &can["outside_of"]), (&false.into(), &"team".into()));
}

/// Nobody else takes or names the session `team:web1`, whether or not it exists.
async fn check_that_nobody_names_it(node: &Node, other: &str, outside: &str) {
    for name in ["team:web1", "team:none"] {
        for token in [other, outside] {
            for (method, target) in [
                ("PUT", format!("/v1/sessions/{name}")),
                ("PUT", format!("/v1/locks/deploy/a?session={name}")),
            ] {
                let reply = as_token(node, token, method, &target, "").await;
                assert_eq!(reply.status, 403, "{target}: {reply:?}");
            }
            for (method, target) in [
                ("GET", format!("/v1/sessions/{name}")),
                ("POST", format!("/v1/sessions/{name}/keepalive")),
                ("DELETE", format!("/v1/locks/deploy/a?session={name}")),
            ] {
                let reply = as_token(node, token, method, &target, "").await;
                assert_eq!(reply.status, 410, "{target}: {reply:?}");
            }
        }
    }
}

/// S-M3: a subject of a namespace writes and reads `web1`; for others its session is `team:web1`.
#[tokio::test]
async fn two_namespaces_have_no_session_name_in_common() {
    let node = Node::start().await;
    let (admin, team) = with_namespace(&node, "").await;
    for (target, body) in [
        ("/v1/namespaces/other", ""),
        ("/v1/auth/subjects/other/ci", r#"{"role":["admin"]}"#),
        ("/v1/auth/subjects/outside?role=deploy", ""),
    ] {
        assert_eq!(as_token(&node, &admin, "PUT", target, body).await.status, 204);
    }
    let (other, _) = new_token(&node, &admin, "other/ci", "").await;
    let (outside, _) = new_token(&node, &admin, "outside", "").await;
    // The other one takes the name first.
    for (token, ttl) in [(&other, "24h"), (&team, "30s"), (&outside, "40s")] {
        let target = format!("/v1/sessions/web1?ttl={ttl}");
        let opened = as_token(&node, token, "PUT", &target, "").await;
        assert_eq!((opened.status, opened.json()["session"].clone()), (201, "web1".into()));
    }
    let acquire = "/v1/locks/team/a?session=web1&attempt=1";
    let held = as_token(&node, &team, "PUT", acquire, "").await.json();
    assert_eq!(held["session"], "web1", "{held}");
    // Views of the namespace have the name that its subjects write, those of others the whole name.
    let whole = |token, session: &'static str| {
        let node = &node;
        async move {
            let lock = as_token(node, token, "GET", "/v1/locks/team/a", "").await.json();
            assert_eq!(lock["holders"][0]["session"], session, "{lock}");
        }
    };
    whole(&team, "web1").await;
    whole(&admin, "team:web1").await;
    let listed = as_token(&node, &admin, "GET", "/v1/sessions", "").await.json();
    let names: Vec<_> =
        listed["sessions"].as_array().unwrap().iter().map(|one| one["session"].clone()).collect();
    assert_eq!(names, ["@outside:web1", "other:web1", "team:web1"], "{listed}");
    // Every call of the subject finds its own session.
    let many = as_token(&node, &team, "POST", "/v1/keepalive", r#"["web1"]"#).await.json();
    assert_eq!(many["sessions"][0]["session"], "web1", "{many}");
    assert!(
        many["sessions"][0]["error"].is_null() && many["sessions"][0]["ttl_ms"] == 30_000,
        "{many}"
    );
    let txn = r#"{"if":[{"session":"web1","open":true}],"then":[{"create":"/team/e","ephemeral":true,"parents":true}],"session":"web1","request":"1"}"#;
    for (method, target, body, status) in [
        ("GET", "/v1/sessions/web1", "", 200),
        ("POST", "/v1/sessions/web1/keepalive", "", 200),
        ("PUT", "/v1/tree/team/f?ephemeral&parents&session=web1", "", 201),
        ("POST", "/v1/txn", txn, 200),
        ("PUT", "/v1/sessions/web2", "", 201),
        ("POST", "/v1/transfers/team/a?session=web1&to=web2", "", 200),
        ("DELETE", "/v1/locks/team/a?session=web2", "", 204),
        // The whole name is the same session.
        ("GET", "/v1/sessions/team:web1", "", 200),
    ] {
        let reply = as_token(&node, &team, method, target, body).await;
        assert_eq!(reply.status, status, "{method} {target}: {reply:?}");
        assert!(!reply.body.contains("\"succeeded\":false"), "{reply:?}");
    }
    let anonymous = as_token(&node, &team, "PUT", "/v1/locks/team/b", "").await.json();
    let session = anonymous["session"].as_str().unwrap();
    let target = format!("/v1/locks/team/b?session={session}");
    assert_eq!(as_token(&node, &team, "DELETE", &target, "").await.status, 204);
    check_that_nobody_names_it(&node, &other, &outside).await;
    // An operator of the cluster closes one of them.
    let close = "/v1/sessions/team:web1?force&reason=x";
    assert_eq!(as_token(&node, &admin, "DELETE", close, "").await.status, 204);
    for (token, status) in [(&team, 410), (&other, 200), (&outside, 200)] {
        assert_eq!(as_token(&node, token, "GET", "/v1/sessions/web1", "").await.status, status);
    }
}

#[tokio::test]
async fn calls_above_the_rate_are_refused_and_renewals_are_not() {
    let node = Node::start().await;
    let (admin, team) = with_namespace(&node, "calls_per_second=5").await;
    let opened = as_token(&node, &team, "PUT", "/v1/sessions/t", "").await;
    assert_eq!(opened.status, 201, "{opened:?}");
    let mut refused = None;
    for _ in 0..1_000 {
        let reply = as_token(&node, &team, "GET", "/v1/locks/team/a", "").await;
        if reply.status == 429 {
            refused = Some(reply);
            break;
        }
        assert_eq!(reply.status, 200, "{reply:?}");
    }
    let refused = refused.expect("no call was refused");
    let problem = refused.problem(429, "rate-limited");
    assert_eq!((problem["limit"].clone(), refused.header("retry-after")), (5.into(), Some("1")));
    let renewed = as_token(&node, &team, "POST", "/v1/sessions/t/keepalive", "").await;
    assert_eq!(renewed.status, 200, "{renewed:?}");
    // Other subjects are not concerned.
    for _ in 0..20 {
        let reply = as_token(&node, &admin, "GET", "/v1/locks/team/a", "").await;
        assert_eq!(reply.status, 200, "{reply:?}");
    }
    let metrics = as_token(&node, &admin, "GET", "/metrics", "").await.body;
    let limited = "holdfast_namespace_calls_limited_total{namespace=\"team\"} ";
    assert!(metrics.contains(limited), "{metrics}");
    let limit = "holdfast_namespace_limit{namespace=\"team\",quota=\"calls_per_second\"} 5";
    assert!(metrics.contains(limit), "{metrics}");
    // The next second permits calls again.
    node.until_as("the rate permits a call", "/v1/locks/team/a", &team, |reply| {
        reply.status == 200
    })
    .await;
}

#[tokio::test]
async fn wrong_namespaces_and_quotas_are_refused_before_anything_is_written() {
    let node = Node::start().await;
    let (admin, _) = with_namespace(&node, "locks=5").await;
    let before = written(&node, &admin).await;
    for (method, target, status, code) in [
        ("PUT", "/v1/namespaces/locks", 400, "bad-name"),
        ("PUT", "/v1/namespaces/a%2Fb", 400, "bad-name"),
        ("PUT", "/v1/namespaces/a%20b", 400, "bad-name"),
        ("PUT", "/v1/namespaces/@ci", 400, "bad-name"),
        ("PUT", "/v1/namespaces/team?locks=-1", 400, "invalid-argument"),
        ("PUT", "/v1/namespaces/team?calls_per_second=0", 400, "invalid-argument"),
        ("PUT", "/v1/namespaces/team?recipes=10001", 400, "invalid-argument"),
        ("PUT", "/v1/namespaces/team?lock=5", 400, "invalid-argument"),
        ("GET", "/v1/namespaces/none", 404, "not-found"),
    ] {
        as_token(&node, &admin, method, target, "").await.problem(status, code);
    }
    assert_eq!(written(&node, &admin).await, before);
    let in_use = as_token(&node, &admin, "DELETE", "/v1/namespaces/team", "").await;
    let problem = in_use.problem(409, "namespace-in-use");
    assert!(problem["detail"].as_str().unwrap().contains("1 subjects"), "{problem}");
    let last = as_token(&node, &admin, "PUT", "/v1/namespaces/admin", "").await;
    last.problem(409, "last-administrator");
    let deleted = as_token(&node, &admin, "DELETE", "/v1/auth/subjects/team/ci", "").await;
    assert_eq!(deleted.status, 200, "{deleted:?}");
    let deleted = as_token(&node, &admin, "DELETE", "/v1/namespaces/team", "").await;
    assert_eq!(deleted.status, 204, "{deleted:?}");
}
