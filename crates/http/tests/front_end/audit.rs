//! The audit trail: its records on every node, filters, pages, and the wait for the next record.

use std::collections::BTreeMap;

use holdfast_api::AuditBody;
use holdfast_types::{AuditClass, AuditHash};
use serde_json::Value;

use crate::authorization::{Tokens, as_token, guard, new_token};
use crate::client::Reply;
use crate::node::Node;

async fn records(node: &Node, token: &str, query: &str) -> Vec<Value> {
    let reply = as_token(node, token, "GET", &format!("/v1/audit{query}"), "").await;
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.json()["records"].as_array().unwrap().clone()
}

/// Breaks a lock that `ci` holds.
async fn break_lock(node: &Node, tokens: &Tokens, lock: &str) {
    let acquire = format!("/v1/locks/{lock}?session=ci-1");
    assert_eq!(as_token(node, &tokens.ci, "PUT", &acquire, "").await.status, 200);
    let force = format!("/v1/force-releases/{lock}?reason=stuck%20since%20noon");
    let broken = as_token(node, &tokens.admin, "POST", &force, "").await;
    assert_eq!(broken.status, 200, "{broken:?}");
}

#[tokio::test]
async fn every_node_has_who_broke_which_lock_and_why() {
    let nodes = Node::cluster().await;
    let tokens = guard(&nodes[0]).await;
    break_lock(&nodes[1], &tokens, "deploy/eu").await;
    let all = records(&nodes[0], &tokens.admin, "").await;
    for node in &nodes {
        assert_eq!(records(node, &tokens.admin, "").await, all);
    }
    let broken = all.last().unwrap();
    let text = |field: &str| broken[field].as_str().unwrap().to_owned();
    let shown = ["subject", "credential", "action", "target", "detail", "reason"].map(text);
    assert_eq!(
        shown,
        [
            "admin",
            "access-token",
            "force-release",
            "deploy/eu",
            "@ci:ci-1 lost deploy/eu (token 1)",
            "stuck since noon"
        ]
    );
    let actions: Vec<_> = all.iter().map(|record| record["action"].as_str().unwrap()).collect();
    let expected =
        ["add-administrator", "set-role", "set-subject", "add-access-token", "force-release"];
    assert_eq!(actions, expected);
    assert!(!nodes[0].call("GET", "/v1/audit").await.body.contains("records"));
}

#[tokio::test]
async fn records_are_filtered_and_read_in_pages() {
    let node = Node::start().await;
    let tokens = guard(&node).await;
    for lock in ["deploy/a", "deploy/b"] {
        break_lock(&node, &tokens, lock).await;
    }
    let numbers = async |query: &str| -> Vec<u64> {
        let found = records(&node, &tokens.admin, query).await;
        found.iter().map(|record| record["number"].as_u64().unwrap()).collect()
    };
    assert_eq!(numbers("").await, [1, 2, 3, 4, 5, 6]);
    assert_eq!(numbers("?after=4").await, [5, 6]);
    assert_eq!(numbers("?after=99").await, [0; 0]);
    assert_eq!(numbers("?action=force-release").await, [5, 6]);
    assert_eq!(numbers("?target=deploy/b").await, [6]);
    assert_eq!(numbers("?subject=admin&limit=2&after=1").await, [2, 3]);
    assert_eq!(numbers("?subject=ci").await, [0; 0]);
    let page = as_token(&node, &tokens.admin, "GET", "/v1/audit?limit=2", "").await.json();
    let facts = ["next_after", "oldest", "newest"].map(|field| page[field].as_u64().unwrap());
    assert_eq!(facts, [2, 1, 6]);
    // The other records up to the newest one do not match.
    let target = "/v1/audit?target=deploy/a&limit=2";
    let page = as_token(&node, &tokens.admin, "GET", target, "").await.json();
    assert_eq!(page["next_after"], 6);
    for bad in ["action=steal", "after=-1", "limit=0", "wait=1h", "subject=a%20b"] {
        let target = format!("/v1/audit?{bad}");
        let reply = as_token(&node, &tokens.admin, "GET", &target, "").await;
        assert_eq!(reply.status, 400, "{bad}: {reply:?}");
    }
}

#[tokio::test]
async fn a_call_waits_for_the_next_record_that_matches() {
    let nodes = Node::cluster().await;
    let tokens = guard(&nodes[0]).await;
    let target = "/v1/audit?after=4&wait=60s&action=force-release";
    let waiting = as_token(&nodes[1], &tokens.admin, "GET", target, "");
    let change = async {
        let is_waiting = |reply: &Reply| reply.body.contains("parked_calls 1\n");
        nodes[1].until_as("a waiting call", "/metrics", &tokens.admin, is_waiting).await;
        let set = as_token(&nodes[0], &tokens.admin, "PATCH", "/v1/auth?mode=on", "").await;
        assert_eq!(set.status, 204);
        break_lock(&nodes[0], &tokens, "deploy/eu").await;
    };
    let (reply, ()) = tokio::join!(waiting, change);
    assert_eq!(reply.json()["records"][0]["number"], 6, "{reply:?}");
    let empty = as_token(&nodes[1], &tokens.admin, "GET", "/v1/audit?after=6&wait=50ms", "").await;
    assert_eq!((empty.status, &empty.json()["next_after"]), (200, &Value::from(6)));
}

