//! The OpenAPI 3.1 document, derived from the operations. It never changes while a node runs.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use axum::http::StatusCode;
use bytes::Bytes;
use holdfast_api::{
    ErrorCode, Form, HOLDFAST_APPLIED_REVISION, HOLDFAST_LEADER, HOLDFAST_LEADER_CONTACT_MS,
    HOLDFAST_NODE, HOLDFAST_REQUEST_ID, HOLDFAST_REVISION, KEEPALIVE_SESSIONS_MAX, PROBLEM_JSON,
    Param, Problem, Schemas, object_schema,
};
use holdfast_types::{AcquireOptions, SessionName};
use serde_json::{Map, Value, json};

use super::{ExampleCall, recorded_answer};
use crate::body::BodyKind;
use crate::operation::{Content, Header, Operation, ResponseSpec, Scope};
use crate::operations::OPERATIONS;
use crate::routes::CHAPTERS;
use crate::status::of_code;
use crate::tree::txn;

/// Headers of every response.
const EVERYWHERE: [Header; 4] = [
    Header::number(HOLDFAST_NODE, "The id of the node that sent the response"),
    Header::text(
        HOLDFAST_LEADER,
        "The id of the current leader, or none if the node has no leader",
    ),
    Header::number(
        HOLDFAST_REVISION,
        "The revision of the response; of an error, the last revision that the node applied",
    ),
    Header::text(HOLDFAST_REQUEST_ID, "The id of the call in the node's log lines"),
];
/// Headers of a stale read.
const STALE: [Header; 2] = [
    Header::number(HOLDFAST_APPLIED_REVISION, "The revision of a stale read"),
    Header::number(
        HOLDFAST_LEADER_CONTACT_MS,
        "In a stale read: milliseconds since the node's last message from a leader",
    ),
];

/// The body of `/openapi.json`: an OpenAPI 3.1 document as JSON text. Rendered once.
pub fn description() -> Bytes {
    // Encoding text and numbers never fails.
    static DOCUMENT: LazyLock<Bytes> =
        LazyLock::new(|| serde_json::to_vec(&make()).unwrap_or_default().into());
    DOCUMENT.clone()
}

fn make() -> Value {
    let mut schemas = Schemas::default();
    let problem = schemas.of::<Problem>();
    let mut paths: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    for operation in OPERATIONS {
        let written = written(operation, &mut schemas, &problem);
        let path = paths.entry(operation.route.pattern).or_default();
        path.insert(operation.method.as_str().to_ascii_lowercase(), written);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "holdfast",
            "version": env!("CARGO_PKG_VERSION"),
            "summary": "A self-hosted lock coordinator.",
            "description": ABOUT,
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
        },
        "tags": tags(),
        "servers": [{ "url": "/", "description": "Every node accepts every call" }],
        "paths": paths,
        "components": {
            "schemas": components(schemas),
            "headers": headers(&EVERYWHERE),
            "securitySchemes": { "basic": { "type": "http", "scheme": "basic" } },
        },
    })
}

/// The chapters, in the order of the operations.
fn tags() -> Vec<Value> {
    let tag = |(name, about): &(&str, &str)| json!({ "name": name, "description": about });
    CHAPTERS.iter().map(tag).collect()
}

fn components(schemas: Schemas) -> Map<String, Value> {
    let mut components = schemas.into_components();
    components.insert("Condition".to_owned(), txn::condition_schema());
    components.insert("Operation".to_owned(), txn::operation_schema());
    components
}

/// The description of the whole API.
pub(super) const ABOUT: &str = "Parameters are in the query string. PUT, POST, PATCH and DELETE also accept a JSON \
    object with the same fields as their body. These calls have another body: PUT and POST below /v1/tree, PUT \
    /v1/elections/{name}, POST /v1/txn, and POST /v1/keepalive. A parameter that is unknown, empty or \
    given twice is an error. Names of locks and paths may contain '/', written as '/' or %2F. Names are \
    percent-decoded once. A path with GET also supports HEAD, and every path supports OPTIONS. An unsupported method \
    returns 405 method-not-allowed, and an unknown path returns 404 not-found. Every error is application/problem+json \
    with an error code, which /errors/{code} explains.";

