//! Authorization: every call with every kind of credential, sessions of subjects, and credentials that end during a call.
//! [`needs`] reads what each call declares; [`verdict`] has the rules.

use std::time::Duration;

use holdfast_http::HttpConfig;
use holdfast_service::{Failure, ServiceConfig};
use holdfast_types::{AuthRejection, CertificateName, Rejection, Right};
use serde_json::Value;

use crate::client::{Reply, call_with};
use crate::described::operations;
use crate::node::Node;
use crate::stream::Events;

/// Access tokens of a cluster in the mode `on`.
pub(crate) struct Tokens {
    pub(crate) admin: String,
    /// May acquire `deploy/*` and read `/cfg/*`.
    pub(crate) ci: String,
    pub(crate) ci_id: String,
}

pub(crate) async fn as_token(
    node: &Node,
    token: &str,
    method: &str,
    target: &str,
    body: &str,
) -> Reply {
    let header = format!("Bearer {token}");
    call_with(node.address, method, target, &[("Authorization", &header)], body).await
}

/// Adds an administrator and a subject with one role.
pub(crate) async fn guard(node: &Node) -> Tokens {
    let added = node.bootstrap("&mode=on").await;
    assert_eq!(added.status, 201, "{added:?}");
    let admin = added.json()["token"].as_str().unwrap().to_owned();
    let role = r#"{"permission":["lock acquire deploy/*","tree read /cfg/*","tree write /app/*"]}"#;
    for (method, target, body) in [
        ("PUT", "/v1/auth/roles/deploy", role),
        ("PUT", "/v1/auth/subjects/ci?role=deploy", ""),
        ("PUT", "/v1/tree/app", ""),
        ("PUT", "/v1/tree/cfg", ""),
    ] {
        let reply = as_token(node, &admin, method, target, body).await;
        assert!(reply.status < 300, "{target}: {reply:?}");
    }
    let (ci, ci_id) = new_token(node, &admin, "ci", "").await;
    Tokens { admin, ci, ci_id }
}

/// What callers have written: the znodes, the number of audited changes, and the open sessions. The revision also grows by
/// records that a node writes about itself.
pub(crate) async fn written(node: &Node, admin: &str) -> [String; 3] {
    let watch = as_token(node, admin, "GET", "/v1/watch?prefix=/&since=0&wait=0s", "").await;
    let audit = as_token(node, admin, "GET", "/v1/audit?limit=1", "").await.json();
    let sessions = as_token(node, admin, "GET", "/v1/sessions", "").await.json();
    let names = sessions["sessions"].as_array().unwrap().iter().map(|one| &one["session"]);
    let names: Vec<_> = names.collect();
    assert_eq!(watch.status, 200, "{watch:?}");
    [watch.json()["events"].to_string(), audit["newest"].to_string(), format!("{names:?}")]
}

pub(crate) async fn new_token(
    node: &Node,
    admin: &str,
    subject: &str,
    more: &str,
) -> (String, String) {
    let target = format!("/v1/auth/tokens?subject={subject}{more}");
    let issued = as_token(node, admin, "POST", &target, "").await;
    assert_eq!(issued.status, 201, "{issued:?}");
    let text = |field: &str| issued.json()[field].as_str().unwrap().to_owned();
    (text("token"), text("id"))
}

async fn delete_token(node: &Node, admin: &str, id: &str) {
    let target = format!("/v1/auth/tokens/{id}");
    let deleted = as_token(node, admin, "DELETE", &target, "").await;
    assert_eq!(deleted.status, 200, "{deleted:?}");
}

/// The method, the target and the body of an operation's example.
pub(crate) fn example(operation: &'static Value) -> (String, String, String) {
    let line = operation["x-codeSamples"][0]["source"].as_str().unwrap();
    let method = line.split_once(" -X ").map_or("GET", |(_, rest)| rest.split(' ').next().unwrap());
    let target = line.split_once("localhost:7400").unwrap().1.split('\'').next().unwrap();
    let body = line.split_once(" -d '").map_or("", |(_, body)| body.trim_end_matches('\''));
    (method.to_owned(), target.to_owned(), body.to_owned())
}

