//! A late copy of each call that changes something: the call, then the client goes on, then the copy arrives. The copy
//! changes nothing that readers see. A write without a script fails the test.

mod scripts;

use std::collections::BTreeSet;

use self::scripts::{SCRIPTS, Script};
use crate::client::{Reply, call_with};
use crate::described::operations;
use crate::node::Node;

/// What readers see, without the times that pass and the revision of the read.
const READS: [&str; 15] = [
    "/v1/locks/a",
    "/v1/locks/b",
    "/v1/policies/a",
    "/v1/elections/e",
    "/v1/sessions/me",
    "/v1/tree/?recursive&limit=1000",
    "/v1/tree/a",
    "/v1/tree-quotas",
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
