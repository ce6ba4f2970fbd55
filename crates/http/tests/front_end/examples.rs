//! The examples of the API description: every curl line works, and a real node sends the recorded answer.
//!
//! `HOLDFAST_REWRITE=1` records the answers again.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::client::call_with;
use crate::described::operations;
use crate::documentation::run_curl;
use crate::node::Node;

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/description/responses.json");
/// The calls before an example, by the id of its operation.
const SETUP: [(&str, &[&str]); 28] = [
    ("checkToken", &["PUT /v1/locks/orders?session=me"]),
    ("releaseLocks", &["POST /v1/locks?name=account/7&name=account/9&session=me"]),
    ("readLock", &["PUT /v1/locks/orders?session=me"]),
    ("listLocks", &["PUT /v1/locks/orders?session=me"]),
    ("transferLock", &["PUT /v1/locks/orders?session=me", "PUT /v1/sessions/you"]),
    ("requestRelease", &["PUT /v1/locks/orders?session=me"]),
    ("forceRelease", &["PUT /v1/locks/orders?session=me"]),
    ("readHistory", &["PUT /v1/locks/orders?session=me", "DELETE /v1/locks/orders?session=me"]),
    ("keepSessionAlive", &["PUT /v1/locks/orders?session=me"]),
    ("keepSessionsAlive", &["PUT /v1/sessions/me"]),
    ("closeSession", &["PUT /v1/sessions/me"]),
    ("readSession", &["PUT /v1/locks/orders?session=me"]),
    ("listSessions", &["PUT /v1/sessions/me"]),
    ("transact", &["DELETE /v1/tree/cfg", "PUT /v1/tree/cfg"]),
    ("deleteZnode", &["PUT /v1/tree/cfg"]),
    ("countDown", &["DELETE /v1/latches/start", "PUT /v1/latches/start?count=3"]),
    (
        "awaitLatch",
        &[
            "DELETE /v1/latches/start",
            "PUT /v1/latches/start?count=1",
            "POST /v1/latches/start?key=k",
        ],
    ),
    ("leaveBarrier", &["PUT /v1/sessions/me"]),
    ("watch", &["DELETE /v1/tree/cfg", "PUT /v1/tree/cfg"]),
    ("readZnode", &["PUT /v1/tree/cfg"]),
    ("listTreeQuotas", &["PUT /v1/tree-quotas/cfg?znodes=1000&soft_znodes=800"]),
    ("readTreeQuota", &["PUT /v1/tree-quotas/cfg?znodes=1000&soft_znodes=800"]),
    ("deleteTreeQuota", &["PUT /v1/tree-quotas/cfg?znodes=1000"]),
    ("createLatch", &["DELETE /v1/latches/start"]),
    ("leaveDoubleBarrier", &["PUT /v1/double-barriers/start?parties=1&session=me"]),
    ("readCounter", &["PUT /v1/counters/start?value=7"]),
    ("readElection", &["PUT /v1/elections/primary?session=me"]),
    ("resign", &["PUT /v1/elections/primary?session=me"]),
];
/// The examples that need the first token and the first attempt. The release ends the hold of the acquire.
const FIRST: [&str; 10] = [
    "checkToken",
    "acquireLock",
    RELEASE,
    "bootstrapAuth",
    "setFeatureLevel",
    "verifyState",
    "sealCluster",
    "unsealCluster",
    "addMember",
    "setMember",
];
const RELEASE: &str = "releaseLock";

/// Ends the sessions of the previous example, and prepares the next one.
async fn prepare(node: &Node, id: &str) {
    if id == RELEASE {
        return;
    }
    let cluster = node.call("GET", "/v1/cluster").await.json();
    if let Some(revision) = cluster["seal"]["revision"].as_u64() {
        node.call("DELETE", &format!("/v1/cluster/seal?revision={revision}")).await;
    }
    for session in ["me", "you"] {
        node.call("DELETE", &format!("/v1/sessions/{session}")).await;
    }
    let calls = SETUP.iter().find(|(name, _)| *name == id).map_or(&[][..], |(_, calls)| calls);
    for call in calls {
        let (method, target) = call.split_once(' ').unwrap();
        let reply = node.call(method, target).await;
        assert!(reply.status < 300 || method == "DELETE", "{id}: {call}: {reply:?}");
    }
}

/// The calls of an administrator before an example.
const ADMIN_SETUP: [(&str, &[&str]); 10] = [
    ("readQuotas", &["PUT /v1/auth/subjects/ci/deploy"]),
    ("setQuotas", &["PUT /v1/auth/subjects/ci/deploy"]),
    ("createToken", &["PUT /v1/auth/subjects/ci/deploy"]),
    ("rotateToken", &["PUT /v1/auth/subjects/ci/deploy", NEW_TOKEN]),
    ("deleteToken", &["PUT /v1/auth/subjects/ci/deploy", NEW_TOKEN]),
    ("deleteSubject", &["PUT /v1/auth/subjects/ci/deploy"]),
    ("deleteRole", &["PUT /v1/auth/roles/deploy"]),
    ("allowCertificate", &["PUT /v1/auth/denied-certificates/4a3b?reason=stolen"]),
    ("readNamespace", &["PUT /v1/namespaces/team-a?locks=1000"]),
    ("deleteNamespace", &["PUT /v1/namespaces/team-a"]),
];
const NEW_TOKEN: &str = "POST /v1/auth/tokens?subject=ci/deploy";

/// The access token of the administrator, and the id of the latest token.
#[derive(Default)]
struct Tokens {
    header: String,
    latest: String,
}

