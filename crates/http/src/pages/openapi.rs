//! `GET /openapi.json`: the API description for programs.

use std::future::ready;

use axum::http::StatusCode;
use futures_util::FutureExt as _;
use serde_json::json;

use crate::operation::{Operation, ResponseSpec};
use crate::reply::Reply;
use crate::routes::OPEN_API;

pub(crate) static OPERATION: Operation = Operation {
    summary: "Read the description of the API as an OpenAPI document",
    answers: || {
        vec![ResponseSpec::json(
            StatusCode::OK,
            "This document",
            |_| json!({ "type": "object", "required": ["openapi", "info", "paths"] }),
        )]
    },
    ..Operation::public("describeApi", &OPEN_API, |call| {
        let document = (call.state.documentation().openapi)();
        ready(Ok(Reply::made("application/json", document))).boxed()
    })
};
