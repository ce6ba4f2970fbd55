//! `POST /v1/txn`: check conditions and change nodes, all or nothing. `items` parses the conditions and the operations.
//!
//! Bound: [`ITEMS_MAX`] items of the three lists; the reader stops at the first item above it and keeps nothing of the rest.

mod items;

use std::cell::Cell;
use std::fmt;

use axum::http::StatusCode;
use bytes::Bytes;
use holdfast_api::parameters::tree::SESSION;
use holdfast_api::{
    CallParams as _, ErrorCode, Form, JsonPairs, OpBody, Param, ParamError, ParamField, RawParams,
    Schemas, TxnBody, params, path_of,
};
use holdfast_service::{Failure, Response};
use holdfast_types::{
    Bound, Condition, Multi, MultiReply, Op, Rejection, Right, SessionName, ZnodePath,
};
use serde::de::{
    DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor,
};

use super::caller;
use crate::access::CallAccess;
use crate::body::BodyKind;
use crate::call::{CallContext, HandlerResult};
use crate::operation::{Example, Method, Operation, ResponseSpec, handler};
use crate::precondition::number_call;
use crate::reply::Reply;
use crate::routes::TXN;
use crate::status::{HttpError, problem};

pub(crate) use items::{condition_schema, operation_schema};

const FORM: &str =
    r#"send {"if":[{"path":"/a","version":3}],"then":[{"set":"/a","data":"x"}],"else":[]}"#;

const ACCESS: CallAccess = CallAccess::AnyOf {
    rights: &[Right::TreeRead, Right::TreeWrite, Right::LockCheck, Right::SessionRead],
    names: "the paths and the locks of the conditions and the operations",
    decided_in: "crates/machine/src/auth/needed.rs: needed_by_multi",
};

