//! `GET /openapi.json`: the description of the API for programs.

use std::future::ready;

use axum::http::StatusCode;
use bytes::Bytes;
use futures_util::FutureExt as _;
use serde_json::json;

use crate::openapi::document;
use crate::operation::{Answer, Operation};
use crate::reply::Reply;
use crate::routes::OPEN_API;

pub(crate) static OPERATION: Operation = Operation {
    summary: "This description of the API",
    answers: || {
        vec![Answer::json(
            StatusCode::OK,
            "This document",
            |_| json!({ "type": "object", "required": ["openapi", "info", "paths"] }),
        )]
    },
    ..Operation::public("describeApi", &OPEN_API, |_| {
        ready(Ok(Reply::made("application/json", description()))).boxed()
    })
};

/// The description of the API, as `/openapi.json` serves it: an `OpenAPI` 3.1 document, JSON text.
pub fn description() -> Bytes {
    document()
}
