//! `GET /docs`: the API reference on one page, for human readers.

use std::future::ready;

use axum::http::StatusCode;
use futures_util::FutureExt as _;

use super::html_reply;
use crate::operation::{Content, Operation, ResponseSpec};
use crate::routes::DOCS;

pub(crate) static OPERATION: Operation = Operation {
    summary: "Read the description of the API as a web page",
    answers: || {
        vec![ResponseSpec::empty(StatusCode::OK, "The page").or("text/html", Content::Text)]
    },
    ..Operation::public("readDocs", &DOCS, |call| {
        ready(Ok(html_reply((call.state.documentation().page)()))).boxed()
    })
};