fn written(operation: &Operation, schemas: &mut Schemas, problem: &Value) -> Value {
    let mut value = json!({
        "operationId": operation.id,
        "tags": [operation.route.tag],
        "summary": operation.summary,
        "parameters": parameters(operation),
        "responses": responses(operation, schemas, problem),
        "x-codeSamples": [{ "lang": "curl", "source": ExampleCall::of(operation).curl() }],
    });
    if let Some(object) = value.as_object_mut() {
        if !operation.description.is_empty() {
            object.insert("description".to_owned(), operation.description.into());
        }
        if let Some(body) = request_body(operation) {
            object.insert("requestBody".to_owned(), body);
        }
        if operation.scope == Scope::Write {
            let late_copies = format!("{:?}", operation.late_copies);
            object.insert("x-late-copies".to_owned(), late_copies.into());
        }
        object.insert("x-access".to_owned(), operation.access.described());
        if operation.access.reads_credential() {
            object.insert("security".to_owned(), json!([{}, { "basic": [] }]));
        }
    }
    value
}

fn parameters(operation: &Operation) -> Vec<Value> {
    let path = &operation.route.name;
    let mut all: Vec<Value> = path.iter().map(|param| parameter(param, "path")).collect();
    for param in operation.all_params().iter() {
        if param.form == Form::Labels {
            all.push(label(param));
        } else if param.form.fits_query() {
            all.push(parameter(param, "query"));
        }
    }
    all.extend(operation.all_headers().map(|header| {
        json!({
            "name": header.name,
            "in": "header",
            "description": format!("{}.", header.about),
            "schema": { "type": "string" },
        })
    }));
    all
}

fn parameter(param: &Param, place: &str) -> Value {
    let schema = param.schema();
    let schema =
        if param.form.is_repeated() { json!({ "type": "array", "items": schema }) } else { schema };
    json!({
        "name": param.name,
        "in": place,
        "required": place == "path" || param.is_needed(),
        "description": param.explained(),
        "schema": schema,
    })
}

fn label(param: &Param) -> Value {
    json!({
        "name": "label.KEY",
        "in": "query",
        "description": param.explained(),
        "schema": { "type": "string", "minLength": 1, "maxLength": 256 },
    })
}

fn request_body(operation: &Operation) -> Option<Value> {
    let kind = operation.body;
    let (media, about, schema) = match kind {
        BodyKind::None => return None,
        BodyKind::Params { .. } => {
            let about = "The query parameters, as a JSON object.";
            ("application/json", about, object_schema(&operation.all_params()))
        }
        BodyKind::Data => {
            let bytes = json!({ "type": "string", "format": "binary" });
            ("application/octet-stream", "The data of the znode, stored unchanged.", bytes)
        }
        BodyKind::Txn => {
            ("application/json", "The transaction.", object_schema(&operation.all_params()))
        }
        BodyKind::Value => {
            let text = json!({ "type": "string", "maxLength": AcquireOptions::VALUE_MAX });
            (
                "text/plain",
                "The candidate's value as text, which every read of the election shows. Any media type.",
                text,
            )
        }
        BodyKind::Sessions => {
            let id = json!({ "type": "string", "minLength": 1, "maxLength": SessionName::MAX_LEN });
            let ids = json!({ "type": "array", "items": id, "minItems": 1, "maxItems": KEEPALIVE_SESSIONS_MAX });
            ("application/json", "The ids of the sessions to renew.", ids)
        }
    };
    let mut content = json!({ media: { "schema": schema } });
    if kind == BodyKind::Value {
        // Generators of clients support bytes, and leave a call out whose only body is text.
        content["application/octet-stream"] =
            json!({ "schema": { "type": "string", "format": "binary" } });
    }
    let required = matches!(kind, BodyKind::Txn | BodyKind::Sessions);
    Some(json!({ "description": about, "required": required, "content": content }))
}