impl Tokens {
    async fn prepare(&mut self, node: &Node, id: &str) {
        let calls = ADMIN_SETUP.iter().find(|(name, _)| *name == id);
        for call in calls.map_or(&[][..], |(_, calls)| calls) {
            let (method, target) = call.split_once(' ').unwrap();
            let token = self.header.strip_prefix("Authorization: ").unwrap();
            let headers = [("Authorization", token)];
            let reply = call_with(node.address, method, target, &headers, "").await;
            assert!(reply.status < 300, "{id}: {call}: {reply:?}");
            self.note(&reply.body);
        }
        if ["bootstrapAuth", "recoverAuth"].contains(&id) {
            std::fs::write(node.data_dir().join("owner-proof"), "0".repeat(64)).unwrap();
        }
    }

    /// Keeps a new token. The first one is the administrator's.
    fn note(&mut self, body: &str) {
        let Ok(body) = serde_json::from_str::<Value>(body) else { return };
        let (Some(token), Some(id)) = (body["token"].as_str(), body["id"].as_str()) else { return };
        if self.header.is_empty() {
            self.header = format!("Authorization: Bearer {token}");
        }
        id.clone_into(&mut self.latest);
    }
}

async fn answer(node: &Node, operation: &'static Value, tokens: &Tokens) -> String {
    let line = operation["x-codeSamples"][0]["source"].as_str().unwrap();
    let file = node.data_dir().join("admin.token");
    std::fs::write(&file, &tokens.header).unwrap();
    let line = line.replace("admin.token", file.to_str().unwrap());
    let line = line.replace("0123456789abc", &tokens.latest);
    let address = node.address.to_string();
    tokio::task::spawn_blocking(move || run_curl(&line, &address)).await.unwrap()
}

/// The recorded answer: secrets and ids of tokens are the same in every recording.
fn recordable(mut body: Value) -> Value {
    for (field, example) in [
        ("token", "hf_0123456789abc_bQ0ZVm1DyNwZs3vJY8fTkq2LrG5uXaHi4PoCe7Rt9SA_Kx2fA"),
        ("id", "0123456789abc"),
    ] {
        let is_secret = body["token"].as_str().is_some_and(|token| token.starts_with("hf_"));
        if is_secret || (field == "id" && body["id"].is_string() && body.get("subject").is_some()) {
            body[field] = example.into();
        }
    }
    if let Some(tokens) = body.get_mut("tokens").and_then(Value::as_array_mut) {
        for token in tokens {
            token["id"] = "0123456789abc".into();
        }
    }
    if body["join_token"].is_string() {
        body["join_token"] = "hfj_eyJjbHVzdGVyIjoicHJvZCIs".into();
    }
    for record in body.get_mut("records").and_then(Value::as_array_mut).into_iter().flatten() {
        record["at"] = "2026-11-24T09:00:00.000Z".into();
        record["detail"] = "access token 0123456789abc, mode shadow".into();
        record["hash"] = "0123456789abcdef".repeat(4).into();
    }
    body
}

/// The value without its numbers and texts, which differ between runs.
fn shape(value: &Value) -> Value {
    match value {
        Value::Number(_) => 0.into(),
        Value::String(_) => "".into(),
        Value::Array(values) => values.iter().map(shape).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| (name.clone(), shape(value))).collect()
        }
        Value::Null | Value::Bool(_) => value.clone(),
    }
}

#[tokio::test]
async fn every_example_call_works_and_gets_the_recorded_answer() {
    let node = Node::start().await;
    let ids = operations().map(|(.., operation)| operation["operationId"].as_str().unwrap());
    let ids: BTreeSet<&str> = ids.collect();
    assert!(SETUP.iter().all(|(id, _)| ids.contains(id)), "{ids:?}");
    let mut all: Vec<_> = operations().map(|(.., operation)| operation).collect();
    all.sort_by_key(|operation| {
        let id = &operation["operationId"];
        FIRST.iter().position(|first| id == first).unwrap_or(FIRST.len())
    });
    let mut recorded: BTreeMap<&str, Value> = BTreeMap::new();
    let mut differences = Vec::new();
    let mut tokens = Tokens::default();
    for operation in all {
        let id = operation["operationId"].as_str().unwrap();
        prepare(&node, id).await;
        tokens.prepare(&node, id).await;
        let text = answer(&node, operation, &tokens).await;
        tokens.note(&text);
        assert!(!text.contains("\"type\":\"/errors/"), "{id}: {text}");
        let Ok(mut body) = serde_json::from_str::<Value>(&text) else { continue };
        if let Some(alarms) = body.get_mut("alarms") {
            // A slow disk of this machine raises an alarm.
            *alarms = Value::Array(Vec::new());
        }
        // The node adds a value every ten seconds.
        if let Some(values) = body.pointer_mut("/figures/0/values").and_then(Value::as_array_mut) {
            values.truncate(1);
        }
        if body.get("openapi").is_some() {
            continue;
        }
        let examples = operation["responses"].as_object().unwrap().values();
        let mut examples =
            examples.map(|response| &response["content"]["application/json"]["example"]);
        if !examples.any(|example| shape(example) == shape(&body)) {
            differences.push(format!("{id}: {body}"));
        }
        recorded.insert(id, recordable(body));
    }
    if std::env::var_os("HOLDFAST_REWRITE").is_some() {
        let text = serde_json::to_string_pretty(&recorded).unwrap();
        std::fs::write(PATH, text + "\n").unwrap();
    } else {
        assert!(differences.is_empty(), "{}", differences.join("\n"));
    }
}
