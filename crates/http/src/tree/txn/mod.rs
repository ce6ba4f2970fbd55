//! `POST /v1/txn`: check conditions and change nodes, all or nothing. `items` parses the lists of the body.

mod items;

use axum::http::StatusCode;
use futures_util::FutureExt as _;
use holdfast_api::parameters::tree::SESSION;
use holdfast_api::parameters::{REDIRECT, REQUEST};
use holdfast_api::{
    CallParams as _, ErrorCode, Form, JsonPairs, OpBody, Param, ParamError, ParamField, RawParams,
    Schemas, TxnBody, params, path_of,
};
use holdfast_service::Response;
use holdfast_types::{Condition, Multi, MultiReply, Op, RequestNumber, SessionName, ZnodePath};
use serde::Deserialize;

use super::caller;
use crate::body::BodyKind;
use crate::call::CallContext;
use crate::idempotency;
use crate::late_copies::LateCopies;
use crate::operation::{Example, Method, Operation, ResponseSpec};
use crate::reply::Reply;
use crate::routes::TXN;
use crate::status::HttpError;

pub(crate) use items::{condition_schema, operation_schema};

const FORM: &str =
    r#"send {"if":[{"path":"/a","version":3}],"then":[{"set":"/a","data":"x"}],"else":[]}"#;

pub(crate) static OPERATION: Operation = Operation {
    summary: "Check conditions and change several znodes, all or nothing",
    description: "If every condition in if holds, the call applies the operations in then, otherwise the operations in \
        else. if, then and else are valid only in the body.",
    params: TxnParams::LIST,
    body: BodyKind::Txn,
    example: Example {
        query: "",
        body: r#"{"if": [{"path": "/cfg", "version": 0}], "then": [{"set": "/cfg", "data": "green"}]}"#,
    },
    answers: || {
        let about = "The list that was applied, and the result of each operation";
        vec![ResponseSpec::json(StatusCode::OK, about, Schemas::of::<TxnBody>)]
    },
    errors: &[
        ErrorCode::Forbidden,
        ErrorCode::QuotaExceeded,
        ErrorCode::NotFound,
        ErrorCode::ShardsMismatch,
        ErrorCode::InUse,
        ErrorCode::EphemeralParent,
        ErrorCode::ZnodeExists,
        ErrorCode::NotEmpty,
        ErrorCode::SessionExpired,
        ErrorCode::VersionMismatch,
    ],
    ..Operation::write("transact", Method::Post, &TXN, LateCopies::Request, |call| {
        transact(call).boxed()
    })
};

params! {
    struct TxnParams as "a transaction" {
        session: Option<SessionName> = SESSION,
        _request: Option<RequestNumber> = REQUEST,
        _conditions: InBody =
            Param::of("if", Form::Conditions, "The conditions; an empty list holds"),
        _then: InBody =
            Param::of("then", Form::Operations, "Applied if every condition holds, all or nothing"),
        _otherwise: InBody =
            Param::of("else", Form::Operations, "Applied if a condition fails, all or nothing"),
        _redirect: bool = REDIRECT,
    }
}

/// A parameter that is valid in the body only, never in the query.
#[derive(Clone, Copy, Debug)]
struct InBody;

impl ParamField for InBody {
    fn read(param: &Param, fields: &RawParams<'_>) -> Result<Self, ParamError> {
        if fields.value(param.name).is_none() {
            return Ok(Self);
        }
        let detail = format!("'{}' is valid only in the body", param.name);
        Err(ParamError::of(param.name, ErrorCode::InvalidArgument, detail).hint(FORM))
    }
}

/// The body before its items are parsed.
#[derive(Debug, Deserialize)]
struct Lists {
    #[serde(rename = "if")]
    conditions: Option<Vec<JsonPairs>>,
    then: Option<Vec<JsonPairs>>,
    #[serde(rename = "else")]
    otherwise: Option<Vec<JsonPairs>>,
    /// The remaining parameters of the call.
    #[serde(flatten)]
    rest: JsonPairs,
}

/// The parsed items of the three lists.
#[derive(Debug)]
struct Items {
    conditions: Vec<Condition>,
    then: Vec<Op>,
    otherwise: Vec<Op>,
}

async fn transact(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    // The body may be large, so it is dropped before the transaction waits for the commit.
    let body = std::mem::take(&mut call.body);
    let mut lists = lists(&body)?;
    call.add_params(std::mem::take(&mut lists.rest))?;
    idempotency::number(call, "transact", &body)?;
    drop(body);
    if let Some(redirect) = call.redirect_to_leader() {
        return Ok(redirect);
    }
    let TxnParams { session, .. } = call.params()?;
    let caller = caller(call, session);
    let items = items(lists, caller.session.is_some())?;
    let Items { mut conditions, then, otherwise } = items;
    for condition in &mut conditions {
        if let Condition::SessionOpen { session } = condition {
            *session = call.whole_session(session.clone())?;
        }
    }
    let (on_then, on_otherwise) = (paths(&then), paths(&otherwise));
    let multi = Multi { caller, conditions, then, otherwise };
    let done = call.run(call.service().multi(multi)).await?;
    let Response { value: MultiReply { succeeded, results }, revision, .. } = done;
    let paths = if succeeded { on_then } else { on_otherwise };
    let results = paths.into_iter().zip(results).map(|(path, reply)| OpBody::new(path, reply));
    let body = TxnBody { succeeded, results: results.collect(), revision };
    Ok(Reply::json(StatusCode::OK, &body).at(revision))
}

fn lists(body: &[u8]) -> Result<Lists, ParamError> {
    let lists: Lists = serde_json::from_slice(body).map_err(|error| {
        let detail = format!("the body is not a transaction: {error}");
        ParamError::new(ErrorCode::InvalidArgument, detail).hint(FORM)
    })?;
    if [&lists.conditions, &lists.then, &lists.otherwise].iter().all(|list| list.is_none())
        && lists.rest.keys().all(|key| TxnParams::LIST.takes(key))
    {
        let detail = "a transaction without 'if', 'then' and 'else' does nothing";
        return Err(ParamError::new(ErrorCode::InvalidArgument, detail).hint(FORM));
    }
    Ok(lists)
}

/// Parses each item. `has_session`: the transaction names a session, which owns its ephemeral znodes.
fn items(lists: Lists, has_session: bool) -> Result<Items, ParamError> {
    let operation = |pairs| items::operation(pairs, has_session);
    Ok(Items {
        conditions: each("if", lists.conditions, items::condition)?,
        then: each("then", lists.then, operation)?,
        otherwise: each("else", lists.otherwise, operation)?,
    })
}

/// Parses every item of a list. An error names the list and the item.
fn each<T>(
    list: &str,
    items: Option<Vec<JsonPairs>>,
    read: impl Fn(JsonPairs) -> Result<T, ParamError>,
) -> Result<Vec<T>, ParamError> {
    let located = |(index, item)| {
        read(item).map_err(|mut error: ParamError| {
            error.detail = format!("{list}[{index}]: {}", error.detail);
            error
        })
    };
    items.unwrap_or_default().into_iter().enumerate().map(located).collect()
}

fn paths(ops: &[Op]) -> Vec<ZnodePath> {
    ops.iter().map(path_of).cloned().collect()
}

#[cfg(test)]
mod tests;
