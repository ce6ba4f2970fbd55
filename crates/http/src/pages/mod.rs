//! Calls that return documentation: the whole API, and each error code.

pub(crate) mod docs;
pub(crate) mod error;
pub(crate) mod openapi;
pub(crate) mod try_it;

use axum::http::HeaderValue;
use axum::http::header::CONTENT_SECURITY_POLICY;
use bytes::Bytes;

use crate::reply::Reply;

/// The content security policy: a page runs no script and loads nothing.
const POLICY: HeaderValue =
    HeaderValue::from_static("default-src 'none'; style-src 'unsafe-inline'");
/// The policy of a page whose script sends calls to this node.
const SCRIPT_POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'self'; connect-src 'self'",
);

fn html_reply(page: Bytes, policy: HeaderValue) -> Reply {
    Reply::made("text/html; charset=utf-8", page).with_header(CONTENT_SECURITY_POLICY, policy)
}
