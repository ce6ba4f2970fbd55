//! Counters: `/v1/counters/{name}`. The version of a counter is its entity tag.

use axum::http::{StatusCode, header};
use holdfast_api::parameters::recipe::{ADD, VALUE, VERSION};
use holdfast_api::{CallParams as _, CounterBody, ErrorCode, ParamError, Schemas, params};
use holdfast_service::Response;
use holdfast_types::{ChangeCounter, CounterChange, CounterView, RecipeName, Revision};

use crate::access::{RECIPE_DELETE, RECIPE_READ, RECIPE_USE};
use crate::call::{CallContext, HandlerResult, ReadParams, accepts_text, read_mode};
use crate::operation::{Content, Header, Method, Operation, ResponseSpec, handler};
use crate::precondition::{Precondition, tag};
use crate::reply::Reply;
use crate::routes::COUNTER;

const ETAG: Header = Header::text("etag", "The counter's version");
const IF_MATCH: Header =
    Header::text("if-match", "The version that the counter must have, in quotes");

pub(crate) static READ: Operation = Operation {
    summary: "Read the value of a counter",
    description: "A counter that was never changed is 0. Accept: text/plain returns only the value.",
    params: ReadParams::LIST,
    answers,
    ..Operation::read("readCounter", &COUNTER, RECIPE_READ, handler!(read))
};

pub(crate) static ADD_TO: Operation = Operation {
    summary: "Add to a counter",
    params: AddParams::LIST,
    answers,
    errors: &[
        ErrorCode::NotFound,
        ErrorCode::SessionExpired,
        ErrorCode::QuotaExceeded,
        ErrorCode::CounterOverflow,
    ],
    ..Operation::change("addToCounter", Method::Post, &COUNTER, RECIPE_USE, handler!(add))
};

pub(crate) static SET: Operation = Operation {
    summary: "Set a counter",
    description: "With If-Match or version the counter is set only if it has that version.",
    params: SetParams::LIST,
    headers: &[IF_MATCH],
    answers,
    errors: &[
        ErrorCode::NotFound,
        ErrorCode::SessionExpired,
        ErrorCode::QuotaExceeded,
        ErrorCode::CounterOverflow,
        ErrorCode::VersionMismatch,
    ],
    ..Operation::change("setCounter", Method::Put, &COUNTER, RECIPE_USE, handler!(set))
};

pub(crate) static DELETE: Operation = Operation {
    summary: "Delete a counter",
    answers: || ResponseSpec::no_content("The counter does not exist any more"),
    errors: &[ErrorCode::NotFound, ErrorCode::SessionExpired],
    ..Operation::change("deleteCounter", Method::Delete, &COUNTER, RECIPE_DELETE, handler!(delete))
};

params! {
    struct AddParams {
        add: i64 = ADD,
    }

    struct SetParams {
        value: i64 = VALUE,
        version: Option<u64> = VERSION,
    }
}

fn answers() -> Vec<ResponseSpec> {
    let json = ResponseSpec::json(StatusCode::OK, "The counter", Schemas::of::<CounterBody>);
    vec![json.or("text/plain", Content::Text).with(&[ETAG])]
}

async fn read(call: &mut CallContext<'_>) -> HandlerResult {
    let counter = call.recipe()?;
    let ReadParams { stale } = call.params()?;
    let response = call.run(call.service().counter(&counter, read_mode(stale))).await?;
    let Response { value: view, revision, leader_contact } = response;
    Ok(counter_reply(call, counter, view, revision).stale(leader_contact))
}

async fn add(call: &mut CallContext<'_>) -> HandlerResult {
    let counter = call.recipe()?;
    let AddParams { add } = call.params()?;
    change(call, counter, CounterChange::Add { amount: add }).await
}

async fn set(call: &mut CallContext<'_>) -> HandlerResult {
    let counter = call.recipe()?;
    let SetParams { value, version } = call.params()?;
    let required = Precondition::of_counter(&call.parts.headers)?;
    if required.is_some() && version.is_some() {
        return Err(ParamError::excluded("version", "If-Match").hint("send one of them").into());
    }
    let version = required.or(version);
    change(call, counter, CounterChange::Set { value, version }).await
}

async fn delete(call: &mut CallContext<'_>) -> HandlerResult {
    let counter = call.recipe()?;
    change(call, counter, CounterChange::Delete).await
}

/// Changes the counter that the path names. Returns 204 if the change deleted it.
async fn change(
    call: &CallContext<'_>,
    counter: RecipeName,
    change: CounterChange,
) -> HandlerResult {
    let count = ChangeCounter { counter: counter.clone(), change };
    let changed = call.run(call.service().count(count)).await?;
    Ok(match changed.value {
        Some(view) => counter_reply(call, counter, view, changed.revision),
        None => Reply::empty(StatusCode::NO_CONTENT).at(changed.revision),
    })
}

/// The counter as JSON, or its value alone as text. Its version is the entity tag.
fn counter_reply(
    call: &CallContext<'_>,
    counter: RecipeName,
    view: CounterView,
    revision: Revision,
) -> Reply {
    let etag = tag(view.version);
    let reply = if accepts_text(&call.parts.headers) {
        Reply::text(StatusCode::OK, format!("{}\n", view.value))
    } else {
        Reply::json(StatusCode::OK, &CounterBody::new(counter, view))
    };
    reply.with_header(header::ETAG, etag).at(revision)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_amount_is_a_signed_64_bit_integer() {
        assert_eq!(AddParams::from_query("add=-9223372036854775808").unwrap().add, i64::MIN);
        for query in ["", "add=9223372036854775808", "add=x"] {
            let error = AddParams::from_query(query).unwrap_err();
            assert_eq!(error.parameter.as_deref(), Some("add"), "{query}");
        }
    }
}
