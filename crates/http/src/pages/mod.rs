//! Pages about the API for people: an error code, and the whole API. They contain no script and load nothing, so they work
//! where only the node can be reached. Their text comes from the operations and from `ErrorCode`.

pub(crate) mod docs;
pub(crate) mod error;
mod html;
pub(crate) mod openapi;
