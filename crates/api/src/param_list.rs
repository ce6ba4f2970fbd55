//! The parameters that a call accepts: its own, and those that the front-end reads for many calls.

use serde_json::{Value, json};

use crate::param::{Form, Param};

/// The valid parameters of a call, or of an object in its body.
#[derive(Clone, Copy, Debug)]
pub struct ParamList {
    /// The subject of messages about them, such as "this call".
    pub what: &'static str,
    /// In the order of the API description.
    pub params: &'static [Param],
    /// Those that the front-end reads for many calls. One in `params` with the same name replaces it.
    pub implied: &'static [Param],
}

impl ParamList {
    /// The parameters of a call.
    pub const fn of_call(params: &'static [Param]) -> Self {
        Self { what: "this call", params, implied: &[] }
    }

    /// The same parameters with another subject.
    #[must_use]
    pub const fn of(self, what: &'static str) -> Self {
        Self { what, ..self }
    }

    /// The same parameters, and those that the front-end reads.
    #[must_use]
    pub const fn and(self, implied: &'static [Param]) -> Self {
        Self { implied, ..self }
    }

    /// Every parameter once, the own ones first.
    pub fn iter(&self) -> impl Iterator<Item = &'static Param> + Clone {
        let own = self.params;
        let is_new = move |param: &&Param| !own.iter().any(|own| own.name == param.name);
        own.iter().chain(self.implied.iter().filter(is_new))
    }

    /// Whether a parameter has this name.
    pub fn takes(&self, name: &str) -> bool {
        self.iter().any(|param| param.name == name)
    }

    pub(crate) fn find(&self, name: &str) -> Option<&'static Param> {
        self.iter().find(|param| param.name == name && param.form != Form::Labels)
    }

    pub(crate) fn takes_labels(&self) -> bool {
        self.iter().any(|param| param.form == Form::Labels)
    }

    pub(crate) fn listed(&self) -> String {
        let name =
            |param: &Param| if param.form == Form::Labels { "label.KEY" } else { param.name };
        let all: Vec<&str> = self.iter().map(name).collect();
        if all.is_empty() {
            format!("{} takes no parameters", self.what)
        } else {
            format!("{} takes {}", self.what, all.join(", "))
        }
    }
}

/// The JSON object with these parameters as properties, and nothing else.
pub fn object_schema(list: &ParamList) -> Value {
    let property = |param: &Param| {
        let schema = if param.form.is_repeated() && param.form.fits_query() {
            json!({ "type": "array", "items": param.schema() })
        } else {
            param.schema()
        };
        (param.name.to_owned(), described(schema, &param.explained()))
    };
    let properties: serde_json::Map<String, Value> = list.iter().map(property).collect();
    json!({ "type": "object", "properties": properties, "additionalProperties": false })
}

fn described(mut schema: Value, about: &str) -> Value {
    if let Some(object) = schema.as_object_mut() {
        object.insert("description".to_owned(), Value::from(about));
    }
    schema
}
