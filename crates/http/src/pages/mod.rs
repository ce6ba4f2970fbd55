//! Calls that return documentation: the whole API, and each error code.

pub(crate) mod docs;
pub(crate) mod error;
pub(crate) mod openapi;

use axum::http::HeaderValue;
use axum::http::header::CONTENT_SECURITY_POLICY;
use bytes::Bytes;

use crate::reply::Reply;

/// The content security policy: a page runs no script and loads nothing.
const POLICY: HeaderValue =
    HeaderValue::from_static("default-src 'none'; style-src 'unsafe-inline'");

fn html_reply(page: Bytes) -> Reply {
    Reply::made("text/html; charset=utf-8", page).with_header(CONTENT_SECURITY_POLICY, POLICY)
}
