//! Checks the response to every test call against the API description.
//!
//! The checker supports the part of JSON Schema that the description uses.

use std::sync::OnceLock;

use serde_json::Value;

use crate::client::Reply;

/// The description.
pub(crate) fn document() -> &'static Value {
    static DOCUMENT: OnceLock<Value> = OnceLock::new();
    DOCUMENT.get_or_init(|| serde_json::from_slice(&holdfast_http::description()).unwrap())
}

/// Every operation: method in lower case, path, and its description.
pub(crate) fn operations() -> impl Iterator<Item = (&'static str, &'static str, &'static Value)> {
    let paths = document()["paths"].as_object().unwrap().iter();
    paths.flat_map(|(path, methods)| {
        let methods = methods.as_object().unwrap().iter();
        methods.map(move |(method, operation)| (method.as_str(), path.as_str(), operation))
    })
}

/// Whether a path matches a pattern. Names of locks and paths may contain `/`, ids may not.
fn is_of(path: &str, pattern: &str) -> bool {
    let Some((before, rest)) = pattern.split_once('{') else { return path == pattern };
    let (name, after) = rest.split_once('}').unwrap();
    let variable = path.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
    variable.is_some_and(|text| !text.is_empty() && (name != "id" || !text.contains('/')))
}

/// Checks a response against the description. An undescribed path or method must be rejected.
#[track_caller]
pub(crate) fn check(method: &str, target: &str, reply: &Reply) {
    let path = target.split('?').next().unwrap();
    let asked = if method == "HEAD" { "get" } else { &method.to_lowercase() };
    let mut fits = operations().filter(|(named, ..)| *named == asked);
    let Some((.., operation)) = fits.find(|(_, pattern, _)| is_of(path, pattern)) else { return };
    let place = format!("{method} {target}: {reply:?}");
    let answer = &operation["responses"][reply.status.to_string()];
    assert!(answer.is_object(), "this status is not described: {place}");
    for name in reply.header_names().filter(|name| ours(name)) {
        let known = answer["headers"].get(name).is_some();
        assert!(known, "the header {name} is not described: {place}");
    }
    let Some(media) = reply.header("content-type") else { return };
    let content = &answer["content"][media.split(';').next().unwrap()];
    assert!(content.is_object(), "{media} is not described: {place}");
    if media.contains("json") && !reply.body.is_empty() {
        valid(&reply.json(), &content["schema"]).unwrap_or_else(|why| panic!("{why}: {place}"));
    }
}

/// Whether a header is one that holdfast defines.
fn ours(name: &str) -> bool {
    name.starts_with("holdfast-")
        || ["etag", "location", "fencing-token", "retry-after"].contains(&name)
}

/// Checks a value against a schema; the error is the reason.
pub(crate) fn valid(value: &Value, schema: &Value) -> Result<(), String> {
    if let Some(reference) = schema["$ref"].as_str() {
        let place = reference.strip_prefix('#').unwrap();
        let schema = document().pointer(place).ok_or(format!("no {reference}"))?;
        valid(value, schema)?;
    }
    let list = |key: &str| schema[key].as_array().into_iter().flatten();
    list("allOf").try_for_each(|schema| valid(value, schema))?;
    for key in ["anyOf", "oneOf"] {
        if schema[key].is_array() && !list(key).any(|schema| valid(value, schema).is_ok()) {
            return Err(format!("{value} fits nothing of {}", schema[key]));
        }
    }
    if schema["enum"].is_array() && !list("enum").any(|known| known == value) {
        return Err(format!("{value} is none of {}", schema["enum"]));
    }
    if schema.get("const").is_some_and(|only| only != value) {
        return Err(format!("{value} is not {}", schema["const"]));
    }
    of_type(value, &schema["type"])?;
    of_bounds(value, schema)?;
    if let Some(object) = value.as_object() {
        of_object(object, schema)?;
    }
    match (value.as_array(), &schema["items"]) {
        (Some(items), Value::Object(_)) => {
            items.iter().try_for_each(|item| valid(item, &schema["items"]))
        }
        _ => Ok(()),
    }
}

fn of_type(value: &Value, kind: &Value) -> Result<(), String> {
    let is = |kind: &str| match kind {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("an unknown type {other}"),
    };
    let fits = match kind {
        Value::String(kind) => is(kind),
        Value::Array(kinds) => kinds.iter().any(|kind| is(kind.as_str().unwrap())),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => kind.is_null(),
    };
    if fits { Ok(()) } else { Err(format!("{value} is not {kind}")) }
}

fn of_bounds(value: &Value, schema: &Value) -> Result<(), String> {
    let Some(number) = value.as_f64() else { return Ok(()) };
    let bound = |key: &str| schema[key].as_f64();
    let fits = bound("minimum").is_none_or(|min| number >= min)
        && bound("maximum").is_none_or(|max| number <= max)
        && bound("exclusiveMaximum").is_none_or(|end| number < end);
    if fits { Ok(()) } else { Err(format!("{value} is out of the bounds of {schema}")) }
}

fn of_object(object: &serde_json::Map<String, Value>, schema: &Value) -> Result<(), String> {
    for name in schema["required"].as_array().into_iter().flatten() {
        let name = name.as_str().unwrap();
        if !object.contains_key(name) {
            return Err(format!("'{name}' is missing"));
        }
    }
    for (name, value) in object {
        if let Some(schema) = schema["properties"].get(name) {
            valid(value, schema).map_err(|why| format!("{name}: {why}"))?;
        }
    }
    // A body with described fields has no other fields.
    let closed = schema["properties"].is_object() && schema.get("required").is_some();
    let composed = schema.get("$ref").is_some();
    match object.keys().find(|name| schema["properties"].get(name.as_str()).is_none()) {
        Some(stray) if closed && !composed => Err(format!("'{stray}' is not described")),
        _ => Ok(()),
    }
}

#[test]
fn the_judge_sees_what_is_wrong() {
    let grant = serde_json::json!({ "$ref": "#/components/schemas/GrantBody" });
    let good = r#"{"lock":"a","mode":"exclusive","token":1,"session":"me","expires_in_ms":1,"renewed":false,"waited_ms":0,"waiters":0,"entries":1,"floor":1,"revision":3}"#;
    let value: Value = serde_json::from_str(good).unwrap();
    valid(&value, &grant).unwrap();
    for (from, to) in [
        ("\"token\":1", "\"token\":-1"),
        ("\"token\":1", "\"token\":9007199254740992"),
        ("\"token\":1", "\"token\":\"1\""),
        ("\"token\":1,", ""),
        ("\"token\":1", "\"token\":1,\"surprise\":2"),
        ("exclusive", "odd"),
    ] {
        let value: Value = serde_json::from_str(&good.replace(from, to)).unwrap();
        assert!(valid(&value, &grant).is_err(), "{value}");
    }
    assert!(is_of("/v1/locks/a/b", "/v1/locks/{name}") && !is_of("/v1/locks/", "/v1/locks/{name}"));
    assert!(!is_of("/v1/sessions/a/keepalive", "/v1/sessions/{id}"));
}
