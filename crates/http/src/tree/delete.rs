//! `DELETE /v1/tree/{path}`: delete a node.

use axum::http::{HeaderName, StatusCode};
use holdfast_api::parameters::tree::{DELETE_RECURSIVE, SESSION};
use holdfast_api::{CallParams as _, ErrorCode, HOLDFAST_DELETED, params};
use holdfast_types::{Op, OpReply, SessionName};

use super::{IF_MATCH, caller, change, unexpected_reply};
use crate::access::TREE_WRITE;
use crate::call::{CallContext, HandlerResult};
use crate::operation::{Header, Method, Operation, ResponseSpec, handler};
use crate::precondition::Precondition;
use crate::reply::Reply;
use crate::routes::TREE;

pub(crate) static OPERATION: Operation = Operation {
    summary: "Delete a znode",
    params: DeleteParams::LIST,
    headers: &[IF_MATCH],
    answers: || {
        let count = Header::number(HOLDFAST_DELETED, "The number of deleted znodes");
        vec![ResponseSpec::empty(StatusCode::NO_CONTENT, "The znode is deleted").with(&[count])]
    },
    errors: &[
        ErrorCode::QuotaExceeded,
        ErrorCode::NotFound,
        ErrorCode::NotEmpty,
        ErrorCode::SessionExpired,
        ErrorCode::VersionMismatch,
    ],
    ..Operation::change("deleteZnode", Method::Delete, &TREE, TREE_WRITE, handler!(delete))
};

params! {
    struct DeleteParams {
        session: Option<SessionName> = SESSION,
        recursive: bool = DELETE_RECURSIVE,
    }
}

async fn delete(call: &mut CallContext<'_>) -> HandlerResult {
    let path = call.znode()?;
    let DeleteParams { session, recursive } = call.params()?;
    let caller = caller(call, session);
    let version = Precondition::of(&call.parts.headers)?.version()?;
    match change(call, caller, Op::Delete { path, version, recursive }).await? {
        (OpReply::Deleted { count }, revision) => {
            let header = HeaderName::from_static(HOLDFAST_DELETED);
            Ok(Reply::empty(StatusCode::NO_CONTENT).at(revision).with_header(header, count.into()))
        }
        _ => Err(unexpected_reply()),
    }
}
