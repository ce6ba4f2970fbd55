//! Checks that the document contains every call, error code and schema, and no unused schema.

use std::collections::BTreeSet;

use super::*;

fn parsed() -> Value {
    serde_json::from_slice(&description()).unwrap()
}

#[test]
fn every_operation_is_described_with_a_unique_id() {
    let ids: BTreeSet<&str> = OPERATIONS.iter().map(|operation| operation.id).collect();
    assert_eq!(ids.len(), OPERATIONS.len(), "an operationId is used twice");
    let document = parsed();
    let paths = document["paths"].as_object().unwrap();
    let written: usize = paths.values().map(|path| path.as_object().unwrap().len()).sum();
    assert_eq!(written, OPERATIONS.len());
}

#[test]
fn every_error_code_is_listed_by_an_operation_or_returned_by_the_router() {
    // The router returns the first. No call is above the first feature level yet.
    let router = [ErrorCode::MethodNotAllowed, ErrorCode::LevelTooLow];
    for code in ErrorCode::ALL {
        let returned = OPERATIONS.iter().any(|operation| operation.all_errors().contains(code));
        assert_eq!(
            returned,
            !router.contains(code),
            "{code}: add it to the operations that return it"
        );
    }
    let listed = &parsed()["components"]["schemas"]["ErrorCode"]["enum"];
    let names: Vec<&str> = ErrorCode::ALL.iter().map(|code| code.as_str()).collect();
    assert_eq!(*listed, serde_json::json!(names));
}

/// Every `$ref` of a value.
fn references<'v>(value: &'v Value, found: &mut BTreeSet<&'v str>) {
    match value {
        Value::Object(object) => {
            found.extend(object.get("$ref").and_then(Value::as_str));
            object.values().for_each(|value| references(value, found));
        }
        Value::Array(values) => values.iter().for_each(|value| references(value, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn every_reference_has_a_schema_and_every_schema_is_referenced() {
    let document = parsed();
    let mut found = BTreeSet::new();
    references(&document, &mut found);
    let found: BTreeSet<&str> =
        found.iter().filter_map(|name| name.strip_prefix("#/components/schemas/")).collect();
    let schemas = document["components"]["schemas"].as_object().unwrap();
    let there: BTreeSet<&str> = schemas.keys().map(String::as_str).collect();
    assert_eq!(found, there);
}

#[test]
fn schemas_have_field_descriptions_required_fields_and_bounds() {
    let document = parsed();
    let grant = &document["components"]["schemas"]["GrantBody"];
    assert!(grant["properties"]["token"]["description"].is_string(), "{grant}");
    let required: Vec<&str> =
        grant["required"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    assert!(required.contains(&"token") && !required.contains(&"owner"), "{required:?}");
    let limit = document["paths"]["/v1/locks"]["get"]["parameters"].as_array().unwrap().iter();
    let limit = limit.into_iter().find(|parameter| parameter["name"] == "limit").unwrap();
    let bounds =
        serde_json::json!({ "type": "integer", "minimum": 1, "maximum": 1000, "default": 100 });
    assert_eq!(limit["schema"], bounds);
}

/// Generators of clients name the model of a request body after the operation, e.g. `CountDownBody` for `countDown`.
#[test]
fn no_schema_has_the_name_that_a_generator_gives_to_a_request_body() {
    let document = parsed();
    let schemas = document["components"]["schemas"].as_object().unwrap();
    for operation in OPERATIONS.iter().filter(|operation| operation.body != BodyKind::None) {
        let (first, rest) = operation.id.split_at(1);
        let body = format!("{}{rest}Body", first.to_uppercase());
        assert!(!schemas.contains_key(&body), "rename the schema {body}");
    }
}
