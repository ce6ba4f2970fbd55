//! Invalid calls: parameters, methods, paths.

use crate::node::Node;

#[tokio::test]
async fn an_unknown_parameter_is_rejected_with_the_nearest_known_one() {
    let node = Node::start().await;
    for (method, target, near) in [
        ("PUT", "/v1/locks/a?sesion=me", "session"),
        ("PUT", "/v1/locks/a?session=me&wiat=10s", "wait"),
        ("DELETE", "/v1/locks/a?sesssion=me", "session"),
        ("GET", "/v1/locks/a?stal", "stale"),
        ("GET", "/v1/locks?prefx=a", "prefix"),
        ("GET", "/v1/fence/a?tokn=1", "token"),
        ("PUT", "/v1/sessions/a?tll=30s", "ttl"),
        ("GET", "/readyz?leadr", "leader"),
    ] {
        let problem = node.call(method, target).await.problem(400, "invalid-argument");
        let hint = problem["hint"].as_str().unwrap();
        assert!(hint.starts_with(&format!("did you mean '{near}'?")), "{target}: {hint}");
    }
    for target in ["/v1/cluster?x=1", "/version?x=1", "/livez?x=1"] {
        node.call("GET", target).await.problem(400, "invalid-argument");
    }
}

/// Guesses of callers who know other systems, and the words that their hints must have.
#[tokio::test]
async fn a_guess_of_a_parameter_or_a_value_gets_the_right_words() {
    let node = Node::start().await;
    for (method, target, words) in [
        ("PUT", "/v1/locks/a?labels=host:a", "write label.KEY=VALUE"),
        ("PUT", "/v1/locks/a?label=host:a", "write label.KEY=VALUE"),
        ("PUT", "/v1/locks/a?shared=true", "write mode=shared"),
        ("PUT", "/v1/locks/a?timeout=10s", "write wait=10s"),
        ("PUT", "/v1/locks/a?TTL=10s", "did you mean 'ttl'?"),
        ("PUT", "/v1/locks/a?ttl=0", "write at least 1s"),
        ("PUT", "/v1/locks/a?ttl=1d12h", "write whole numbers with units"),
        ("PUT", "/v1/locks/a?session=s&reentrant=False", "write reentrant=false"),
        ("PUT", "/v1/locks/a?session=s&reentrant=yes", "write reentrant=true"),
        ("PUT", "/v1/locks/a?cooldown=1s", "PATCH /v1/policies/{name}"),
        ("DELETE", "/v1/locks/a?session=s&force", "POST /v1/force-releases/{name}?reason=TEXT"),
        ("PUT", "/v1/sessions/a?lease=10s", "write ttl=30s"),
        ("POST", "/v1/counters/c?by=1", "write add=N"),
        ("POST", "/v1/counters/c", "write ?add=5"),
        ("PUT", "/v1/locks/a?attempt=0&session=s", "write attempt=N, from 1"),
        ("GET", "/v1/locks?page_size=5", "write limit=N"),
    ] {
        let problem = node.call(method, target).await;
        assert_eq!(problem.status, 400, "{target}: {problem:?}");
        let hint = problem.json()["hint"].as_str().unwrap_or_default().to_owned();
        assert!(hint.contains(words), "{target}: {hint}");
    }
    let off = node.call("PATCH", "/v1/policies/a?cooldown=1m&lock_delay=off").await.json();
    assert_eq!((&off["cooldown_ms"], &off["lock_delay_ms"]), (&60_000.into(), &0.into()));
    let off = node.call("PATCH", "/v1/policies/a?cooldown=off").await.json();
    assert_eq!(off["cooldown_ms"], 0);
}

/// No hint shows a way into the hold of another caller.
#[tokio::test]
async fn a_caller_that_is_not_the_holder_is_told_to_ask_for_the_lock() {
    let node = Node::holding("/v1/locks/imp?session=holder").await;
    node.call("PUT", "/v1/sessions/me").await;
    let problem = node.call("DELETE", "/v1/locks/imp?session=me").await.problem(409, "not-holder");
    let hint = problem["hint"].as_str().unwrap();
    assert!(hint.starts_with("ask for it: POST /v1/release-requests/imp?reason=TEXT;"), "{hint}");
    assert!(hint.contains("POST /v1/force-releases/imp?reason=TEXT"), "{hint}");
    let own = node.call("DELETE", "/v1/locks/imp?session=holder&owner=x").await;
    let hint = own.problem(409, "not-holder")["hint"].as_str().unwrap().to_owned();
    assert!(hint.starts_with("add the parameter owner=NAME"), "{hint}");
    let permits = node.call("PUT", "/v1/locks/new?session=me&permits=2").await;
    let hint = permits.problem(409, "limit-mismatch")["hint"].as_str().unwrap().to_owned();
    assert!(hint.starts_with("add limit=N: the first call"), "{hint}");
    for (method, hint) in
        [("DELETE", "?children lists"), ("GET", "?children lists"), ("PUT", "PUT without")]
    {
        let target = if method == "PUT" { "/v1/tree/no/such" } else { "/v1/tree/nosuch" };
        let problem = node.call(method, target).await.problem(404, "not-found");
        assert!(problem["hint"].as_str().unwrap().contains(hint), "{method}: {problem}");
    }
}

