//! `GET /docs`: the API reference on one page, for human readers.

use std::future::ready;

use axum::http::StatusCode;
use futures_util::FutureExt as _;

use super::{POLICY, SCRIPT_POLICY, html_reply};
use crate::call::CallContext;
use crate::identity::Peer;
use crate::operation::{Content, Operation, ResponseSpec};
use crate::reply::Reply;
use crate::routes::DOCS;

pub(crate) static OPERATION: Operation = Operation {
    summary: "Read the description of the API as a web page",
    answers: || {
        vec![ResponseSpec::empty(StatusCode::OK, "The page").or("text/html", Content::Text)]
    },
    ..Operation::public("readDocs", &DOCS, |call| ready(Ok(page(call))).boxed())
};

/// Only a browser on the node's own machine gets the page with the script.
fn page(call: &CallContext<'_>) -> Reply {
    let peer = call.parts.extensions.get::<Peer>();
    let try_it = peer.is_some_and(|peer| peer.address.to_canonical().is_loopback());
    let policy = if try_it { SCRIPT_POLICY } else { POLICY };
    html_reply((call.state.documentation().page)(try_it), policy)
}