/// What a caller needs for an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    /// Nothing, and its credential is not read.
    Nothing,
    /// Nothing, but a wrong credential is refused.
    ValidCredential,
    /// A credential of any subject: the call is about the caller's own sessions, or shows only what it may read.
    AnySubject,
    /// The permission `session open`, which subjects of every namespace can have.
    OpensSession,
    Permission,
}

/// What the operation declares.
pub(crate) fn needs(operation: &Value) -> Needs {
    let access = &operation["x-access"];
    match (access["kind"].as_str().unwrap(), access["rights"][0].as_str()) {
        ("public", None) => Needs::Nothing,
        ("anyone" | "owner-proof", None) => Needs::ValidCredential,
        ("subject", None) => Needs::AnySubject,
        ("permission", Some("session open")) => Needs::OpensSession,
        ("permission" | "own-or-permission", Some(_)) => Needs::Permission,
        (kind, right) => panic!("{kind} {right:?}"),
    }
}

/// A kind of credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Given {
    No,
    /// No valid access token, for one of several reasons.
    Wrong,
    Expired,
    /// Valid, without any permission.
    WithoutRole,
    /// Valid, with every permission, in a namespace to which nothing in the examples belongs.
    OtherNamespace,
}

/// The error code, or `None` for a call that authorization does not refuse.
fn verdict(needs: Needs, given: Given) -> Option<&'static str> {
    match (needs, given) {
        (Needs::Nothing, _)
        | (Needs::ValidCredential, Given::No | Given::WithoutRole | Given::OtherNamespace)
        | (Needs::AnySubject, Given::WithoutRole | Given::OtherNamespace)
        | (Needs::OpensSession, Given::OtherNamespace) => None,
        (_, Given::Wrong | Given::No) => Some("unauthenticated"),
        (_, Given::Expired) => Some("token-expired"),
        (Needs::OpensSession, Given::WithoutRole)
        | (Needs::Permission, Given::WithoutRole | Given::OtherNamespace) => Some("forbidden"),
    }
}

