//! Checks the response to every test call against the API description.
//!
//! The checker supports the part of JSON Schema that the description uses.

use std::sync::OnceLock;

use serde_json::Value;

use crate::client::Reply;

/// The generated API description.
pub(crate) fn document() -> &'static Value {
    static DOCUMENT: OnceLock<Value> = OnceLock::new();
    DOCUMENT.get_or_init(|| serde_json::from_slice(&holdfast_http::description()).unwrap())
}

/// Returns every operation: method in lower case, path, and its description.
pub(crate) fn operations() -> impl Iterator<Item = (&'static str, &'static str, &'static Value)> {
    let paths = document()["paths"].as_object().unwrap().iter();
    paths.flat_map(|(path, methods)| {
        let methods = methods.as_object().unwrap().iter();
        methods.map(move |(method, operation)| (method.as_str(), path.as_str(), operation))
    })
}

/// True if a path matches a pattern. Names of locks and paths may contain `/`, ids may not.
fn path_matches(path: &str, pattern: &str) -> bool {
    let Some((before, rest)) = pattern.split_once('{') else { return path == pattern };
    let (name, after) = rest.split_once('}').unwrap();
    let variable = path.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
    variable.is_some_and(|text| !text.is_empty() && (name != "id" || !text.contains('/')))
}

/// Checks a response against the description. Skips calls that the description does not contain.
#[track_caller]
pub(crate) fn check(method: &str, target: &str, reply: &Reply) {
    let path = target.split('?').next().unwrap();
    let name = if method == "HEAD" { "get" } else { &method.to_lowercase() };
    let mut fits = operations().filter(|(described, ..)| *described == name);
    let Some((.., operation)) = fits.find(|(_, pattern, _)| path_matches(path, pattern)) else {
        return;
    };
    let call = format!("{method} {target}: {reply:?}");
    let response = &operation["responses"][reply.status.to_string()];
    assert!(response.is_object(), "this status is not described: {call}");
    for name in reply.header_names().filter(|name| is_described_header(name)) {
        let known = response["headers"].get(name).is_some();
        assert!(known, "the header {name} is not described: {call}");
    }
    let Some(media) = reply.header("content-type") else { return };
    let content = &response["content"][media.split(';').next().unwrap()];
    assert!(content.is_object(), "{media} is not described: {call}");
    if media.contains("json") && !reply.body.is_empty() {
        validate(&reply.json(), &content["schema"]).unwrap_or_else(|why| panic!("{why}: {call}"));
    }
}

/// True if the description must list this header in the response.
fn is_described_header(name: &str) -> bool {
    name.starts_with("holdfast-")
        || ["etag", "location", "fencing-token", "retry-after"].contains(&name)
}

/// Checks a value against a schema; the error is the reason.
pub(crate) fn validate(value: &Value, schema: &Value) -> Result<(), String> {
    if let Some(reference) = schema["$ref"].as_str() {
        let pointer = reference.strip_prefix('#').unwrap();
        let schema = document().pointer(pointer).ok_or(format!("there is no {reference}"))?;
        validate(value, schema)?;
    }
    let list = |key: &str| schema[key].as_array().into_iter().flatten();
    list("allOf").try_for_each(|schema| validate(value, schema))?;
    for key in ["anyOf", "oneOf"] {
        if schema[key].is_array() && !list(key).any(|schema| validate(value, schema).is_ok()) {
            return Err(format!("{value} matches none of {}", schema[key]));
        }
    }
    if schema["enum"].is_array() && !list("enum").any(|known| known == value) {
        return Err(format!("{value} is not one of {}", schema["enum"]));
    }
    if schema.get("const").is_some_and(|only| only != value) {
        return Err(format!("{value} is not {}", schema["const"]));
    }
    check_type(value, &schema["type"])?;
    check_bounds(value, schema)?;
    if let Some(object) = value.as_object() {
        check_object(object, schema)?;
    }
    match (value.as_array(), &schema["items"]) {
        (Some(items), Value::Object(_)) => {
            items.iter().try_for_each(|item| validate(item, &schema["items"]))
        }
        _ => Ok(()),
    }
}

fn check_type(value: &Value, kind: &Value) -> Result<(), String> {
    let is = |kind: &str| match kind {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("unknown type {other}"),
    };
    let fits = match kind {
        Value::String(kind) => is(kind),
        Value::Array(kinds) => kinds.iter().any(|kind| is(kind.as_str().unwrap())),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => kind.is_null(),
    };
    if fits { Ok(()) } else { Err(format!("{value} is not {kind}")) }
}

fn check_bounds(value: &Value, schema: &Value) -> Result<(), String> {
    let Some(number) = value.as_f64() else { return Ok(()) };
    let bound = |key: &str| schema[key].as_f64();
    let fits = bound("minimum").is_none_or(|min| number >= min)
        && bound("maximum").is_none_or(|max| number <= max)
        && bound("exclusiveMaximum").is_none_or(|end| number < end);
    if fits { Ok(()) } else { Err(format!("{value} is out of bounds of {schema}")) }
}

fn check_object(object: &serde_json::Map<String, Value>, schema: &Value) -> Result<(), String> {
    for name in schema["required"].as_array().into_iter().flatten() {
        let name = name.as_str().unwrap();
        if !object.contains_key(name) {
            return Err(format!("'{name}' is missing"));
        }
    }
    for (name, value) in object {
        if let Some(schema) = schema["properties"].get(name) {
            validate(value, schema).map_err(|why| format!("{name}: {why}"))?;
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
fn the_checker_rejects_bodies_that_violate_their_schema() {
    let grant = serde_json::json!({ "$ref": "#/components/schemas/GrantBody" });
    let good = r#"{"lock":"a","mode":"exclusive","token":1,"ticket":1,"session":"me","expires_in_ms":1,"renewed":false,"waited_ms":0,"waiters":0,"hold_count":1,"permits":1,"min_valid_token":1,"revision":3}"#;
    let value: Value = serde_json::from_str(good).unwrap();
    validate(&value, &grant).unwrap();
    for (from, to) in [
        ("\"token\":1", "\"token\":-1"),
        ("\"token\":1", "\"token\":9007199254740992"),
        ("\"token\":1", "\"token\":\"1\""),
        ("\"token\":1,", ""),
        ("\"token\":1", "\"token\":1,\"surprise\":2"),
        ("exclusive", "odd"),
    ] {
        let value: Value = serde_json::from_str(&good.replace(from, to)).unwrap();
        assert!(validate(&value, &grant).is_err(), "{value}");
    }
    assert!(
        path_matches("/v1/locks/a/b", "/v1/locks/{name}")
            && !path_matches("/v1/locks/", "/v1/locks/{name}")
    );
    assert!(!path_matches("/v1/sessions/a/keepalive", "/v1/sessions/{id}"));
}