pub(crate) static OPERATION: Operation = Operation {
    summary: "Check conditions and change several znodes, all or nothing",
    description: "If every condition in if holds, the call applies the operations in then, otherwise the operations in \
        else. if, then and else are valid only in the body.",
    params: TxnParams::LIST,
    example: Example {
        query: "",
        body: r#"{"if": [{"path": "/cfg", "version": 0}], "then": [{"set": "/cfg", "data": "green"}]}"#,
    },
    answers: || {
        let about = "The list that was applied, and the result of each operation";
        ResponseSpec::ok(about, Schemas::of::<TxnBody>)
    },
    errors: &[
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
    body: BodyKind::Txn,
    ..Operation::change("transact", Method::Post, &TXN, ACCESS, handler!(transact))
};

params! {
    struct TxnParams as "a transaction" {
        session: Option<SessionName> = SESSION,
        _conditions: InBody =
            Param::of("if", Form::Conditions, "The conditions; an empty list holds"),
        _then: InBody =
            Param::of("then", Form::Operations, "Applied if every condition holds, all or nothing"),
        _otherwise: InBody =
            Param::of("else", Form::Operations, "Applied if a condition fails, all or nothing"),
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
        Err(ParamError::invalid(param.name, detail).hint(FORM))
    }
}

/// The parsed items of the three lists.
#[derive(Debug)]
struct Items {
    conditions: Vec<Condition>,
    then: Vec<Op>,
    otherwise: Vec<Op>,
}

async fn transact(call: &mut CallContext<'_>) -> HandlerResult {
    // The body may be large, so it is dropped before the transaction waits for the commit.
    let body = std::mem::take(&mut call.body);
    let mut lists = lists(call, body.clone()).await?;
    call.add_params(std::mem::take(&mut lists.rest))?;
    number_call(call, "transact", &body)?;
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
            *session = call.whole_session("if", session.clone())?;
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

/// Reads the lists of a body. A large one is read by a thread that may block, so that small calls do not wait for it.
/// [`HttpConfig::large_calls_max`](crate::HttpConfig) bounds the number of such threads.
async fn lists(call: &CallContext<'_>, body: Bytes) -> Result<Lists, HttpError> {
    let read = if body.len() > call.state.config.body_bytes_max {
        let reading = tokio::task::spawn_blocking(move || Lists::read(&body));
        reading.await.map_err(|error| problem(ErrorCode::Internal, error.to_string()))?
    } else {
        Lists::read(&body)
    };
    read.map_err(|unread| match unread {
        Unread::Malformed(error) => error.into(),
        Unread::TooMany => {
            let (bound, limit) = (Bound::OpsOfMulti, ITEMS_MAX as u64);
            call.error(Failure::Rejected(Rejection::LimitReached { bound, limit }))
        }
    })
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

/// The maximum number of conditions and operations of a transaction. An item has up to a hundred times its bytes in memory.
const ITEMS_MAX: usize = 1_000;

/// The body before its items are parsed.
#[derive(Debug, Default)]
struct Lists {
    conditions: Option<Vec<JsonPairs>>,
    then: Option<Vec<JsonPairs>>,
    otherwise: Option<Vec<JsonPairs>>,
    /// The remaining parameters of the call.
    rest: JsonPairs,
}

/// Why a body is not a transaction.
#[derive(Debug)]
enum Unread {
    /// The lists have more than [`ITEMS_MAX`] items.
    TooMany,
    Malformed(ParamError),
}

impl From<ParamError> for Unread {
    fn from(error: ParamError) -> Self {
        Self::Malformed(error)
    }
}

impl Lists {
    /// Reads a body.
    ///
    /// # Errors
    /// [`Unread`].
    fn read(body: &[u8]) -> Result<Self, Unread> {
        let left = Cell::new(Some(ITEMS_MAX));
        let mut json = serde_json::Deserializer::from_slice(body);
        let read = ListsReader { left: &left }.deserialize(&mut json);
        let lists = read.and_then(|lists| json.end().map(|()| lists)).map_err(|error| {
            if left.get().is_none() {
                return Unread::TooMany;
            }
            let detail = format!("the body is not a transaction: {error}");
            ParamError::new(ErrorCode::InvalidArgument, detail).hint(FORM).into()
        })?;
        let is_empty =
            [&lists.conditions, &lists.then, &lists.otherwise].iter().all(|l| l.is_none());
        if is_empty && lists.rest.keys().all(|key| TxnParams::LIST.takes(key)) {
            let detail = "a transaction without 'if', 'then' and 'else' does nothing";
            return Err(ParamError::new(ErrorCode::InvalidArgument, detail).hint(FORM).into());
        }
        Ok(lists)
    }
}

/// Reads the object. `left` is how many more items the lists may have; `None` once they had one more.
struct ListsReader<'a> {
    left: &'a Cell<Option<usize>>,
}

impl<'de> DeserializeSeed<'de> for ListsReader<'_> {
    type Value = Lists;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Lists, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for ListsReader<'_> {
    type Value = Lists;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Lists, A::Error> {
        let mut lists = Lists::default();
        while let Some(key) = map.next_key::<String>()? {
            let (list, name) = match key.as_str() {
                "if" => (&mut lists.conditions, "if"),
                "then" => (&mut lists.then, "then"),
                "else" => (&mut lists.otherwise, "else"),
                _ => {
                    let value = map.next_value()?;
                    lists.rest.push(key, value).map_err(A::Error::custom)?;
                    continue;
                }
            };
            if list.is_some() {
                return Err(A::Error::duplicate_field(name));
            }
            *list = map.next_value_seed(ListReader { left: self.left })?;
        }
        Ok(lists)
    }
}

/// Reads one list, or `null`.
struct ListReader<'a> {
    left: &'a Cell<Option<usize>>,
}

impl<'de> DeserializeSeed<'de> for ListReader<'_> {
    type Value = Option<Vec<JsonPairs>>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ListReader<'_> {
    type Value = Option<Vec<JsonPairs>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of objects")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut items = Vec::new();
        while let Some(left) = self.left.get().filter(|left| *left > 0) {
            let Some(item) = seq.next_element()? else { return Ok(Some(items)) };
            items.push(item);
            self.left.set(Some(left - 1));
        }
        if seq.next_element::<IgnoredAny>()?.is_some() {
            self.left.set(None);
            return Err(A::Error::custom("too many items"));
        }
        Ok(Some(items))
    }
}

#[cfg(test)]
mod tests;
