//! `GET /v1/namespaces`: the namespaces with their quotas.

use axum::http::StatusCode;
use futures_util::FutureExt as _;
use holdfast_api::{ErrorCode, NamespacesBody, Schemas};
use holdfast_service::Response;

use super::body;
use crate::call::CallContext;
use crate::operation::{Operation, ResponseSpec};
use crate::reply::Reply;
use crate::routes::NAMESPACES;
use crate::status::HttpError;

pub(crate) static OPERATION: Operation = Operation {
    summary: "List the namespaces with their quotas and what they use",
    answers: || {
        let about = "The namespaces, by name";
        vec![ResponseSpec::json(StatusCode::OK, about, Schemas::of::<NamespacesBody>)]
    },
    errors: &[ErrorCode::Forbidden],
    ..Operation::read("listNamespaces", &NAMESPACES, |call| list(call).boxed())
};

async fn list(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let Response { value: found, revision, .. } = call.run(call.service().namespaces()).await?;
    let namespaces = found.into_iter().map(body).collect();
    Ok(Reply::json(StatusCode::OK, &NamespacesBody { namespaces }).at(revision))
}
