//! `GET /docs/try-it.js`: the script of `/docs` that sends the examples.

use std::future::ready;

use axum::http::StatusCode;
use bytes::Bytes;
use futures_util::FutureExt as _;

use crate::operation::{Content, Operation, ResponseSpec};
use crate::reply::Reply;
use crate::routes::TRY_IT;

const SCRIPT: &str = include_str!("try_it.js");

pub(crate) static OPERATION: Operation = Operation {
    summary: "Read the script of /docs that sends the examples",
    answers: || {
        vec![ResponseSpec::empty(StatusCode::OK, "The script").or("text/javascript", Content::Text)]
    },
    ..Operation::public("readTryIt", &TRY_IT, |_| {
        ready(Ok(Reply::made(
            "text/javascript; charset=utf-8",
            Bytes::from_static(SCRIPT.as_bytes()),
        )))
        .boxed()
    })
};
