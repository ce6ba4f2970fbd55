//! `GET /version`: the release of the running node.

use std::future::ready;

use axum::http::StatusCode;
use futures_util::FutureExt as _;
use holdfast_api::{Schemas, VersionBody};

use crate::call::CallContext;
use crate::operation::{Operation, ResponseSpec};
use crate::reply::Reply;
use crate::routes::VERSION;

pub(crate) static OPERATION: Operation = Operation {
    summary: "Read the version of the running node",
    answers: || vec![ResponseSpec::json(StatusCode::OK, "The version", Schemas::of::<VersionBody>)],
    ..Operation::public("readVersion", &VERSION, |call| ready(Ok(version(call))).boxed())
};

fn version(call: &CallContext<'_>) -> Reply {
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let commit = call.state.config().commit.clone();
    Reply::json(StatusCode::OK, &VersionBody { version, commit })
}