/// The call succeeds, because such names are valid, but it is probably not what the caller wants.
#[tokio::test]
async fn a_name_that_looks_like_a_call_or_a_list_has_a_note() {
    let node = Node::start().await;
    for (method, target) in [
        ("PUT", "/v1/locks/orders/acquire"),
        ("PUT", "/v1/locks/orders/lock"),
        ("PUT", "/v1/locks/orders/renew"),
        ("GET", "/v1/locks/orders/history"),
        ("GET", "/v1/locks/orders/queue"),
        ("GET", "/v1/locks/orders/holders"),
        ("GET", "/v1/locks/orders/holders?stale"),
        ("PUT", "/v1/elections/db/campaign"),
    ] {
        let reply = node.call(method, target).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        let shown = reply.json()["note"].as_str().unwrap_or_default().to_owned();
        assert!(shown.contains("of its own, not a call for"), "{target}: {reply:?}");
    }
    assert!(node.call("GET", "/v1/locks/orders").await.json().get("note").is_none());
    let list = node.call("POST", "/v1/locks?name=o1,o2").await.json();
    assert!(list["note"].as_str().unwrap().ends_with("name=o1&name=o2"), "{list}");
    let body = r#"{"session":"c9","value":"me"}"#;
    let problem = node.call_json("PUT", "/v1/elections/e", body).await;
    let problem = problem.problem(400, "invalid-argument");
    assert!(problem["hint"].as_str().unwrap().contains("?session=ID&value=TEXT"), "{problem}");
    let text = [("Content-Type", "text/plain")];
    let led = crate::client::call_with(node.address, "PUT", "/v1/elections/e", &text, body).await;
    assert_eq!(led.json()["value"], body);
}

#[tokio::test]
async fn a_parameter_given_twice_or_without_a_value_is_rejected() {
    let node = Node::start().await;
    for query in ["session=a&session=b", "session=", "session", "label.a=1&label.a=1", "label.a="] {
        let problem = node.call("PUT", &format!("/v1/locks/a?{query}")).await;
        problem.problem(400, "invalid-argument");
    }
    assert_eq!(node.call("GET", "/v1/locks/a").await.json()["held"], false);
}

