//! The JSON schemas of the bodies, derived from the types that write them.
//!
//! Each body is described once, under its name. Names, optional fields and the words of enums come from serde's attributes,
//! the texts from the documentation of the fields. Only with the feature `schema`.

use std::borrow::Cow;

use schemars::generate::{SchemaGenerator, SchemaSettings};
use schemars::{JsonSchema, Schema, json_schema};
use serde_json::{Map, Value};

use crate::ErrorCode;

/// The schemas that a description refers to, gathered while it is made.
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
    /// A reference to the schema of a body.
    pub fn of<T: JsonSchema>(&mut self) -> Value {
        self.0.subschema_for::<T>().into()
    }

    /// Every schema that was referred to, by name.
    pub fn into_components(mut self) -> Map<String, Value> {
        self.0.take_definitions(true)
    }
}

impl JsonSchema for ErrorCode {
    fn schema_name() -> Cow<'static, str> {
        "ErrorCode".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let names: Vec<&str> = Self::ALL.iter().map(|code| code.as_str()).collect();
        json_schema!({ "type": "string", "enum": names, "description": "Why a call failed; stable." })
    }
}