/// The access token of the administrator of a new namespace.
async fn administrator_of_namespace(node: &Node, admin: &str) -> String {
    for (target, body) in
        [("/v1/namespaces/away", ""), ("/v1/auth/subjects/away/root", r#"{"role":["admin"]}"#)]
    {
        let set = as_token(node, admin, "PUT", target, body).await;
        assert_eq!(set.status, 204, "{set:?}");
    }
    new_token(node, admin, "away/root", "").await.0
}

/// The error code of a call that authorization refused. A wrong proof is forbidden too, but by no missing permission.
fn refusal(reply: &Reply) -> Option<String> {
    let problem = (reply.status >= 400).then(|| reply.json())?;
    // The reply of a node that is not ready has no code.
    let code = problem["code"].as_str()?;
    let is_refusal = match code {
        "unauthenticated" | "token-expired" => true,
        "forbidden" => problem["needed"].is_string(),
        _ => false,
    };
    is_refusal.then(|| code.to_owned())
}

/// True if the reply is no refusal, or one that names a right that the operation declares.
fn names_declared_right(operation: &Value, reply: &Reply) -> bool {
    if refusal(reply).is_none() {
        return true;
    }
    let problem = reply.json();
    let needed = problem["needed"].as_str().unwrap();
    let mut rights = operation["x-access"]["rights"].as_array().unwrap().iter();
    rights.any(|right| needed.starts_with(right.as_str().unwrap()))
}

/// Every operation with every kind of credential, on the leader and on a follower. Refused calls change nothing.
#[tokio::test]
async fn every_call_is_refused_or_not_as_declared() {
    let nodes = Node::cluster().await;
    let leader = &nodes[0];
    let Tokens { admin, ci, ci_id } = guard(leader).await;
    let set = as_token(leader, &admin, "PUT", "/v1/auth/subjects/nobody", "").await;
    assert_eq!(set.status, 204, "{set:?}");
    let (without_role, _) = new_token(leader, &admin, "nobody", "").await;
    let (expired, _) = new_token(leader, &admin, "nobody", "&ttl=1s").await;
    delete_token(leader, &admin, &ci_id).await;
    let other_namespace = administrator_of_namespace(leader, &admin).await;
    let me = "/v1/auth/me";
    for node in &nodes {
        node.until_as("the token has expired", me, &expired, |reply| reply.status == 401).await;
    }
    // The secret of one token with the id of another has a valid checksum only by chance, so a whole token is unknown.
    let unknown = "hf_0000000000007_CQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkeio2AQ";
    let credentials = [
        (Given::No, None),
        (Given::Wrong, Some("abc".to_owned())),
        (Given::Wrong, Some(changed(&without_role, AccessTokenAt::CHECKSUM))),
        (Given::Wrong, Some(unknown.to_owned())),
        (Given::Wrong, Some(ci)),
        (Given::Expired, Some(expired)),
        (Given::WithoutRole, Some(without_role.clone())),
        (Given::OtherNamespace, Some(other_namespace)),
    ];
    let before = written(leader, &admin).await;
    let mut tried = 0;
    for node in &nodes[..2] {
        for (_, _, operation) in operations() {
            let id = operation["operationId"].as_str().unwrap();
            let (method, target, body) = example(operation);
            for (given, token) in &credentials {
                let expected = verdict(needs(operation), *given);
                if method != "GET" && expected.is_none() {
                    // A call that is not refused may change the state: below.
                    continue;
                }
                let reply = match token {
                    None => call_with(node.address, &method, &target, &[], &body).await,
                    Some(token) => as_token(node, token, &method, &target, &body).await,
                };
                let code = refusal(&reply);
                assert_eq!(code.as_deref(), expected, "{id} with {given:?}: {reply:?}");
                assert!(
                    *given != Given::WithoutRole || names_declared_right(operation, &reply),
                    "{id} declares another right: {reply:?}"
                );
                assert!(
                    !reply.body.contains(&without_role[17..40]),
                    "{id}: a secret in a response"
                );
                tried += 1;
            }
        }
    }
    assert!(tried > 800, "{tried}");
    assert_eq!(written(leader, &admin).await, before, "a refused call changed the state");
    for (_, _, operation) in operations().filter(|(method, ..)| *method != "get") {
        if verdict(needs(operation), Given::WithoutRole).is_none() {
            let (method, target, body) = example(operation);
            let reply = as_token(leader, &without_role, &method, &target, &body).await;
            assert_eq!(refusal(&reply), None, "{}: {reply:?}", operation["operationId"]);
        }
    }
    for (_, path, operation) in operations().filter(|(method, ..)| *method == "get") {
        let (method, target, body) = example(operation);
        let reply = as_token(&nodes[1], &admin, &method, &target, &body).await;
        assert!(![401, 403].contains(&reply.status), "{path}: {reply:?}");
    }
}

/// The token with another character at this place.
fn changed(token: &str, at: usize) -> String {
    let mut text = token.to_owned().into_bytes();
    text[at] = if text[at] == b'A' { b'B' } else { b'A' };
    String::from_utf8(text).unwrap()
}

struct AccessTokenAt;

impl AccessTokenAt {
    /// A character of the checksum.
    const CHECKSUM: usize = 62;
}

#[tokio::test]
async fn a_token_that_is_deleted_ends_a_wait_and_leaves_no_entry() {
    let nodes = Node::cluster().await;
    let tokens = guard(&nodes[0]).await;
    let held = "/v1/locks/deploy/a?session=admin";
    assert_eq!(as_token(&nodes[0], &tokens.admin, "PUT", held, "").await.status, 200);
    for session in ["&session=ci-1", ""] {
        let (token, id) = new_token(&nodes[0], &tokens.admin, "ci", "").await;
        let target = format!("/v1/locks/deploy/a?wait=60s&ttl=60s{session}");
        let waiting = as_token(&nodes[1], &token, "PUT", &target, "");
        let revoke = async {
            let read = "/v1/locks/deploy/a";
            let queued = |reply: &Reply| reply.json()["waiters"] == 1;
            nodes[0].until_as("a waiter", read, &tokens.admin, queued).await;
            let began = std::time::Instant::now();
            delete_token(&nodes[0], &tokens.admin, &id).await;
            began
        };
        let (refused, began) = tokio::join!(waiting, revoke);
        refused.problem(401, "unauthenticated");
        // The wait itself would take a minute.
        assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
        let left = |reply: &Reply| reply.json()["waiters"] == 0;
        nodes[0].until_as("no waiter", "/v1/locks/deploy/a", &tokens.admin, left).await;
    }
}

#[tokio::test]
async fn a_token_that_is_deleted_ends_a_stream() {
    let node = Node::start().await;
    let tokens = guard(&node).await;
    let headers = format!("Authorization: Bearer {}\r\n", tokens.ci);
    let mut events =
        Events::begin_with(node.address, "GET", "/v1/watch?prefix=/cfg/", &headers).await;
    events.expect("bookmark").await;
    delete_token(&node, &tokens.admin, &tokens.ci_id).await;
    assert_eq!(events.expect("denied").await["code"], "unauthenticated");
}

#[tokio::test]
async fn one_forbidden_part_refuses_the_whole_call() {
    let node = Node::start().await;
    let tokens = guard(&node).await;
    let Tokens { admin, ci, .. } = &tokens;
    let txn = r#"{"then":[{"create":"/app/a"},{"create":"/other"}]}"#;
    let refused = as_token(&node, ci, "POST", "/v1/txn", txn).await.problem(403, "forbidden");
    assert_eq!(refused["needed"], "tree write /other");
    let hidden =
        r#"{"if":[{"path":"/cfg/x","exists":true}],"then":[],"else":[{"create":"/other"}]}"#;
    as_token(&node, ci, "POST", "/v1/txn", hidden).await.problem(403, "forbidden");
    let both = "/v1/locks?name=deploy/a&name=orders&session=ci-1";
    let refused = as_token(&node, ci, "POST", both, "").await.problem(403, "forbidden");
    assert_eq!(refused["needed"], "lock acquire orders");
    as_token(&node, admin, "GET", "/v1/tree/app/a", "").await.problem(404, "not-found");
    let locks = as_token(&node, admin, "GET", "/v1/locks", "").await.json();
    assert_eq!(locks["locks"].as_array().unwrap().len(), 0, "{locks}");
}

#[tokio::test]
async fn lists_and_chains_show_only_what_the_caller_may_read() {
    let node = Node::start().await;
    let tokens = guard(&node).await;
    let Tokens { admin, ci, .. } = &tokens;
    for lock in ["deploy/a", "deploy/b", "secret/x"] {
        let target = format!("/v1/locks/{lock}?session=admin");
        assert_eq!(as_token(&node, admin, "PUT", &target, "").await.status, 200);
    }
    for target in ["/v1/locks?limit=2", "/v1/locks?sort=contention"] {
        let page = as_token(&node, ci, "GET", target, "").await;
        assert!(!page.body.contains("secret"), "{target}: {page:?}");
    }
    let page = as_token(&node, ci, "GET", "/v1/locks?limit=2", "").await.json();
    assert_eq!(page["locks"].as_array().unwrap().len(), 2, "{page}");
    let made = as_token(&node, admin, "PUT", "/v1/latches/secret?count=1", "").await;
    assert_eq!(made.status, 201, "{made:?}");
    let recipes = as_token(&node, ci, "GET", "/v1/recipes", "").await;
    assert!(recipes.status == 200 && !recipes.body.contains("secret"), "{recipes:?}");
    let sessions = as_token(&node, ci, "GET", "/v1/sessions", "").await.json();
    assert_eq!(sessions["sessions"].as_array().unwrap().len(), 0, "{sessions}");
    for target in ["/v1/locks/secret/x", "/v1/history/secret/x", "/v1/watch?prefix=/&wait=0s"] {
        as_token(&node, ci, "GET", target, "").await.problem(403, "forbidden");
    }
}

#[tokio::test]
async fn the_mode_shadow_executes_and_lists_what_on_would_refuse() {
    let node = Node::start().await;
    let tokens = guard(&node).await;
    let Tokens { admin, ci, .. } = &tokens;
    let set = as_token(&node, admin, "PATCH", "/v1/auth?mode=shadow", "").await;
    assert_eq!(set.status, 204, "{set:?}");
    let acquire = "/v1/locks/orders?session=ci-1";
    for _ in 0..2 {
        assert_eq!(as_token(&node, ci, "PUT", acquire, "").await.status, 200);
    }
    assert_eq!(node.call("GET", "/v1/counters/hits").await.status, 200);
    // A wrong credential is refused in every mode, and so are changes of the authorization.
    let unknown = "hf_0000000000007_CQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkeio2AQ";
    as_token(&node, unknown, "GET", "/v1/locks", "").await.problem(401, "unauthenticated");
    as_token(&node, "abc", "GET", "/v1/locks", "").await.problem(401, "unauthenticated");
    let takes = "/v1/auth/subjects/ci?role=admin";
    as_token(&node, ci, "PUT", takes, "").await.problem(403, "forbidden");
    let status = as_token(&node, admin, "GET", "/v1/auth", "").await.json();
    let listed = |why: &str| {
        let mut refusals = status["refusals"].as_array().unwrap().iter();
        refusals.find(|refusal| refusal["why"] == why).map(|refusal| refusal["subject"].clone())
    };
    assert_eq!(listed("lock acquire orders"), Some("ci".into()), "{status}");
    assert_eq!(listed("no credential"), Some(Value::Null), "{status}");
    assert_eq!(listed("unknown access token"), Some(Value::Null), "{status}");
    assert_eq!(listed("auth manage"), Some("ci".into()), "{status}");
    let on = as_token(&node, admin, "PATCH", "/v1/auth?mode=on", "").await;
    assert_eq!(on.status, 204);
    as_token(&node, ci, "PUT", acquire, "").await.problem(403, "forbidden");
}

#[tokio::test]
async fn a_rotation_overlaps_and_then_only_the_new_token_works() {
    let node = Node::start().await;
    let tokens = guard(&node).await;
    let acquire = "/v1/locks/deploy/a?session=ci-1";
    assert_eq!(as_token(&node, &tokens.ci, "PUT", acquire, "").await.status, 200);
    let rotate = format!("/v1/auth/tokens/{}/rotate?grace=2s", tokens.ci_id);
    let rotated = as_token(&node, &tokens.admin, "POST", &rotate, "").await;
    assert_eq!(rotated.status, 201, "{rotated:?}");
    let new = rotated.json()["token"].as_str().unwrap().to_owned();
    // Both act for the same subject, so both renew the hold.
    for token in [&tokens.ci, &new] {
        let renewed = as_token(&node, token, "PUT", acquire, "").await.json();
        assert_eq!(renewed["token"], 1, "{renewed}");
    }
    let over = |reply: &Reply| reply.status == 401;
    node.until_as("the old token has expired", "/v1/auth/me", &tokens.ci, over).await;
    as_token(&node, &tokens.ci, "PUT", acquire, "").await.problem(401, "token-expired");
    assert_eq!(as_token(&node, &new, "PUT", acquire, "").await.status, 200);
}

/// A node that other machines can reach applies the mode `on` from its first call.
#[tokio::test]
async fn a_node_that_requires_authentication_refuses_everything_until_the_bootstrap() {
    let service = ServiceConfig { requires_authentication: true, ..ServiceConfig::default() };
    let node = Node::start_with(HttpConfig::default(), service).await;
    let refused = node.call("PUT", "/v1/locks/a?session=me").await.problem(401, "unauthenticated");
    assert!(refused["hint"].as_str().unwrap().contains("holdfast auth bootstrap"), "{refused}");
    let added = node.bootstrap("&mode=off").await;
    let admin = added.json()["token"].as_str().unwrap().to_owned();
    node.call("PUT", "/v1/locks/a?session=me").await.problem(401, "unauthenticated");
    assert_eq!(as_token(&node, &admin, "PUT", "/v1/locks/a?session=me", "").await.status, 200);
    node.call("POST", "/v1/auth/bootstrap?proof=used").await.problem(409, "has-administrator");
}

#[tokio::test]
async fn invalid_changes_of_the_authorization_name_the_fix() {
    let node = Node::start().await;
    let Tokens { admin, ci_id, .. } = guard(&node).await;
    let mut permissions: Vec<String> = (0..65).map(|n| format!("lock read l{n}")).collect();
    let many = serde_json::json!({ "permission": permissions }).to_string();
    permissions.truncate(64);
    for (method, target, body, status, words) in [
        ("PUT", "/v1/auth/roles/r?permission=lock%20own%20*", "", 400, "use read, acquire"),
        ("PUT", "/v1/auth/roles/r?permission=lock%20read%20*/x", "", 400, "neither a name"),
        ("PUT", "/v1/auth/roles/admin?permission=lock%20read%20*", "", 400, "defines the role"),
        ("PUT", "/v1/auth/roles/r", &many, 403, "permissions of one role: at most 64"),
        ("PUT", "/v1/auth/subjects/a%20b", "", 400, "white space"),
        ("PUT", "/v1/auth/subjects/x?role=none", "", 404, "holdfast auth role set none"),
        ("PUT", "/v1/auth/subjects/admin?role=viewer", "", 409, "no usable administrator"),
        ("DELETE", "/v1/auth/subjects/admin", "", 409, "no usable administrator"),
        ("DELETE", "/v1/auth/subjects/none", "", 404, "there is no subject"),
        ("DELETE", "/v1/auth/roles/none", "", 404, "there is no role"),
        ("DELETE", "/v1/auth/tokens/none", "", 400, "13 characters"),
        ("DELETE", "/v1/auth/tokens/0000000000000", "", 404, "there is no access token"),
        ("POST", "/v1/auth/tokens?subject=none", "", 404, "there is no subject"),
        ("POST", "/v1/auth/tokens?subject=ci&ttl=8761h", "", 400, "out of bounds"),
        ("PATCH", "/v1/auth?mode=maybe", "", 400, "off, shadow, on"),
        ("GET", "/v1/auth/can?permission=lock%20read%20*", "", 400, "needs one name"),
        ("POST", "/v1/auth/recover?proof=guess", "", 403, "holdfast auth recover"),
    ] {
        let refused = as_token(&node, &admin, method, target, body).await;
        assert_eq!(refused.status, status, "{target}: {refused:?}");
        assert!(refused.body.contains(words), "{target}: {refused:?}");
    }
    let tokens = as_token(&node, &admin, "GET", "/v1/auth/tokens", "").await;
    assert!(tokens.body.contains(&ci_id) && !tokens.body.contains("hf_"), "{tokens:?}");
}

#[tokio::test]
async fn an_administrator_repairs_a_znode_whose_access_list_allows_nobody() {
    let node = Node::start().await;
    let tokens = guard(&node).await;
    let Tokens { admin, ci, .. } = &tokens;
    let locked = "/v1/tree/app/locked?acl=ip:192.0.2.1:cdrwa";
    assert_eq!(as_token(&node, ci, "PUT", locked, "x").await.status, 201);
    let target = "/v1/tree/app/locked";
    for (method, body) in [("GET", ""), ("PUT", "y")] {
        as_token(&node, ci, method, target, body).await.problem(403, "forbidden");
    }
    assert_eq!(as_token(&node, admin, "GET", target, "").await.body, "x");
    assert_eq!(as_token(&node, admin, "DELETE", target, "").await.status, 204);
    // The permission has names as every other one.
    let role = r#"{"permission":["tree admin /app/locked"]}"#;
    assert!(as_token(&node, admin, "PUT", "/v1/auth/roles/fixer", role).await.status < 300);
    let subject = "/v1/auth/subjects/fixer?role=fixer";
    assert!(as_token(&node, admin, "PUT", subject, "").await.status < 300);
    let (fixer, _) = new_token(&node, admin, "fixer", "").await;
    for name in ["locked", "other"] {
        let create = format!("/v1/tree/app/{name}?acl=ip:192.0.2.1:cdrwa");
        assert_eq!(as_token(&node, ci, "PUT", &create, "x").await.status, 201);
    }
    assert_eq!(as_token(&node, &fixer, "PUT", target, "z").await.status, 200);
    let other = as_token(&node, &fixer, "GET", "/v1/tree/app/other", "").await;
    assert_eq!(other.problem(403, "forbidden")["needed"], "tree read /app/other");
}

/// The node had not applied the removal when it looked up the subject of the connection.
#[tokio::test]
async fn a_certificate_passes_no_check_after_its_removal() {
    let node = Node::start().await;
    let Tokens { admin, .. } = guard(&node).await;
    let set = async |query: &str| {
        let target = format!("/v1/auth/subjects/tls?role=deploy{query}");
        assert_eq!(as_token(&node, &admin, "PUT", &target, "").await.status, 204);
    };
    set("&certificate=CN=tls").await;
    let names = [CertificateName::new("CN=tls").unwrap()];
    let caller = node.service.for_principal(node.service.principal_of_certificate(&names));
    assert!(caller.admit_caller(&[Right::LockAcquire]).await.is_ok());
    set("").await;
    let refused = caller.admit_caller(&[Right::LockAcquire]).await;
    assert!(matches!(
        refused,
        Err(Failure::Rejected(Rejection::Auth(AuthRejection::NoCredential)))
    ));
}