#[tokio::test]
async fn a_forced_close_keeps_the_lock_delay_and_leaves_a_record() {
    let node = Node::start().await;
    let tokens = guard(&node).await;
    let policy = as_token(&node, &tokens.admin, "PATCH", "/v1/policies/deploy/a?lock_delay=1m", "");
    assert_eq!(policy.await.status, 200);
    let acquire = "/v1/locks/deploy/a?session=ci-1";
    assert_eq!(as_token(&node, &tokens.ci, "PUT", acquire, "").await.status, 200);
    let close = "/v1/sessions/@ci:ci-1?force&reason=laptop%20lost";
    assert_eq!(as_token(&node, &tokens.admin, "DELETE", close, "").await.status, 204);
    let other = "/v1/locks/deploy/a?session=ci-2";
    as_token(&node, &tokens.ci, "PUT", other, "").await.problem(423, "lock-in-cooldown");
    let closed = records(&node, &tokens.admin, "?action=close-session").await;
    let text = |field: &str| closed[0][field].as_str().unwrap();
    assert_eq!((text("target"), text("reason")), ("@ci:ci-1", "laptop lost"));
    assert_eq!(text("detail"), "@ci:ci-1 lost deploy/a (token 1)");
    as_token(&node, &tokens.admin, "DELETE", close, "").await.problem(410, "session-expired");
}

/// The deletion is answered as at first, and closes nothing that came later.
#[tokio::test]
async fn a_late_copy_of_a_deletion_closes_no_session_of_a_subject_that_was_created_again() {
    let node = Node::start().await;
    let tokens = guard(&node).await;
    let admin = async |method, target: &str, body| {
        as_token(&node, &tokens.admin, method, target, body).await
    };
    assert_eq!(admin("PUT", "/v1/sessions/adm", "").await.status, 201);
    let acquire = "/v1/locks/deploy/a?session=ci-1";
    assert_eq!(as_token(&node, &tokens.ci, "PUT", acquire, "").await.status, 200);
    let delete = "/v1/auth/subjects/ci?sessions&session=adm&request=5";
    let deleted = admin("DELETE", delete, "").await;
    assert_eq!((deleted.status, &deleted.json()["closed_sessions"]), (200, &Value::from(1)));

    let created = admin("PUT", "/v1/auth/subjects/ci?role=deploy", "").await;
    assert!(created.status < 300, "{created:?}");
    let issued = admin("POST", "/v1/auth/tokens?subject=ci", "").await.json();
    let token = issued["token"].as_str().unwrap();
    let again = "/v1/locks/deploy/b?session=ci-2";
    assert_eq!(as_token(&node, token, "PUT", again, "").await.status, 200);
    let copy = admin("DELETE", delete, "").await;
    assert_eq!((copy.status, &copy.json()["closed_sessions"]), (200, &Value::from(0)));
    let lock = admin("GET", "/v1/locks/deploy/b", "").await.json();
    assert_eq!(lock["held"], true);
}

#[tokio::test]
async fn a_deleted_token_closes_the_sessions_of_its_subject_in_one_record() {
    let node = Node::start().await;
    let tokens = guard(&node).await;
    for session in ["ci-1", "ci-2"] {
        let acquire = format!("/v1/locks/deploy/{session}?session={session}");
        assert_eq!(as_token(&node, &tokens.ci, "PUT", &acquire, "").await.status, 200);
    }
    let own = "/v1/locks/mine?session=admin";
    assert_eq!(as_token(&node, &tokens.admin, "PUT", own, "").await.status, 200);
    let delete = format!("/v1/auth/tokens/{}?sessions", tokens.ci_id);
    let deleted = as_token(&node, &tokens.admin, "DELETE", &delete, "").await;
    assert_eq!((deleted.status, &deleted.json()["closed_sessions"]), (200, &Value::from(2)));
    let closed = records(&node, &tokens.admin, "?after=4").await;
    let actions: Vec<_> = closed.iter().map(|record| record["action"].as_str().unwrap()).collect();
    assert_eq!(actions, ["close-sessions", "delete-access-token"]);
    let shown = ["class", "target", "detail", "reason"].map(|field| closed[0][field].as_str());
    let detail = "2 sessions, session @ci:ci-1, session @ci:ci-2, @ci:ci-1 lost deploy/ci-1 (token 1), \
        @ci:ci-2 lost deploy/ci-2 (token 2)";
    assert_eq!(shown, ["operation", "ci", detail, "the access was revoked"].map(Some));
    let sessions = as_token(&node, &tokens.admin, "GET", "/v1/sessions", "").await.json();
    assert_eq!(sessions["sessions"].as_array().unwrap().len(), 1, "{sessions}");
}

