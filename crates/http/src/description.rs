//! Renders the documentation of the API from the operations: the OpenAPI document, the page `/docs`, and a page for
//! each error code.
//!
//! This file has the example of each call: a curl line, and the answer of a real node. `responses.json` has the recorded answers.
//! The test `front_end/examples.rs` sends every call to a node, compares them, and rewrites the file with `HOLDFAST_REWRITE=1`.

mod html;
mod openapi;
#[cfg(test)]
mod reference;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use holdfast_api::{Absent, Param};
use serde_json::Value;

use crate::operation::{Method, Operation};
use crate::state::Documentation;

pub use openapi::description;

pub(crate) const DOCUMENTATION: Documentation = Documentation {
    openapi: description,
    page: html::docs_page,
    error_page: |code| html::error_page(code).into(),
};

/// The address of the node in the examples.
const ADDRESS: &str = "localhost:7400";

/// The method, the target and the body of an example call.
struct ExampleCall {
    method: &'static str,
    /// The path and the query.
    target: String,
    /// Empty for a call without a body.
    body: &'static str,
    /// Whether the call needs a permission in every mode, so that the line sends a credential.
    needs_credential: bool,
}

impl ExampleCall {
    fn of(operation: &Operation) -> Self {
        let path = match &operation.route.name {
            Some(param) => {
                operation.route.pattern.replace(&format!("{{{}}}", param.name), example_of(param))
            }
            None => operation.route.pattern.to_owned(),
        };
        let query = query(operation);
        let target = if query.is_empty() { path } else { format!("{path}?{query}") };
        let needs_credential = operation.needs_permission_in_every_mode();
        let (method, body) = (operation.method.as_str(), operation.example.body);
        Self { method, target, body, needs_credential }
    }

    /// The curl line, without the options that are defaults.
    fn curl(&self) -> String {
        let method = match self.method {
            method if method == Method::Get.as_str() => String::new(),
            method => format!(" -X {method}"),
        };
        let body = match self.body {
            "" => String::new(),
            body => format!(" -d '{body}'"),
        };
        let credential = if self.needs_credential { " -H @admin.token" } else { "" };
        format!("curl{credential}{method} '{ADDRESS}{}'{body}", self.target)
    }
}

/// The recorded answer; `None` if the call answers with something other than JSON.
fn recorded_answer(operation: &Operation) -> Option<&'static Value> {
    static RESPONSES: LazyLock<BTreeMap<String, Value>> = LazyLock::new(|| {
        serde_json::from_str(include_str!("description/responses.json")).unwrap_or_default()
    });
    RESPONSES.get(operation.id)
}

fn query(operation: &Operation) -> String {
    if !operation.example.query.is_empty() {
        return operation.example.query.to_owned();
    }
    let needed = operation.params.iter().filter(|param| {
        param.is_needed() && param.form.fits_query() && operation.example.body.is_empty()
    });
    let pairs = needed.map(|param| format!("{}={}", param.name, example_of(param)));
    pairs.collect::<Vec<_>>().join("&")
}

fn example_of(param: &Param) -> &'static str {
    match param.absent {
        Absent::Rejected(example) => example,
        Absent::Nothing
        | Absent::Word(_)
        | Absent::Number(_)
        | Absent::Duration(_)
        | Absent::Set
        | Absent::Unchanged => "",
    }
}
