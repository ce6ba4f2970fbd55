//! Renders the documentation of the API from the operations: the OpenAPI document, the page `/docs`, and a page for
//! each error code.

mod docs_page;
mod example;
mod html;
mod openapi;
#[cfg(test)]
mod reference;

use bytes::Bytes;

use crate::state::Documentation;

pub(crate) const DOCUMENTATION: Documentation = Documentation {
    openapi: description,
    page: docs_page::docs_page,
    error_page: |code| html::error_page(code).into(),
};

/// The body of `/openapi.json`: an OpenAPI 3.1 document as JSON text. Rendered once.
pub fn description() -> Bytes {
    openapi::document()
}