/// Many users first try POST to acquire a lock.
#[tokio::test]
async fn a_post_to_a_lock_and_an_empty_policy_change_are_rejected_with_the_right_call() {
    let node = Node::holding("/v1/locks/held?session=me").await;
    for (method, query) in [("POST", ""), ("POST", "?session=me&ttl=30s&wait=1s"), ("PATCH", "")] {
        let reply = node.call(method, &format!("/v1/locks/held{query}")).await;
        let hint = reply.problem(405, "method-not-allowed")["hint"].clone();
        assert!(
            hint.as_str().unwrap().starts_with("PUT acquires the lock"),
            "{method} {query}: {hint}"
        );
    }
    for query in ["", "?redirect", "?session=me"] {
        let reply = node.call("PATCH", &format!("/v1/policies/held{query}")).await;
        reply.problem(400, "invalid-argument");
    }
    node.call_json("PATCH", "/v1/policies/held", "{}").await.problem(400, "invalid-argument");
    let holders = node.call("GET", "/v1/locks/held").await.json()["holders"].clone();
    assert!(holders[0].get("release_request").is_none(), "{holders}");
    let asked = node.call_json("POST", "/v1/release-requests/held", r#"{"deadline":"5s"}"#).await;
    assert_eq!(asked.json()["asked"], 1);
}

#[tokio::test]
async fn a_parameter_of_another_call_is_rejected_by_name() {
    let node = Node::start().await;
    let problem = node.call("DELETE", "/v1/locks/a?session=me&limit=1").await;
    assert_eq!(problem.problem(400, "invalid-argument")["parameter"], "limit");
}

#[tokio::test]
async fn an_unsupported_method_is_rejected_with_the_allowed_methods() {
    let node = Node::start().await;
    for (method, target, allowed) in [
        ("PATCH", "/v1/sessions/a", "PUT,GET,HEAD,DELETE"),
        ("PUT", "/v1/locks", "POST,GET,HEAD,DELETE"),
        ("POST", "/v1/cluster", "GET,HEAD"),
        ("PUT", "/v1/cluster", "GET,HEAD"),
        ("DELETE", "/readyz", "GET,HEAD"),
        ("GET", "/v1/sessions/a/keepalive", "POST"),
        ("DELETE", "/v1/sessions", "POST,GET,HEAD"),
    ] {
        let reply = node.call(method, target).await;
        reply.problem(405, "method-not-allowed");
        let mut found: Vec<&str> = reply.header("allow").unwrap().split(',').collect();
        let mut wanted: Vec<&str> = allowed.split(',').collect();
        found.sort_unstable();
        wanted.sort_unstable();
        assert_eq!(found, wanted, "{method} {target}");
    }
}

#[tokio::test]
async fn an_unknown_path_is_rejected_with_the_nearest_route() {
    let node = Node::start().await;
    for (target, near) in [
        ("/v1/lock/orders", "/v1/locks/{name}"),
        ("/locks/orders", "/v1/locks/{name}"),
        ("/v1/clusters", "/v1/cluster"),
        ("/v1/cluster/", "/v1/cluster"),
        ("/health/ready", ""),
        ("/healthz", "/readyz"),
        ("/health", "/readyz"),
    ] {
        let problem = node.call("GET", target).await.problem(404, "not-found");
        let found = problem["nearest"].as_str().unwrap_or_default();
        assert!(near.is_empty() || found.starts_with(near), "{target}: {problem}");
    }
    for code in ["lock-bussy", "nosuch", "%zz", ""] {
        let problem = node.call("GET", &format!("/errors/{code}")).await.problem(404, "not-found");
        assert_eq!(problem["hint"], "GET /docs lists all error codes");
    }
    let root = node.call("GET", "/").await;
    assert_eq!((root.status, root.header("location")), (307, Some("/docs")));
}

/// A caller would send an invented value.
#[tokio::test]
async fn a_missing_value_that_only_the_cluster_knows_has_a_hint_where_to_read_it() {
    let node = Node::start().await;
    for (method, target, words) in [
        ("DELETE", "/v1/cluster/seal", "GET /v1/cluster shows the seal"),
        ("POST", "/v1/cluster/level", "GET /v1/cluster shows the present level"),
        ("POST", "/v1/auth/bootstrap", "holdfast auth bootstrap"),
    ] {
        let problem = node.call(method, target).await.problem(400, "invalid-argument");
        assert!(problem["hint"].as_str().unwrap().contains(words), "{target}: {problem}");
    }
}

/// `Reply::problem` checks that there is a hint.
#[tokio::test]
async fn every_rejected_parameter_has_a_hint() {
    let node = Node::start().await;
    for (method, target, code) in [
        ("GET", "/v1/locks?prefix=%ff", "invalid-argument"),
        ("GET", "/v1/locks?prefix=%zz", "invalid-argument"),
        ("PUT", "/v1/locks/a?session=a%20b", "bad-name"),
        ("PUT", "/v1/locks/a?session=a&owner=a/b", "bad-name"),
        ("PUT", "/v1/locks/a?label.k=a%00", "bad-name"),
        ("POST", "/v1/members?peer=1&http=h:1&zookeeper=h:2", "invalid-argument"),
        ("GET", "/v1/tree-quotas?page_token=a", "bad-name"),
        ("PATCH", "/v1/members/1", "invalid-argument"),
    ] {
        node.call(method, target).await.problem(400, code);
    }
}

#[tokio::test]
async fn a_release_without_a_session_is_rejected() {
    let node = Node::start().await;
    let problem = node.call("DELETE", "/v1/locks/a").await.problem(400, "invalid-argument");
    assert_eq!(problem["parameter"], "session");
}

#[tokio::test]
async fn an_invalid_token_fence_mode_or_limit_is_rejected() {
    let node = Node::start().await;
    for query in ["", "?token=x", "?token=-1", "?token=9007199254740992", "?token=1&mode=odd"] {
        let problem = node.call("GET", &format!("/v1/fence/a{query}")).await;
        problem.problem(400, "invalid-argument");
    }
    for query in ["limit=0", "limit=1001", "limit=x"] {
        node.call("GET", &format!("/v1/locks?{query}")).await.problem(400, "invalid-argument");
    }
}
