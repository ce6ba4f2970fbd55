//! The document holds together: every action, parameter, code and body is in it, and nothing else is.

use std::collections::BTreeSet;

use super::*;
use crate::action::Route;

fn parsed() -> Value {
    serde_json::from_slice(&document()).unwrap()
}

#[test]
fn every_parameter_is_described_and_every_description_has_a_parameter() {
    for (action, operation) in all() {
        let missing = operation.keys.undescribed();
        assert!(
            missing.is_empty(),
            "{action:?}: {missing:?} is taken but not described, or the reverse: \
             one line each in `about` of its `Keys` in crates/api/src/params"
        );
    }
}

#[test]
fn every_action_that_a_method_leads_to_is_an_operation_and_no_other() {
    for action in Action::ALL {
        let described = operations::of(*action).is_some();
        assert_eq!(action.method().is_some(), described, "{action:?}");
    }
    let ids: BTreeSet<&str> = all().map(|(_, operation)| operation.id).collect();
    assert_eq!(ids.len(), all().count(), "an operationId is used twice");
    let document = parsed();
    let paths = document["paths"].as_object().unwrap();
    let written: usize = paths.values().map(|path| path.as_object().unwrap().len()).sum();
    assert_eq!(written, all().count());
    for route in Route::ALL.iter().filter(|route| **route != Route::Other) {
        assert!(paths.contains_key(route.pattern()), "{route:?}");
    }
}

#[test]
fn every_code_is_answered_by_some_operation_or_by_the_door() {
    let door = [ErrorCode::MethodNotAllowed];
    for code in ErrorCode::ALL {
        let told = all().any(|(action, operation)| codes(action, &operation).contains(code));
        assert_eq!(told, !door.contains(code), "{code}: add it to the operations that answer it");
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
fn everything_that_is_referred_to_is_there_and_everything_there_is_referred_to() {
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
fn bodies_are_described_field_by_field() {
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
