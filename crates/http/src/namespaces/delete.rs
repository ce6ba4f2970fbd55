//! `DELETE /v1/namespaces/{namespace}`: delete an unused namespace.

use axum::http::StatusCode;
use futures_util::FutureExt as _;
use holdfast_api::parameters::{CALL_SESSION, REDIRECT, REQUEST};
use holdfast_api::{CallParams as _, ErrorCode, params};
use holdfast_types::{AuthChange, RequestNumber, Right, SessionName};

use crate::access::HeadAccess;
use crate::body::BodyKind;
use crate::call::CallContext;
use crate::late_copies::LateCopies;
use crate::operation::{Method, Operation, ResponseSpec};
use crate::reply::Reply;
use crate::routes::NAMESPACE;
use crate::status::HttpError;

pub(crate) static OPERATION: Operation = Operation {
    summary: "Delete a namespace to which nothing belongs",
    description: "Its subjects would no longer be bound to it: delete them first, and its sessions, znodes and recipes.",
    params: DeleteNamespaceParams::LIST,
    answers: || {
        vec![ResponseSpec::empty(StatusCode::NO_CONTENT, "The namespace does not exist any more")]
    },
    errors: &[ErrorCode::Forbidden, ErrorCode::NotFound, ErrorCode::NamespaceInUse],
    ..Operation::write(
        "deleteNamespace",
        Method::Delete,
        &NAMESPACE,
        LateCopies::Request,
        HeadAccess::AnyOf(&[Right::AuthManage]),
        BodyKind::SMALL,
        |call| delete(call).boxed(),
    )
};

params! {
    struct DeleteNamespaceParams {
        _session: Option<SessionName> = CALL_SESSION,
        _request: Option<RequestNumber> = REQUEST,
        _redirect: bool = REDIRECT,
    }
}

async fn delete(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let namespace = call.namespace()?;
    let DeleteNamespaceParams { .. } = call.params()?;
    let change = AuthChange::DeleteNamespace { namespace };
    let changed = call.run(call.service().change_auth(change)).await?;
    Ok(Reply::empty(StatusCode::NO_CONTENT).at(changed.revision))
}
