//! The golden scripts over HTTP: changes by `/v1/txn`, queries by `/v1/tree`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use holdfast_lab::Method;
use holdfast_lab::{Http, Reply, Request};
use serde_json::{Value, json};

use super::ScriptPlayer;
use super::command::{Entry, Kind, Op, ScriptCommand, What, Who};
use super::common_form::{self, Stat};
use super::front_end::FrontEnd;

/// Longest TTL that HTTP accepts, milliseconds.
const TTL_MAX_MS: i64 = 24 * 3_600_000;

/// The HTTP API of one node.
pub(super) struct HttpPlayer(Http);

impl HttpPlayer {
    pub(super) fn new(http: Http) -> Self {
        Self(http)
    }

    async fn send(
        &self,
        method: Method,
        target: &str,
        who: &Who,
        body: Option<String>,
    ) -> Option<Reply> {
        let basic = match who.proofs.as_slice() {
            [] => None,
            [proof] => Some(format!("Basic {}", STANDARD.encode(proof))),
            // A call can present only one identity.
            _ => return None,
        };
        let headers: Vec<(&str, &str)> =
            basic.iter().map(|basic| ("authorization", basic.as_str())).collect();
        let mut request = Request::new(method, target).headers(&headers);
        if let Some(body) = &body {
            request = request.body(body);
        }
        Some(self.0.send(request).await.expect("the node answers"))
    }

    async fn change(&self, ops: &[Op], multi: bool, who: &Who) -> Option<String> {
        // The HTTP API rejects an ephemeral without a session before the machine does, with a different error.
        let of_nobody = |op: &Op| {
            who.session.is_none() && matches!(op, Op::Create { kind: Kind::Ephemeral, .. })
        };
        if !ops.iter().all(expressible) || ops.iter().any(of_nobody) {
            return None;
        }
        let then: Vec<Value> = ops.iter().map(operation).collect();
        let mut body = json!({ "then": then });
        if let Some(session) = &who.session {
            body["session"] = json!(session);
        }
        let reply = self.send(Method::POST, "/v1/txn", who, Some(body.to_string())).await?;
        if reply.status != 200 {
            return Some(refused(&reply, multi));
        }
        let results = reply.json()["results"].as_array().cloned().unwrap_or_default();
        let said: Vec<String> = results.iter().map(result).collect();
        Some(if said.is_empty() { "nothing".to_owned() } else { said.join(" | ") })
    }

    async fn look(&self, what: What, path: &str, who: &Who) -> Option<String> {
        let view = match what {
            What::Node | What::Stat => "stat",
            What::Children => "children",
            What::Acl => "acl",
        };
        let target = format!("/v1/tree{path}?{view}");
        let reply = self.send(Method::GET, &target, who, None).await?;
        if reply.status == 404 && what == What::Stat {
            return Some("none".to_owned());
        }
        if reply.status != 200 {
            return Some(refused(&reply, false));
        }
        let body = reply.json();
        Some(match what {
            What::Stat => stat(&body),
            What::Node => {
                let data = self.send(Method::GET, &format!("/v1/tree{path}"), who, None).await?;
                if data.status != 200 {
                    return Some(refused(&data, false));
                }
                format!("{} {}", stat(&body), common_form::data(data.body.as_bytes()))
            }
            What::Children => {
                let children = body["children"].as_array().cloned().unwrap_or_default();
                let names: Vec<&str> =
                    children.iter().filter_map(|child| child["name"].as_str()).collect();
                format!("[{}]", names.join(" "))
            }
            What::Acl => acl(&body),
        })
    }
}

impl ScriptPlayer for HttpPlayer {
    const FRONT_END: FrontEnd = FrontEnd::Http;

