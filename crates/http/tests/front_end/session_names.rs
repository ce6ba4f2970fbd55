//! The names of sessions belong to the subjects that open them.

use serde_json::Value;

use crate::authorization::{Tokens, as_token, guard, new_token};
use crate::node::Node;

/// Adds a subject with the role `deploy`. Returns its access token.
async fn add_subject(node: &Node, admin: &str, subject: &str) -> String {
    let target = format!("/v1/auth/subjects/{subject}?role=deploy");
    assert_eq!(as_token(node, admin, "PUT", &target, "").await.status, 204, "{subject}");
    new_token(node, admin, subject, "").await.0
}

/// The names of all sessions that the caller may read.
async fn listed(node: &Node, token: &str) -> Vec<Value> {
    let list = as_token(node, token, "GET", "/v1/sessions", "").await.json();
    list["sessions"].as_array().unwrap().iter().map(|one| one["session"].clone()).collect()
}

/// S-M3: `web1` of one subject is another session than `web1` of another one.
#[tokio::test]
async fn two_subjects_use_one_name_for_two_sessions() {
    let node = Node::start().await;
    let Tokens { admin, ci, .. } = guard(&node).await;
    let web = add_subject(&node, &admin, "web").await;
    let nested = add_subject(&node, &admin, "ci/deploy").await;
    let all =
        [(&ci, "a", "@ci:web1"), (&web, "b", "@web:web1"), (&nested, "c", "@ci~1deploy:web1")];
    for (token, lock, _) in all {
        let acquire = format!("/v1/locks/deploy/{lock}?session=web1&attempt=1");
        let held = as_token(&node, token, "PUT", &acquire, "").await.json();
        assert_eq!(held["session"], "web1", "{held}");
        assert_eq!(listed(&node, token).await, ["web1"]);
    }
    for (_, lock, whole) in all {
        let lock = format!("/v1/locks/deploy/{lock}");
        assert_eq!(
            as_token(&node, &admin, "GET", &lock, "").await.json()["holders"][0]["session"],
            whole
        );
    }
    assert_eq!(listed(&node, &admin).await, ["@ci:web1", "@ci~1deploy:web1", "@web:web1"]);
    // One ends, and the others stay.
    assert_eq!(as_token(&node, &web, "DELETE", "/v1/sessions/web1", "").await.status, 204);
    let contended = "/v1/locks/deploy/a?session=web1&attempt=2";
    as_token(&node, &web, "PUT", contended, "").await.problem(423, "lock-busy");
    let held = as_token(&node, &ci, "GET", "/v1/sessions/web1", "").await.json();
    assert_eq!(held["holds"][0]["lock"], "deploy/a", "{held}");
    // An operator names each of them, also in an encoded path.
    let close = "/v1/sessions/%40ci%7E1deploy%3Aweb1?force&reason=x";
    assert_eq!(as_token(&node, &admin, "DELETE", close, "").await.status, 204);
    let ended = as_token(&node, &nested, "GET", "/v1/sessions/web1", "").await;
    ended.problem(410, "session-expired");
}

