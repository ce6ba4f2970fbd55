//! `GET /docs`: the API reference on one page, for human readers.

use std::future::ready;

use axum::http::StatusCode;
use axum::http::header::HOST;
use axum::http::uri::Authority;
use futures_util::FutureExt as _;

use super::{POLICY, SCRIPT_POLICY, html_reply};
use crate::call::CallContext;
use crate::identity::Peer;
use crate::operation::{Content, Operation, ResponseSpec};
use crate::reply::Reply;
use crate::routes::DOCS;

/// The address in the curl lines of the rendered page.
const EXAMPLE_ADDRESS: &str = "localhost:7400";
/// The longest name of a host with its port, bytes.
const HOST_MAX: usize = 261;

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
    let page = (call.state.documentation().page)(try_it);
    let page = match address(call) {
        Some(address) => String::from_utf8_lossy(&page).replace(EXAMPLE_ADDRESS, &address).into(),
        None => page,
    };
    html_reply(page, policy)
}

/// The address that the reader has called, for the curl lines; `None` without a usable `Host`.
fn address(call: &CallContext<'_>) -> Option<String> {
    let host = call.parts.headers.get(HOST).and_then(|host| host.to_str().ok());
    let host = host.or_else(|| call.parts.uri.authority().map(Authority::as_str))?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte);
    if host.is_empty() || host.len() > HOST_MAX || !host.bytes().all(is_plain) {
        return None;
    }
    let has_tls = call.parts.extensions.get::<Peer>().is_some_and(|peer| peer.has_tls);
    Some(if has_tls { format!("https://{host}") } else { host.to_owned() })
}
