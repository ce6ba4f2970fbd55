//! `GET /v1/namespaces/{namespace}`: one namespace.

use axum::http::StatusCode;
use futures_util::FutureExt as _;
use holdfast_api::{ErrorCode, NamespaceBody, Schemas};
use holdfast_service::Response;

use super::body;
use crate::call::CallContext;
use crate::operation::{Operation, ResponseSpec};
use crate::reply::Reply;
use crate::routes::NAMESPACE;
use crate::status::HttpError;

pub(crate) static OPERATION: Operation = Operation {
    summary: "Read a namespace with its quotas and what it uses",
    description: "A subject of the namespace needs no permission.",
    answers: || {
        vec![ResponseSpec::json(StatusCode::OK, "The namespace", Schemas::of::<NamespaceBody>)]
    },
    errors: &[ErrorCode::Forbidden, ErrorCode::NotFound],
    ..Operation::read("readNamespace", &NAMESPACE, |call| read(call).boxed())
};

async fn read(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let namespace = call.namespace()?;
    let Response { value: found, revision, .. } =
        call.run(call.service().namespace(namespace)).await?;
    Ok(Reply::json(StatusCode::OK, &body(found)).at(revision))
}
