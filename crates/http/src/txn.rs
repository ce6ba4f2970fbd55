//! Transactions: conditions, and operations that are done together or not at all.

use axum::http::StatusCode;

use holdfast_api::{OpBody, TxnBody, TxnParams, path_of};
use holdfast_service::Response;
use holdfast_types::{Caller, Multi, MultiReply, Op, ZnodePath};

use crate::call::CallContext;
use crate::reply::Reply;
use crate::status::{HttpError, of_refusal};
use crate::tree::request_id;

/// `POST /v1/txn`
pub(crate) async fn run(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let (query, request) = (call.parts.uri.query(), request_id(call)?);
    let body = std::mem::take(&mut call.body);
    let params = TxnParams::parse(query, &body, request).map_err(of_refusal)?;
    drop(body);
    let TxnParams { change, conditions, then, otherwise } = params;
    call.log_fields.session.clone_from(&change.session);
    let (on_then, on_otherwise) = (paths(&then), paths(&otherwise));
    let (session, request) = (change.session, change.request);
    let caller = Caller { session, request, ..Caller::default() };
    let multi = Multi { caller, conditions, then, otherwise };
    let done = call.run(call.service().multi(&call.context, multi)).await?;
    let Response { value: MultiReply { succeeded, results }, revision, .. } = done;
    let paths = if succeeded { on_then } else { on_otherwise };
    let results = paths.into_iter().zip(results).map(|(path, reply)| OpBody::new(path, reply));
    let body = TxnBody { succeeded, results: results.collect(), revision };
    Ok(Reply::json(StatusCode::OK, &body).at(revision))
}

fn paths(ops: &[Op]) -> Vec<ZnodePath> {
    ops.iter().map(path_of).cloned().collect()
}