    async fn execute(&mut self, command: &ScriptCommand) -> Option<String> {
        match command {
            ScriptCommand::Open(session) => {
                let reply = self.0.put(&format!("/v1/sessions/{session}?ttl=60s")).await;
                Some(if reply.status < 300 { "opened".to_owned() } else { refused(&reply, false) })
            }
            ScriptCommand::Close(session) => {
                let reply = self.0.delete(&format!("/v1/sessions/{session}")).await;
                Some(if reply.status < 300 { "closed".to_owned() } else { refused(&reply, false) })
            }
            ScriptCommand::Ops { ops, multi, who } => self.change(ops, *multi, who).await,
            ScriptCommand::Look { what, path, who } => self.look(*what, path, who).await,
        }
    }
}

fn refused(reply: &Reply, multi: bool) -> String {
    let at = if multi { reply.json()["at"].as_u64().unwrap_or(0) } else { 0 };
    format!("error {} at {at}", reply.code())
}

fn entries(acl: &[Entry]) -> Vec<String> {
    acl.iter().map(|(scheme, id, perms)| format!("{scheme}:{id}:{perms}")).collect()
}

/// HTTP cannot express an empty access list, or a TTL above its limit.
fn expressible(op: &Op) -> bool {
    match op {
        Op::Create { acl: Some(acl), .. } if acl.is_empty() => false,
        Op::Create { kind: Kind::Ttl(ms), .. } => *ms <= TTL_MAX_MS,
        _ => true,
    }
}

fn operation(op: &Op) -> Value {
    let mut value = match op {
        Op::Create { path, data, .. } => json!({ "create": path, "data": data }),
        Op::Delete { path, recursive: false, .. } => json!({ "delete": path }),
        Op::Delete { path, .. } => json!({ "delete": path, "recursive": true }),
        Op::Set { path, data, .. } => json!({ "set": path, "data": data }),
        Op::SetAcl { path, acl, .. } => json!({ "set_acl": path, "acl": entries(acl) }),
        Op::Check { path, .. } => json!({ "check": path }),
    };
    match op {
        Op::Create { kind, sequential, parents, acl, .. } => {
            for (word, said) in [("sequential", *sequential), ("parents", *parents)] {
                if said {
                    value[word] = json!(true);
                }
            }
            match kind {
                Kind::Persistent => {}
                Kind::Ephemeral => value["ephemeral"] = json!(true),
                Kind::Container => value["container"] = json!(true),
                Kind::Ttl(ms) => value["ttl"] = json!(format!("{ms}ms")),
            }
            if let Some(acl) = acl {
                value["acl"] = json!(entries(acl));
            }
        }
        Op::Delete { version, .. }
        | Op::Set { version, .. }
        | Op::SetAcl { version, .. }
        | Op::Check { version, .. } => {
            if let Some(version) = version {
                value["version"] = json!(version);
            }
        }
    }
    value
}

fn result(result: &Value) -> String {
    if let Some(path) = result["create"].as_str() {
        return format!("created {path} {}", stat(&result["stat"]));
    }
    if result["delete"].is_string() {
        return "deleted".to_owned();
    }
    if result["set"].is_string() {
        return format!("set {}", stat(&result["stat"]));
    }
    if result["set_acl"].is_string() {
        return format!("acl set {}", stat(&result["stat"]));
    }
    if result["check"].is_string() { "checked".to_owned() } else { result.to_string() }
}

fn stat(stat: &Value) -> String {
    let number = |key: &str| stat[key].as_i64().unwrap_or(0);
    let stat = Stat {
        created: number("created_revision"),
        modified: number("modified_revision"),
        children_changed: number("children_revision"),
        version: number("version"),
        children_version: number("children_version"),
        acl_version: number("acl_version"),
        owner: number("session_number"),
        bytes: number("data_length"),
        children: number("children"),
    };
    stat.print()
}

fn acl(body: &Value) -> String {
    let entries = body["acl"].as_array().cloned().unwrap_or_default();
    let parts = entries.iter().filter_map(|entry| {
        let (who, perms) = entry.as_str()?.rsplit_once(':')?;
        let (scheme, id) = who.split_once(':')?;
        Some((scheme, id, perms.to_owned()))
    });
    common_form::acl(parts, body["acl_version"].as_i64().unwrap_or(0))
}
