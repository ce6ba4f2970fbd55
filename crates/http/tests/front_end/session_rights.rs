//! Sessions of subjects: who opens them, who uses them, and which sessions receive a lock.

use serde_json::Value;

use crate::authorization::{Tokens, as_token, guard, new_token};
use crate::client::Reply;
use crate::node::Node;

#[tokio::test]
async fn a_session_is_used_only_by_its_subject() {
    let node = Node::start().await;
    let tokens = guard(&node).await;
    let Tokens { admin, ci, .. } = &tokens;
    for (target, body) in [
        ("/v1/auth/roles/asker", r#"{"permission":["lock request-release *"]}"#),
        ("/v1/auth/subjects/web", r#"{"role":["deploy","asker"]}"#),
    ] {
        assert_eq!(as_token(&node, admin, "PUT", target, body).await.status, 204, "{target}");
    }
    let (web, _) = new_token(&node, admin, "web", "").await;
    let acquired = as_token(&node, ci, "PUT", "/v1/locks/deploy/a?session=ci-1", "").await;
    assert_eq!(acquired.status, 200, "{acquired:?}");
    let refused = async |method: &str, target: &str, name: &str| {
        let reply = as_token(&node, &web, method, &target.replace("NAME", name), "").await;
        let body = reply.problem(403, "forbidden").to_string();
        renamed(&body, name)
    };
    for (method, target) in [
        ("PUT", "/v1/locks/deploy/a?session=NAME"),
        ("POST", "/v1/locks?name=deploy/a&session=NAME"),
        ("PUT", "/v1/elections/deploy/a?session=NAME"),
        ("PUT", "/v1/sessions/NAME"),
        ("PUT", "/v1/barriers/deploy?parties=2&session=NAME"),
    ] {
        let [known, unknown] = ["@ci:ci-1", "@ci:none"].map(|name| refused(method, target, name));
        assert_eq!(known.await, unknown.await, "{method} {target}");
    }
    assert_eq!(
        as_token(&node, &web, "PUT", "/v1/locks/deploy/w?session=web-2", "").await.status,
        200
    );
    // S-M3: every other call gives the answer of a session that does not exist.
    for (method, target, body) in [
        ("DELETE", "/v1/locks/deploy/a?session=NAME", ""),
        ("DELETE", "/v1/locks/deploy/a?session=NAME&token=1", ""),
        ("DELETE", "/v1/locks?name=deploy/a&session=NAME", ""),
        ("DELETE", "/v1/elections/deploy/a?session=NAME", ""),
        ("GET", "/v1/sessions/NAME", ""),
        ("GET", "/v1/sessions/NAME?stale", ""),
        ("GET", "/v1/sessions", ""),
        ("POST", "/v1/sessions/NAME/keepalive", ""),
        ("POST", "/v1/keepalive", r#"["NAME"]"#),
        ("DELETE", "/v1/sessions/NAME", ""),
        ("DELETE", "/v1/sessions/NAME?incarnation=1", ""),
        ("DELETE", "/v1/sessions/NAME?force&reason=mine", ""),
        ("POST", "/v1/release-requests/deploy/w?session=NAME", ""),
        ("POST", "/v1/release-requests/deploy/free?session=NAME", ""),
        ("POST", "/v1/release-requests/deploy/w?session=NAME&token=2", ""),
        ("POST", "/v1/transfers/deploy/a?session=NAME&to=web-1", ""),
        ("POST", "/v1/transfers/deploy/free?session=web-2&to=NAME", ""),
        ("POST", "/v1/transfers/deploy/w?session=web-2&to=NAME&token=1", ""),
        ("PUT", "/v1/tree/app/e?ephemeral&session=NAME", ""),
        ("PUT", "/v1/tree/app/e?session=NAME&request=1", ""),
        ("PUT", "/v1/tree/other?ephemeral&session=NAME", ""),
        ("POST", "/v1/txn", r#"{"if":[{"session":"NAME","open":true}],"then":[]}"#),
        ("POST", "/v1/txn?session=NAME", r#"{"then":[{"create":"/app/e","ephemeral":true}]}"#),
        // The last one, because the cluster remembers the attempt of a session that does not exist.
        ("DELETE", "/v1/locks/deploy/a?session=NAME&attempt=1", ""),
    ] {
        let of = async |name: &str| {
            let (target, body) = (target.replace("NAME", name), body.replace("NAME", name));
            let reply = as_token(&node, &web, method, &target, &body).await;
            let body = renamed(&reply.body, name);
            (reply.status, reply.header("holdfast-hold-count").map(str::to_owned), body)
        };
        assert_eq!(of("@ci:ci-1").await, of("@ci:none").await, "{method} {target} {body}");
    }
    let own = as_token(&node, ci, "GET", "/v1/sessions/ci-1", "").await.json();
    assert_eq!((own["subject"].as_str(), own["holds"][0]["token"].as_u64()), (Some("ci"), Some(1)));
}

#[tokio::test]
async fn an_operator_closes_a_session_of_another_subject_only_on_record() {
    let node = Node::start().await;
    let Tokens { admin, ci, .. } = guard(&node).await;
    assert_eq!(as_token(&node, &ci, "PUT", "/v1/sessions/ci-1", "").await.status, 201);
    let close = async |query: &str| {
        let target = format!("/v1/sessions/@ci:ci-1{query}");
        as_token(&node, &admin, "DELETE", &target, "").await
    };
    let refused = close("").await;
    assert_eq!(refused.status, 403, "{refused:?}");
    assert!(refused.body.contains("'force' and 'reason'"), "{refused:?}");
    assert_eq!(close("?force&reason=test").await.status, 204);
    let closed = as_token(&node, &admin, "GET", "/v1/audit?action=close-session", "").await;
    assert_eq!(closed.json()["records"].as_array().unwrap().len(), 1, "{closed:?}");
}

/// The text with another name of a session, also where a path has it.
fn renamed(body: &str, name: &str) -> String {
    let encoded = name.replace('@', "%40").replace(':', "%3A");
    without_times(&body.replace(name, "NAME").replace(&encoded, "NAME"))
}

/// The text without its revision and its times, which grow.
fn without_times(body: &str) -> String {
    fn remove(value: &mut Value) {
        match value {
            Value::Object(fields) => {
                fields.retain(|name, _| name != "revision" && !name.ends_with("_ms"));
                fields.values_mut().for_each(remove);
            }
            Value::Array(items) => items.iter_mut().for_each(remove),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let Ok(mut value) = serde_json::from_str(body) else { return body.to_owned() };
    remove(&mut value);
    value.to_string()
}

/// S-M4: a transfer gives a lock only to a session whose subject may acquire it.
#[tokio::test]
async fn a_transfer_needs_a_receiver_that_may_hold_the_lock() {
    let node = Node::start().await;
    let Tokens { admin, ci, .. } = guard(&node).await;
    for (target, body) in [
        ("/v1/auth/roles/prod", r#"{"permission":["lock acquire *"]}"#),
        ("/v1/auth/subjects/prod?role=prod", ""),
        ("/v1/namespaces/team-a", ""),
        ("/v1/auth/subjects/team-a/x?role=prod", ""),
    ] {
        assert_eq!(as_token(&node, &admin, "PUT", target, body).await.status, 204, "{target}");
    }
    let (prod, _) = new_token(&node, &admin, "prod", "").await;
    let (team, _) = new_token(&node, &admin, "team-a/x", "").await;
    for (token, target) in [
        (&ci, "/v1/sessions/cis"),
        (&prod, "/v1/sessions/p2"),
        (&prod, "/v1/locks/prod-db?session=p1"),
        (&prod, "/v1/locks/deploy/x?session=p1"),
        (&prod, "/v1/elections/e?session=p1"),
        (&prod, "/v1/locks/pool?session=p1&shards=2"),
        (&team, "/v1/sessions/ta"),
        (&team, "/v1/locks/team-a/j1?session=ta"),
    ] {
        let reply = as_token(&node, token, "PUT", target, "").await;
        assert!(reply.status < 300, "{target}: {reply:?}");
    }
    for (token, lock, from, to) in [
        (&prod, "prod-db", "p1", "@ci:cis"),
        (&prod, "elections/e", "p1", "@ci:cis"),
        (&prod, "prod-db", "p1", "team-a:ta"),
        (&prod, "deploy/x", "p1", "team-a:ta"),
        // Whether a session of another subject exists is not told.
        (&prod, "prod-db", "p1", "@ci:none"),
        (&prod, "deploy/x", "p1", "team-a:none"),
        (&team, "team-a/j1", "ta", "p2"),
    ] {
        let target = format!("/v1/transfers/{lock}?session={from}&to={to}");
        let refused = as_token(&node, token, "POST", &target, "").await;
        if lock == "team-a/j1" {
            // A subject of a namespace names only sessions of its namespace.
            refused.problem(410, "session-expired");
            continue;
        }
        let problem = refused.problem(403, "forbidden");
        assert_eq!(problem["needed"], format!("lock acquire {lock}"), "{problem}");
        assert_eq!(problem["session"], to, "{problem}");
    }
    for target in ["prod-db?session=p1&to=p2", "deploy/x?session=p1&to=@ci:cis"] {
        let done = as_token(&node, &prod, "POST", &format!("/v1/transfers/{target}"), "").await;
        assert_eq!(done.status, 200, "{target}: {done:?}");
    }
}

/// Rights that need a session include `session open`. A token that only reads cannot fill the cluster with sessions.
#[tokio::test]
async fn opening_a_session_needs_a_permission() {
    let node = Node::start().await;
    let Tokens { admin, .. } = guard(&node).await;
    for (at, (permission, opens)) in [
        ("audit read", false),
        ("metrics read", false),
        ("lock read *", false),
        ("lock check *", false),
        ("session close *", false),
        ("cluster read", false),
        ("auth read", false),
        ("cluster operate", false),
        ("session open", true),
        ("lock acquire one", true),
        ("recipe use one", true),
        ("tree read /one", true),
        ("tree write /one", true),
        // The commands number these calls.
        ("lock policy one", true),
        ("recipe delete one", true),
        ("cluster manage", true),
        ("auth manage", true),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("s{at}");
        let role = serde_json::json!({ "permission": [permission] }).to_string();
        for (target, body) in [
            (format!("/v1/auth/roles/{name}"), role.as_str()),
            (format!("/v1/auth/subjects/{name}?role={name}"), ""),
        ] {
            assert_eq!(as_token(&node, &admin, "PUT", &target, body).await.status, 204);
        }
        let (token, _) = new_token(&node, &admin, &name, "").await;
        let asked = "/v1/auth/can?permission=session%20open";
        let can = as_token(&node, &token, "GET", asked, "").await.json();
        assert_eq!(can["allowed"], opens, "{permission}: {can}");
        let named = format!("/v1/sessions/{name}");
        for (method, target) in [("PUT", named.as_str()), ("POST", "/v1/sessions")] {
            let reply = as_token(&node, &token, method, target, "").await;
            if opens {
                assert_eq!(reply.status, 201, "{permission}: {reply:?}");
                continue;
            }
            let refused = reply.problem(403, "forbidden");
            assert_eq!(refused["needed"], "session open", "{permission}");
            let hint = refused["hint"].as_str().unwrap();
            assert!(hint.contains("--permission 'session open'"), "{refused}");
        }
        if !opens {
            let implicit = format!("/v1/locks/x?session={name}");
            let refused = as_token(&node, &token, "PUT", &implicit, "").await;
            assert_eq!(refused.problem(403, "forbidden")["needed"], "lock acquire x");
            let read = as_token(&node, &admin, "GET", &named, "").await;
            read.problem(410, "session-expired");
        }
    }
}

#[tokio::test]
async fn a_deadlock_names_no_lock_that_its_caller_may_not_read() {
    let node = Node::start().await;
    let tokens = guard(&node).await;
    let Tokens { admin, ci, .. } = &tokens;
    for (token, target, status) in [
        (ci, "deploy/a?session=ci-1", 200),
        (admin, "secret?session=a1", 200),
        (admin, "deploy/b?session=a2", 200),
        (admin, "deploy/a?session=a1&enqueue", 202),
        (admin, "secret?session=a2&enqueue", 202),
    ] {
        let target = format!("/v1/locks/{target}");
        let reply = as_token(&node, token, "PUT", &target, "").await;
        assert_eq!(reply.status, status, "{target} {reply:?}");
    }
    let refused = as_token(&node, ci, "PUT", "/v1/locks/deploy/b?session=ci-1&wait=1s", "").await;
    let detail = refused.problem(409, "deadlock")["detail"].clone();
    assert_eq!(detail, "'@ci:ci-1' waits for 'deploy/b'");
}

/// A subject may release what it holds without another permission. The answer about other holds needs one.
#[tokio::test]
async fn a_rejected_release_names_no_holder_of_a_lock_that_its_caller_may_not_see() {
    let node = Node::start().await;
    let Tokens { admin, ci, .. } = &guard(&node).await;
    for (token, target) in [
        (admin, "/v1/locks/secret?session=a1"),
        (admin, "/v1/locks/deploy/a?session=a1"),
        (ci, "/v1/sessions/ci-1"),
    ] {
        let reply = as_token(&node, token, "PUT", target, "").await;
        assert!(reply.status < 300, "{target}: {reply:?}");
    }
    for target in ["/v1/locks/NAME?session=ci-1", "/v1/locks?name=NAME&session=ci-1"] {
        for (lock, session) in [("secret", Value::Null), ("deploy/a", "@admin:a1".into())] {
            let target = target.replace("NAME", lock);
            let refused = as_token(&node, ci, "DELETE", &target, "").await;
            let problem = refused.problem(409, "not-holder");
            assert_eq!(problem["holder"]["session"], session, "{target}: {problem}");
            assert_eq!(session.is_null(), !refused.body.contains("a1"), "{target}: {problem}");
        }
    }
}

#[tokio::test]
async fn a_multi_lock_shows_only_the_locks_that_a_caller_may_read() {
    let node = Node::start().await;
    let Tokens { admin, ci, .. } = &guard(&node).await;
    let locks = "/v1/locks?name=deploy/m&name=secret";
    let held = as_token(&node, admin, "POST", &format!("{locks}&session=a1"), "").await;
    assert_eq!(held.status, 200, "{held:?}");
    let wait = format!("{locks}&session=a2&wait=30s");
    let waiter = as_token(&node, admin, "POST", &wait, "");
    let reads = async {
        let is_queued = |reply: &Reply| reply.json()["waiters"] == 1;
        node.until_as("the waiter", "/v1/locks/deploy/m", admin, is_queued).await;
        for target in [
            "/v1/locks/deploy/m",
            "/v1/locks/deploy/m?stale",
            "/v1/locks?prefix=deploy/",
            "/v1/locks?prefix=deploy/&sort=contention",
        ] {
            let read = as_token(&node, ci, "GET", target, "").await;
            assert!(read.status == 200 && read.body.contains("a1"), "{target}: {read:?}");
            assert!(!read.body.contains("secret"), "{target}: {read:?}");
        }
        let read = as_token(&node, admin, "GET", "/v1/locks/deploy/m", "").await;
        assert_eq!(read.body.matches("\"secret\"").count(), 2, "{read:?}");
    };
    tokio::select! {
        reply = waiter => panic!("{reply:?}"),
        () = reads => {}
    }
    let queued = "/v1/locks/deploy/m?session=ci-1&wait=100ms";
    let timed_out = as_token(&node, ci, "PUT", queued, "").await;
    assert_eq!(timed_out.status, 423, "{timed_out:?}");
    assert!(!timed_out.body.contains("secret"), "{timed_out:?}");
}