/// A permission for data is none for locks.
#[tokio::test]
async fn a_deleted_queue_entry_needs_the_right_of_its_lock_and_leaves_a_record() {
    let node = Node::start().await;
    let tokens = guard(&node).await;
    let role = r#"{"permission":["tree write *"]}"#;
    for (target, body) in [("/v1/auth/roles/data", role), ("/v1/auth/subjects/data?role=data", "")]
    {
        assert!(as_token(&node, &tokens.admin, "PUT", target, body).await.status < 300);
    }
    let (data, _) = new_token(&node, &tokens.admin, "data", "").await;
    let acquire = "/v1/locks/deploy/a?session=ci-1";
    assert_eq!(as_token(&node, &tokens.ci, "PUT", acquire, "").await.status, 200);
    let txn = r#"{"then":[{"delete":"/locks/deploy","recursive":true}]}"#;
    for (method, target, body) in [
        ("DELETE", "/v1/tree/locks/deploy/a?recursive", ""),
        ("DELETE", "/v1/tree/locks/deploy?recursive", ""),
        ("POST", "/v1/txn", txn),
    ] {
        let refused = as_token(&node, &data, method, target, body).await;
        assert_eq!(refused.problem(403, "forbidden")["needed"], "lock force-release deploy/a");
    }
    assert_eq!(records(&node, &tokens.admin, "?action=force-release").await.len(), 0);
    let delete = "/v1/tree/locks/deploy/a?recursive";
    assert_eq!(as_token(&node, &tokens.admin, "DELETE", delete, "").await.status, 204);
    let broken = records(&node, &tokens.admin, "?action=force-release").await;
    let shown = ["subject", "target", "detail"].map(|field| broken[0][field].as_str().unwrap());
    assert_eq!(shown, ["admin", "deploy/a", "@ci:ci-1 lost deploy/a (token 1)"]);
}

#[tokio::test]
async fn backups_transfers_and_changes_of_the_log_leave_a_record() {
    let nodes = Node::cluster().await;
    let tokens = guard(&nodes[0]).await;
    for (method, target, status) in [
        ("GET", "/v1/cluster/backup", 200),
        ("PATCH", "/v1/node?log=debug&for=5m", 200),
        ("POST", "/v1/cluster/transfer", 200),
    ] {
        let refused = as_token(&nodes[0], &tokens.ci, method, target, "").await;
        assert_eq!(refused.status, 403, "{target}: {refused:?}");
        let done = as_token(&nodes[0], &tokens.admin, method, target, "").await;
        assert_eq!(done.status, status, "{target}: {}", done.status);
    }
    let lines: Vec<_> = records(&nodes[1], &tokens.admin, "?after=4")
        .await
        .iter()
        .map(|record| {
            ["subject", "class", "action"].map(|field| record[field].as_str().unwrap().to_owned())
        })
        .collect();
    let of = |action: &str| ["admin", "operation", action].map(str::to_owned);
    assert_eq!(lines, ["backup", "set-node-log", "transfer-leadership"].map(of));
}

/// The names of a caller's own sessions are shortened in other replies.
#[tokio::test]
async fn a_reader_can_check_the_hashes_of_records_about_its_own_session() {
    let node = Node::start().await;
    let Tokens { admin, .. } = guard(&node).await;
    for (method, target) in [
        ("PUT", "/v1/locks/x?session=adm"),
        ("POST", "/v1/force-releases/x?reason=test"),
        ("PUT", "/v1/locks/y?session=adm"),
        ("DELETE", "/v1/sessions/adm?force&reason=test"),
    ] {
        let done = as_token(&node, &admin, method, target, "").await;
        assert!(done.status < 300, "{method} {target}: {done:?}");
    }
    let reply = as_token(&node, &admin, "GET", "/v1/audit", "").await;
    let body: AuditBody = serde_json::from_str(&reply.body).unwrap();
    assert!(reply.body.contains("@admin:adm"), "{reply:?}");
    let mut newest: BTreeMap<AuditClass, AuditHash> = BTreeMap::new();
    for record in body.records {
        let before = newest.insert(record.action.class(), record.hash).unwrap_or_default();
        let hash = record.clone().record().map(|record| record.hash_after(before));
        assert_eq!(hash, Some(record.hash), "{record:?}");
    }
}
