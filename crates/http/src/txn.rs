//! Transactions: conditions, and operations that are done together or not at all.

use axum::http::StatusCode;

use holdfast_api::{OpBody, TxnBody, TxnParams, path_of};
use holdfast_service::Response;
use holdfast_types::{Caller, Multi, MultiReply, Op, ZnodePath};

use crate::exchange::Exchange;
use crate::reply::Reply;
use crate::status::{Fault, of_refusal};
use crate::tree::request_id;

/// `POST /v1/txn`
pub(crate) async fn run(exchange: &mut Exchange<'_>) -> Result<Reply, Fault> {
    let (query, request) = (exchange.parts.uri.query(), request_id(exchange)?);
    let body = std::mem::take(&mut exchange.body);
    let params = TxnParams::parse(query, &body, request).map_err(of_refusal)?;
    drop(body);
    if let Some(elsewhere) = exchange.elsewhere(params.change.redirect) {
        return Ok(elsewhere);
    }
    let TxnParams { change, conditions, then, otherwise } = params;
    exchange.subject.session.clone_from(&change.session);
    let (on_then, on_otherwise) = (paths(&then), paths(&otherwise));
    let (session, request) = (change.session, change.request);
    let caller = Caller { session, request, ..Caller::default() };
    let multi = Multi { caller, conditions, then, otherwise };
    let done = exchange.ask(exchange.service().multi(&exchange.context, multi)).await?;
    let Response { value: MultiReply { succeeded, results }, revision, .. } = done;
    let paths = if succeeded { on_then } else { on_otherwise };
    let results = paths.into_iter().zip(results).map(|(path, reply)| OpBody::new(path, reply));
    let body = TxnBody { succeeded, results: results.collect(), revision };
    Ok(Reply::json(StatusCode::OK, &body).at(revision))
}

fn paths(ops: &[Op]) -> Vec<ZnodePath> {
    ops.iter().map(path_of).cloned().collect()
}