fn responses(operation: &Operation, schemas: &mut Schemas, problem: &Value) -> Value {
    let mut responses = Map::new();
    for answer in (operation.answers)() {
        let stale: &[Header] = if operation.takes("stale") { &STALE } else { &[] };
        let answer = answer.with(stale);
        let mut written = response(&answer, schemas);
        if let (Some(example), Some(media)) =
            (recorded_answer(operation), written.pointer_mut("/content/application~1json"))
        {
            media["example"] = example.clone();
        }
        responses.insert(answer.status.as_str().to_owned(), written);
    }
    if operation.takes("redirect") {
        let moved =
            ResponseSpec::empty(StatusCode::TEMPORARY_REDIRECT, "Send the call to the leader")
                .with(&[Header::text("location", "The URL of the same call at the leader")]);
        responses.insert(moved.status.as_str().to_owned(), response(&moved, schemas));
    }
    let mut by_status: BTreeMap<u16, Vec<ErrorCode>> = BTreeMap::new();
    for code in operation.all_errors() {
        by_status.entry(of_code(code).as_u16()).or_default().push(code);
    }
    for (status, codes) in by_status {
        responses.insert(status.to_string(), failure(&codes, problem));
    }
    responses.into()
}

fn response(answer: &ResponseSpec, schemas: &mut Schemas) -> Value {
    let mut by_media: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    for (media, content) in &answer.contents {
        let schema = match content {
            Content::Json(of) => of(schemas),
            Content::Text => json!({ "type": "string" }),
            Content::Bytes => json!({ "type": "string", "format": "binary" }),
        };
        by_media.entry(media).or_default().push(schema);
    }
    let one = |mut schemas: Vec<Value>| match (schemas.pop(), schemas.is_empty()) {
        (Some(only), true) => json!({ "schema": only }),
        (last, _) => {
            schemas.extend(last);
            json!({ "schema": { "anyOf": schemas } })
        }
    };
    let content: BTreeMap<&str, Value> =
        by_media.into_iter().map(|(media, schemas)| (media, one(schemas))).collect();
    let mut value = json!({
        "description": format!("{}.", answer.about),
        "headers": with_everywhere(&answer.headers),
    });
    if let (Some(object), false) = (value.as_object_mut(), content.is_empty()) {
        object.insert("content".to_owned(), json!(content));
    }
    value
}

fn failure(codes: &[ErrorCode], problem: &Value) -> Value {
    let told = |code: &ErrorCode| format!("`{code}`: {}.", code.title());
    let told: Vec<String> = codes.iter().map(told).collect();
    let names: Vec<&str> = codes.iter().map(|code| code.as_str()).collect();
    let schema = json!({ "allOf": [
        problem,
        { "type": "object", "properties": { "code": { "enum": names } } },
    ] });
    let soon = Header::number("retry-after", "Seconds to wait before a retry");
    let comes_back = |code: &ErrorCode| {
        *code == ErrorCode::LockInCooldown || matches!(of_code(*code).as_u16(), 429 | 503)
    };
    let comes_back = codes.iter().any(comes_back);
    let extra: &[Header] = if comes_back { &[soon] } else { &[] };
    json!({
        "description": told.join(" "),
        "headers": with_everywhere(extra),
        "content": { PROBLEM_JSON: { "schema": schema } },
    })
}

/// The given headers, and the headers of every response.
fn with_everywhere(more: &[Header]) -> Value {
    let mut written = headers(more);
    for header in EVERYWHERE {
        written[header.name] = json!({ "$ref": format!("#/components/headers/{}", header.name) });
    }
    written
}

fn headers(headers: &[Header]) -> Value {
    let one = |header: &Header| {
        let kind = if header.is_number { "integer" } else { "string" };
        let about = format!("{}.", header.about);
        (header.name.to_owned(), json!({ "description": about, "schema": { "type": kind } }))
    };
    headers.iter().map(one).collect::<Map<String, Value>>().into()
}

#[cfg(test)]
mod tests;
