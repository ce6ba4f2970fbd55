//! A late copy of each call that changes something: the call, then the client goes on, then the copy arrives. The copy
//! changes nothing that readers see. A write without a script fails the test.

use std::collections::BTreeSet;

use crate::client::{Reply, call_with};
use crate::described::operations;
use crate::node::Node;

/// How a late copy of one call is tested.
struct Script {
    operation: &'static str,
    /// Calls before, as `METHOD target`.
    before: &'static [&'static str],
    call: &'static str,
    /// What the client, or another one, does after the call.
    after: &'static [&'static str],
    /// The status of the copy.
    copy: u16,
}

const fn script(
    operation: &'static str,
    before: &'static [&'static str],
    call: &'static str,
    after: &'static [&'static str],
    copy: u16,
) -> Script {
    Script { operation, before, call, after, copy }
}

const ME: &str = "PUT /v1/sessions/me?ttl=5m";

const SCRIPTS: &[Script] = &[
    script(
        "acquireLock",
        &[],
        "PUT /v1/locks/a?session=me&attempt=1&ttl=5m",
        &["DELETE /v1/locks/a?session=me&attempt=1"],
        409,
    ),
    script(
        "acquireLocks",
        &[],
        "POST /v1/locks?name=a&name=b&session=me&attempt=1&ttl=5m",
        &["DELETE /v1/locks?name=a&name=b&session=me&attempt=1"],
        409,
    ),
    script(
        "campaign",
        &[],
        "PUT /v1/elections/e?session=me&attempt=1&ttl=5m",
        &["DELETE /v1/elections/e?session=me&attempt=1"],
        409,
    ),
    script(
        "releaseLock",
        &["PUT /v1/locks/a?session=me&attempt=1&ttl=5m"],
        "DELETE /v1/locks/a?session=me&attempt=1",
        &["PUT /v1/locks/a?session=me&attempt=2"],
        204,
    ),
    script(
        "releaseLocks",
        &["POST /v1/locks?name=a&name=b&session=me&attempt=1&ttl=5m"],
        "DELETE /v1/locks?name=a&name=b&session=me&attempt=1",
        &["POST /v1/locks?name=a&name=b&session=me&attempt=2"],
        204,
    ),
    script(
        "resign",
        &["PUT /v1/elections/e?session=me&attempt=1&ttl=5m"],
        "DELETE /v1/elections/e?session=me&attempt=1",
        &["PUT /v1/elections/e?session=me&attempt=2"],
        204,
    ),
    script(
        "transferLock",
        &["PUT /v1/locks/a?session=me&attempt=1&ttl=5m", "PUT /v1/sessions/you?ttl=5m"],
        "POST /v1/transfers/a?session=me&to=you&token=1",
        &["DELETE /v1/locks/a?session=you", "PUT /v1/locks/a?session=me&attempt=2"],
        200,
    ),
    script(
        "requestRelease",
        &["PUT /v1/locks/a?session=me&attempt=1&ttl=5m"],
        "POST /v1/release-requests/a?session=me&token=1&revoke&deadline=5m",
        &["DELETE /v1/locks/a?session=me", "PUT /v1/locks/a?session=me&attempt=2"],
        200,
    ),
    script(
        "forceRelease",
        &["PUT /v1/locks/a?session=me&attempt=1&ttl=5m"],
        "POST /v1/force-releases/a?reason=r&token=1",
        &["PUT /v1/locks/a?session=me&attempt=2"],
        200,
    ),
    script(
        "setPolicy",
        &[ME],
        "PATCH /v1/policies/a?limit=3&session=me&request=1",
        &["PATCH /v1/policies/a?limit=5"],
        200,
    ),
    script(
        "openSession",
        &[],
        "PUT /v1/sessions/me?ttl=4m&label.a=1&attempt=1",
        &["PUT /v1/sessions/me?ttl=5m&label.a=2&attempt=2"],
        200,
    ),
    script(
        "openSession",
        &[],
        "PUT /v1/sessions/me?ttl=4m&attempt=1",
        &["DELETE /v1/sessions/me"],
        409,
    ),
    script("createSession", &[], "POST /v1/sessions?ttl=4m", &[], 201),
    script("keepSessionAlive", &[ME], "POST /v1/sessions/me/keepalive", &[], 200),
    script("keepSessionsAlive", &[ME], r#"POST /v1/keepalive ["me"]"#, &[], 200),
    script("closeSession", &[ME], "DELETE /v1/sessions/me?incarnation=1", &[ME], 204),
    script(
        "putZnode",
        &[ME],
        "PUT /v1/tree/a?session=me&request=1 old",
        &["PUT /v1/tree/a new"],
        201,
    ),
    script(
        "createZnode",
        &[ME],
        "POST /v1/tree/?sequential&name=q-&session=me&request=1",
        &["DELETE /v1/tree/q-0000000000"],
        201,
    ),
    script(
        "deleteZnode",
        &[ME, "PUT /v1/tree/a"],
        "DELETE /v1/tree/a?session=me&request=1",
        &["PUT /v1/tree/a new"],
        204,
    ),
    script(
        "transact",
        &[ME],
        r#"POST /v1/txn {"session":"me","request":1,"then":[{"create":"/a","data":"old"}]}"#,
        &["DELETE /v1/tree/a"],
        200,
    ),
    script(
        "createLatch",
        &[ME],
        "PUT /v1/latches/l?count=2&session=me&request=1",
        &["DELETE /v1/latches/l"],
        201,
    ),
    script(
        "countDown",
        &[ME, "PUT /v1/latches/l?count=2"],
        "POST /v1/latches/l?key=k&session=me&request=1",
        &["DELETE /v1/latches/l", "PUT /v1/latches/l?count=2"],
        200,
    ),
    script(
        "deleteLatch",
        &[ME, "PUT /v1/latches/l?count=2"],
        "DELETE /v1/latches/l?session=me&request=1",
        &["PUT /v1/latches/l?count=2"],
        204,
    ),
    script(
        "arriveAtBarrier",
        &[ME],
        "PUT /v1/barriers/b?parties=1&session=me&request=1",
        &["PUT /v1/barriers/b?parties=1&session=me&request=2"],
        200,
    ),
    script(
        "leaveBarrier",
        &[ME],
        "DELETE /v1/barriers/b?session=me&generation=1",
        &["PUT /v1/barriers/b?parties=1&session=me&request=2"],
        204,
    ),
    script(
        "enterDoubleBarrier",
        &[ME],
        "PUT /v1/double-barriers/d?parties=1&session=me&request=1",
        &["DELETE /v1/double-barriers/d?session=me"],
        200,
    ),
    script(
        "leaveDoubleBarrier",
        &[ME, "PUT /v1/double-barriers/d?parties=1&session=me&request=1"],
        "DELETE /v1/double-barriers/d?session=me&generation={round}",
        &["PUT /v1/double-barriers/d?parties=1&session=me&request=2"],
        200,
    ),
    script(
        "addToCounter",
        &[ME],
        "POST /v1/counters/c?add=5&session=me&request=1",
        &["POST /v1/counters/c?add=1"],
        200,
    ),
    script(
        "setCounter",
        &[ME],
        "PUT /v1/counters/c?value=5&session=me&request=1",
        &["PUT /v1/counters/c?value=7"],
        200,
    ),
    script(
        "deleteCounter",
        &[ME],
        "DELETE /v1/counters/c?session=me&request=1",
        &["PUT /v1/counters/c?value=7"],
        204,
    ),
    script("bootstrapAuth", &[], "POST /v1/auth/bootstrap?mode=off&proof={proof}", &[], 409),
    // The proof is in a file of the node, which a wrong proof does not reach.
    script("recoverAuth", &[], "POST /v1/auth/recover?proof=x&subject=eva", &[], 403),
    script(
        "setAuthMode",
        &[ME],
        "PATCH /v1/auth?mode=shadow&session=me&request=1",
        &["PATCH /v1/auth?mode=off"],
        204,
    ),
    script(
        "setSubject",
        &[ME],
        "PUT /v1/auth/subjects/ci?role=viewer&session=me&request=1",
        &["PUT /v1/auth/subjects/ci?role=operator"],
        204,
    ),
    script(
        "deleteSubject",
        &[ME, "PUT /v1/auth/subjects/ci?role=viewer"],
        "DELETE /v1/auth/subjects/ci?session=me&request=1",
        &["PUT /v1/auth/subjects/ci?role=viewer"],
        200,
    ),
    script(
        "setQuotas",
        &[ME, "PUT /v1/auth/subjects/ci?role=viewer"],
        "PUT /v1/auth/quotas/ci?sessions=5&session=me&request=1",
        &["PUT /v1/auth/quotas/ci?sessions=7"],
        204,
    ),
    script(
        "setDefaultQuotas",
        &[ME],
        "PUT /v1/auth/quotas?sessions=5&session=me&request=1",
        &["PUT /v1/auth/quotas?sessions=7"],
        204,
    ),
    script(
        "setRole",
        &[ME],
        "PUT /v1/auth/roles/r?permission=lock+read+a&session=me&request=1",
        &["PUT /v1/auth/roles/r?permission=lock+read+b"],
        204,
    ),
    script(
        "deleteRole",
        &[ME, "PUT /v1/auth/roles/r?permission=lock+read+a"],
        "DELETE /v1/auth/roles/r?session=me&request=1",
        &["PUT /v1/auth/roles/r?permission=lock+read+a"],
        204,
    ),
    script(
        "createToken",
        &[ME, "PUT /v1/auth/subjects/ci?role=viewer"],
        "POST /v1/auth/tokens?subject=ci&session=me&request=1",
        &[],
        409,
    ),
    script(
        "rotateToken",
        &[ME, "PUT /v1/auth/subjects/ci?role=viewer", "POST /v1/auth/tokens?subject=ci"],
        "POST /v1/auth/tokens/{token}/rotate?session=me&request=1",
        &[],
        409,
    ),
    script(
        "deleteToken",
        &["PUT /v1/auth/subjects/ci?role=viewer", "POST /v1/auth/tokens?subject=ci"],
        "DELETE /v1/auth/tokens/{token}",
        &["POST /v1/auth/tokens?subject=ci"],
        404,
    ),
    script(
        "setNamespace",
        &[ME],
        "PUT /v1/namespaces/team?locks=5&session=me&request=1",
        &["PUT /v1/namespaces/team?locks=7"],
        204,
    ),
    script(
        "deleteNamespace",
        &[ME, "PUT /v1/namespaces/team?locks=5"],
        "DELETE /v1/namespaces/team?session=me&request=1",
        &["PUT /v1/namespaces/team?locks=5"],
        204,
    ),
    script(
        "addMember",
        &[ME],
        "POST /v1/members?peer=h:1&http=h:2&zookeeper=h:3&role=learner&session=me&request=1",
        &["DELETE /v1/members/2?reason=r"],
        409,
    ),
    script(
        "setMember",
        &[ME],
        "PATCH /v1/members/1?zone=a&session=me&request=1",
        &["PATCH /v1/members/1?zone=b"],
        204,
    ),
    script(
        "removeMember",
        &["POST /v1/members?peer=h:1&http=h:2&zookeeper=h:3&role=learner"],
        "DELETE /v1/members/2?reason=r",
        &["POST /v1/members?peer=h:1&http=h:2&zookeeper=h:3&role=learner"],
        404,
    ),
    script(
        "setFeatureLevel",
        &[ME],
        "POST /v1/cluster/level?level=2&session=me&request=1",
        &["POST /v1/cluster/level?level=1"],
        200,
    ),
    script("transferLeadership", &[], "POST /v1/cluster/transfer", &[], 200),
    script("verifyState", &[], "POST /v1/cluster/verify", &[], 200),
    script(
        "sealCluster",
        &[ME],
        "PUT /v1/cluster/seal?reason=r&session=me&request=1",
        &["DELETE /v1/cluster/seal?revision={seal}"],
        200,
    ),
    script(
        "unsealCluster",
        &[ME, "PUT /v1/cluster/seal?reason=r"],
        "DELETE /v1/cluster/seal?revision={seal}",
        &["PUT /v1/cluster/seal?reason=s"],
        412,
    ),
];

/// What readers see, without the times that pass and the revision of the read.
const READS: [&str; 14] = [
    "/v1/locks/a",
    "/v1/locks/b",
    "/v1/policies/a",
    "/v1/elections/e",
    "/v1/sessions/me",
    "/v1/tree/?recursive&limit=1000",
    "/v1/tree/a",
    "/v1/latches/l",
    "/v1/barriers/b",
    "/v1/double-barriers/d",
    "/v1/counters/c",
    "/v1/auth",
    "/v1/namespaces",
    "/v1/cluster",
];
const AUTH_READS: [&str; 5] = [
    "/v1/auth/subjects",
    "/v1/auth/roles",
    "/v1/auth/tokens",
    "/v1/auth/quotas",
    "/v1/auth/quotas/ci",
];

/// Removes the values of numbers and times that change by themselves.
fn without_times(mut value: serde_json::Value) -> serde_json::Value {
    fn clean(value: &mut serde_json::Value) {
        match value {
            serde_json::Value::Object(fields) => {
                fields.retain(|name, _| {
                    !(name.ends_with("_ms")
                        || name.ends_with("_seconds")
                        || name.ends_with("_bytes")
                        || name.ends_with("_at")
                        || ["revision", "applied_revision", "time", "alarms", "hold"]
                            .contains(&name.as_str()))
                });
                fields.values_mut().for_each(clean);
            }
            serde_json::Value::Array(items) => items.iter_mut().for_each(clean),
            serde_json::Value::Null
            | serde_json::Value::Bool(_)
            | serde_json::Value::Number(_)
            | serde_json::Value::String(_) => {}
        }
    }
    clean(&mut value);
    value
}

async fn seen(client: &Caller) -> Vec<String> {
    let mut seen = Vec::new();
    for path in READS.iter().chain(&AUTH_READS) {
        let reply = client.send(&format!("GET {path}")).await;
        let body = serde_json::from_str(&reply.body)
            .map_or_else(|_| reply.body.clone(), |value| without_times(value).to_string());
        seen.push(format!("{path}: {} {body}", reply.status));
    }
    seen
}

/// A client of a node, with the access token of an administrator.
struct Caller {
    node: Node,
    credential: Option<String>,
}

impl Caller {
    /// A call with the revision of the present seal.
    async fn with_seal(&self, call: &str) -> String {
        if !call.contains("{seal}") {
            return call.to_owned();
        }
        let cluster = self.send("GET /v1/cluster").await.json();
        call.replace("{seal}", &cluster["seal"]["revision"].to_string())
    }

    /// Sends `METHOD target`, or `METHOD target body`.
    async fn send(&self, call: &str) -> Reply {
        let (method, rest) = call.split_once(' ').unwrap();
        let (target, body) = rest.split_once(' ').unwrap_or((rest, ""));
        let credential = self.credential.as_deref().unwrap_or_default();
        let headers = [("Content-Type", "application/json"), ("Authorization", credential)];
        let headers = if credential.is_empty() { &headers[..1] } else { &headers[..] };
        call_with(self.node.address, method, target, headers, body).await
    }
}

async fn check(script: &Script) {
    let mut client = Caller { node: Node::start().await, credential: None };
    let is_first = ["bootstrapAuth", "recoverAuth"].contains(&script.operation);
    if !is_first && (script.call.contains("/v1/auth") || script.call.contains("/v1/namespaces")) {
        let added = client.node.bootstrap("&mode=off").await;
        let token = added.json()["token"].as_str().map(str::to_owned);
        client.credential = token.map(|token| format!("Bearer {token}"));
        assert!(client.credential.is_some(), "{added:?}");
    }
    let (mut token, mut round) = (None, String::new());
    for call in script.before {
        let reply = client.send(call).await;
        assert!(reply.status < 300, "{}: {call}: {reply:?}", script.operation);
        if call.starts_with("POST /v1/auth/tokens") {
            token = reply.json()["id"].as_str().map(str::to_owned);
        }
        if call.starts_with("PUT /v1/double-barriers") {
            round = reply.json()["generation"].to_string();
        }
    }
    let call = script
        .call
        .replace("{proof}", client.node.prove_ownership())
        .replace("{token}", token.as_deref().unwrap_or_default())
        .replace("{round}", &round);
    let call = client.with_seal(&call).await;
    let first = client.send(&call).await;
    let is_proof = script.operation == "recoverAuth";
    assert!(first.status < 300 || is_proof, "{}: {first:?}", script.operation);
    for call in script.after {
        let reply = client.send(&client.with_seal(call).await).await;
        assert!(reply.status < 300, "{}: {call}: {reply:?}", script.operation);
    }
    let before = seen(&client).await;
    let copy = client.send(&call).await;
    assert_eq!(copy.status, script.copy, "{}: {copy:?}", script.operation);
    assert_eq!(seen(&client).await, before, "{}", script.operation);
    let is_numbered = call.contains("request=") || call.contains("\"request\"");
    if is_numbered && copy.status < 300 {
        assert_eq!(copy.body, first.body, "{}: the first response", script.operation);
        let revision = "holdfast-revision";
        let waits = ["arriveAtBarrier", "enterDoubleBarrier"].contains(&script.operation);
        assert!(waits || copy.header(revision) == first.header(revision), "{}", script.operation);
    }
}

/// One test a row, in one function, so that a write without a script fails.
#[tokio::test(flavor = "multi_thread")]
async fn a_late_copy_of_each_write_changes_nothing() {
    let writes: BTreeSet<&str> = operations()
        .filter(|(.., operation)| operation["x-late-copies"].is_string())
        .map(|(.., operation)| operation["operationId"].as_str().unwrap())
        .collect();
    let scripts: BTreeSet<&str> = SCRIPTS.iter().map(|script| script.operation).collect();
    assert_eq!(scripts, writes, "each write has a script");
    let mut failed = Vec::new();
    for script in SCRIPTS {
        if tokio::spawn(check(script)).await.is_err() {
            failed.push(script.operation);
        }
    }
    assert_eq!(failed, [""; 0]);
}