/// Every place of a name in a call completes it, and every place in a reply shortens it.
#[tokio::test]
async fn each_call_of_a_subject_completes_and_shortens_its_names() {
    let node = Node::start().await;
    let Tokens { admin, ci, .. } = guard(&node).await;
    let role = r#"{"permission":["lock durable *","lock request-release *","tree write *","recipe use *"]}"#;
    for (target, body) in [("/v1/auth/roles/all", role), ("/v1/auth/subjects/ci?role=all", "")] {
        assert_eq!(as_token(&node, &admin, "PUT", target, body).await.status, 204);
    }
    let txn = r#"{"if":[{"session":"web1","open":true}],"then":[{"create":"/e","ephemeral":true}],"session":"web1","request":"9"}"#;
    let multi = r#"{"name":["m1","m2"],"session":"web1","attempt":"2"}"#;
    for (method, target, body, status) in [
        ("PUT", "/v1/sessions/web1", "", 201),
        ("PUT", "/v1/sessions/@ci:web2", "", 201),
        ("PUT", "/v1/locks/a?session=web1&attempt=1", "", 200),
        ("POST", "/v1/locks", multi, 200),
        ("GET", "/v1/sessions/%40ci%3Aweb1", "", 200),
        ("GET", "/v1/locks?session=web1", "", 200),
        ("POST", "/v1/keepalive", r#"["web1","@ci:web2"]"#, 200),
        ("POST", "/v1/release-requests/a?session=web1&reason=x", "", 200),
        ("POST", "/v1/transfers/a?session=web1&to=web2", "", 200),
        ("PUT", "/v1/elections/e?session=web2&attempt=3", "", 200),
        ("PUT", "/v1/tree/f?ephemeral&session=web1&request=1", "", 201),
        ("POST", "/v1/txn", txn, 200),
        ("PUT", "/v1/latches/l?count=2&session=web1&request=10", "", 201),
        ("POST", "/v1/latches/l?key=k&session=web1&on_death=count", "", 200),
        ("PUT", "/v1/barriers/b?parties=1&session=web1&request=11", "", 200),
        ("GET", "/v1/locks/a", "", 200),
        ("DELETE", "/v1/locks?name=m1&name=m2&session=web1&attempt=2", "", 204),
        ("DELETE", "/v1/locks/a?session=web2", "", 204),
        ("DELETE", "/v1/elections/e?session=web2", "", 204),
    ] {
        let reply = as_token(&node, &ci, method, target, body).await;
        assert_eq!(reply.status, status, "{method} {target}: {reply:?}");
        assert!(!reply.body.contains("@ci:"), "{method} {target}: {reply:?}");
        assert!(!reply.body.contains("\"succeeded\":false"), "{reply:?}");
    }
    assert_eq!(listed(&node, &admin).await, ["@ci:web1", "@ci:web2"]);
    // A hold without a session of the caller, and a durable one.
    let anonymous = as_token(&node, &ci, "PUT", "/v1/locks/s", "").await.json();
    let release = format!("/v1/locks/s?session={}", anonymous["session"].as_str().unwrap());
    assert_eq!(as_token(&node, &ci, "DELETE", &release, "").await.status, 204);
    let durable = "/v1/locks/d?hold=durable&owner=anna";
    let held =
        as_token(&node, &ci, "PUT", &format!("{durable}&reason=x&attempt=1"), "").await.json();
    let shown = as_token(&node, &admin, "GET", "/v1/locks/d", "").await.json();
    assert_eq!(shown["holders"][0]["session"], "durable!@ci:anna", "{shown}");
    let shown = as_token(&node, &ci, "GET", "/v1/locks/d", "").await.json();
    assert_eq!(shown["holders"][0]["session"], "durable!anna", "{shown}");
    let release = format!("{durable}&token={}", held["token"]);
    assert_eq!(as_token(&node, &ci, "DELETE", &release, "").await.status, 204);
    assert_eq!(as_token(&node, &admin, "GET", "/v1/locks/d", "").await.json()["held"], false);
}

/// A client that opened its session before it had a credential keeps it, its holds, and the end of its late copies.
#[tokio::test]
async fn a_session_opened_without_a_credential_stays_when_the_mode_changes() {
    let node = Node::start().await;
    let acquire = "/v1/locks/deploy/a?session=web1&attempt=1";
    let token = node.call("PUT", acquire).await.json()["token"].clone();
    let durable = "/v1/locks/deploy/d?hold=durable&owner=anna";
    let held = node.call("PUT", &format!("{durable}&reason=x&attempt=1")).await.json();
    let Tokens { admin, ci, .. } = guard(&node).await;
    let web = add_subject(&node, &admin, "web").await;
    let again = as_token(&node, &ci, "PUT", acquire, "").await.json();
    assert_eq!((&again["token"], &again["renewed"]), (&token, &true.into()), "{again}");
    for (method, target, status) in [
        ("POST", "/v1/sessions/web1/keepalive", 200),
        ("DELETE", "/v1/locks/deploy/a?session=web1&attempt=1", 204),
        ("DELETE", "/v1/sessions/web1", 204),
        // The client repeats the call after a lost response.
        ("DELETE", "/v1/sessions/web1", 204),
    ] {
        let reply = as_token(&node, &ci, method, target, "").await;
        assert_eq!(reply.status, status, "{method} {target}: {reply:?}");
    }
    as_token(&node, &ci, "PUT", acquire, "").await.problem(409, "attempt-over");
    let release = format!("{durable}&token={}", held["token"]);
    assert_eq!(as_token(&node, &ci, "DELETE", &release, "").await.status, 204);
    assert_eq!(
        as_token(&node, &admin, "GET", "/v1/locks/deploy/d", "").await.json()["held"],
        false
    );
    // The next session of that name belongs to the subject that opens it.
    for token in [&ci, &web] {
        assert_eq!(as_token(&node, token, "PUT", "/v1/sessions/web1", "").await.status, 201);
    }
    assert_eq!(listed(&node, &admin).await, ["@web:web1", "web1"]);
    as_token(&node, &web, "DELETE", "/v1/sessions/web1", "").await;
    assert_eq!(as_token(&node, &ci, "GET", "/v1/sessions/web1", "").await.status, 200);
}

#[tokio::test]
async fn a_name_is_refused_if_its_whole_name_is_too_long() {
    let node = Node::start().await;
    let Tokens { admin, ci, .. } = guard(&node).await;
    let fits = "a".repeat(256 - "@ci:".len());
    let long = "a".repeat(256);
    for (method, target) in [
        ("PUT", "/v1/sessions/NAME"),
        ("PUT", "/v1/locks/deploy/a?session=NAME"),
        ("DELETE", "/v1/locks/deploy/a?session=NAME"),
        ("POST", "/v1/transfers/deploy/a?session=a&to=NAME"),
        ("PUT", "/v1/barriers/deploy?parties=1&session=NAME"),
        ("PUT", "/v1/tree/app/e?ephemeral&session=NAME"),
    ] {
        let refused = as_token(&node, &ci, method, &target.replace("NAME", &long), "").await;
        let problem = refused.problem(400, "bad-name");
        assert!(problem["detail"].as_str().unwrap().contains("260 bytes"), "{target}: {problem}");
    }
    assert_eq!(listed(&node, &admin).await, [Value::Null; 0]);
    let opened = as_token(&node, &ci, "PUT", &format!("/v1/sessions/{fits}"), "").await;
    assert_eq!((opened.status, opened.json()["session"].clone()), (201, fits.into()));
}
