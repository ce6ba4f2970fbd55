//! Calls that return documentation: the whole API, and each error code.

pub(crate) mod docs;
pub(crate) mod error;
pub(crate) mod openapi;
pub(crate) mod try_it;

use axum::http::HeaderValue;
use axum::http::header::{CONTENT_SECURITY_POLICY, X_FRAME_OPTIONS};
use bytes::Bytes;

use crate::reply::Reply;

/// The content security policy: a page runs no script, loads nothing, and is not part of another page.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
);
/// The policy of a page whose script sends calls to this node.
const SCRIPT_POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'self'; connect-src 'self'; base-uri 'none'; \
     form-action 'none'; frame-ancestors 'none'",
);

fn html_reply(page: Bytes, policy: HeaderValue) -> Reply {
    Reply::made("text/html; charset=utf-8", page)
        .with_header(CONTENT_SECURITY_POLICY, policy)
        .with_header(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"))
}
