//! The JSON schemas of the bodies, derived from their Rust types.
//!
//! Names, optional fields and enum values come from serde's attributes, descriptions from doc comments. Compiled only
//! with the feature `schema`.

use std::borrow::Cow;

use schemars::generate::{SchemaGenerator, SchemaSettings};
use schemars::{JsonSchema, Schema, json_schema};
use serde_json::{Map, Value};

use crate::{ErrorCode, Rfc3339Time};

/// Collects the schemas that an API description references.
#[derive(Debug)]
pub struct Schemas(SchemaGenerator);

impl Default for Schemas {
    fn default() -> Self {
        let mut settings = SchemaSettings::draft2020_12().for_serialize();
        settings.definitions_path = Cow::Borrowed("/components/schemas");
        settings.meta_schema = None;
        Self(settings.into_generator())
    }
}

impl Schemas {
    /// Returns a reference to the schema of a body, and collects the schema.
    pub fn of<T: JsonSchema>(&mut self) -> Value {
        self.0.subschema_for::<T>().into()
    }

    /// The collected schemas, by name.
    pub fn into_components(mut self) -> Map<String, Value> {
        self.0.take_definitions(true)
    }
}

impl JsonSchema for Rfc3339Time {
    fn schema_name() -> Cow<'static, str> {
        "Rfc3339Time".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "format": "date-time",
            "description": "A time as of RFC 3339 in UTC, to the millisecond, by the leader's clock.",
        })
    }
}

impl JsonSchema for ErrorCode {
    fn schema_name() -> Cow<'static, str> {
        "ErrorCode".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let names: Vec<&str> = Self::ALL.iter().map(|code| code.as_str()).collect();
        json_schema!({ "type": "string", "enum": names, "description": "The stable code of an error." })
    }
}
