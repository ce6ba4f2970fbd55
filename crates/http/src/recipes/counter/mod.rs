//! Counters: one file for each call.

pub(crate) mod add;
pub(crate) mod delete;
pub(crate) mod read;
pub(crate) mod set;

use axum::http::{StatusCode, header};
use holdfast_api::{CounterBody, Schemas};
use holdfast_types::{ChangeCounter, CounterChange, CounterView, RecipeName, Revision};

use crate::call::CallContext;
use crate::operation::{Content, Header, ResponseSpec};
use crate::precondition::tag;
use crate::reply::Reply;
use crate::status::HttpError;

fn answers() -> Vec<ResponseSpec> {
    const ETAG: Header = Header::text("etag", "The counter's version");
    let json = ResponseSpec::json(StatusCode::OK, "The counter", Schemas::of::<CounterBody>);
    vec![json.or("text/plain", Content::Text).with(&[ETAG])]
}

/// The counter as JSON, or its value alone as text. Its version is the entity tag.
fn counter_reply(
    call: &CallContext<'_>,
    counter: RecipeName,
    view: CounterView,
    revision: Revision,
) -> Reply {
    let etag = tag(view.version);
    let reply = if call.wants_text() {
        Reply::text(StatusCode::OK, format!("{}\n", view.value))
    } else {
        Reply::json(StatusCode::OK, &CounterBody::new(counter, view))
    };
    reply.with_header(header::ETAG, etag).at(revision)
}

/// Changes the counter that the path names. Returns 204 if the change deleted it.
async fn change(
    call: &CallContext<'_>,
    counter: RecipeName,
    change: CounterChange,
) -> Result<Reply, HttpError> {
    let count = ChangeCounter { counter: counter.clone(), change };
    let changed = call.run(call.service().count(count)).await?;
    Ok(match changed.value {
        Some(view) => counter_reply(call, counter, view, changed.revision),
        None => Reply::empty(StatusCode::NO_CONTENT).at(changed.revision),
    })
}
