//! The documentation of the API, for readers and for programs: `/docs`, `/docs/try-it.js`, `/openapi.json` and
//! `/errors/{code}`.

use std::future::ready;

use axum::http::header::{CONTENT_SECURITY_POLICY, HOST, X_FRAME_OPTIONS};
use axum::http::uri::Authority;
use axum::http::{HeaderValue, StatusCode};
use bytes::Bytes;
use holdfast_api::{ErrorCode, Problem, UnknownCode, unescape_path};
use serde_json::json;

use crate::access::CallAccess;
use crate::call::{CallContext, HandlerResult, accepts};
use crate::identity::{Peer, has_tls};
use crate::operation::{Content, Operation, ResponseSpec, Scope};
use crate::reply::Reply;
use crate::routes::{self, EXPLAIN, OPEN_API};
use crate::status::explanation;

/// The content security policy: a page runs no script, loads nothing, and is not part of another page.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
);
/// The policy of a page whose script sends calls to this node.
const SCRIPT_POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'self'; connect-src 'self'; base-uri 'none'; \
     form-action 'none'; frame-ancestors 'none'",
);
/// The script of `/docs` that sends the examples.
const SCRIPT: &str = include_str!("pages/try_it.js");
/// The address in the curl lines of the rendered page.
const EXAMPLE_ADDRESS: &str = "localhost:7400";
/// The longest name of a host with its port, bytes.
const HOST_MAX: usize = 261;

pub(crate) static ERROR: Operation = Operation {
    scope: Scope::Static,
    summary: "Read the meaning of an error code, and the next step",
    answers: || {
        let page = ResponseSpec::empty(StatusCode::OK, "The explanation");
        vec![page.or("text/plain", Content::Text).or("text/html", Content::Text)]
    },
    errors: &[ErrorCode::NotFound],
    ..Operation::node("explainError", &EXPLAIN, CallAccess::Public, |call| {
        Box::pin(ready(explain(call)))
    })
};

pub(crate) static OPENAPI: Operation = Operation {
    summary: "Read the description of the API as an OpenAPI document",
    answers: || {
        ResponseSpec::ok(
            "This document",
            |_| json!({ "type": "object", "required": ["openapi", "info", "paths"] }),
        )
    },
    ..Operation::node("describeApi", &OPEN_API, CallAccess::Public, |call| {
        let document = (call.state.documentation.openapi)();
        Box::pin(ready(Ok(Reply::made("application/json", document))))
    })
};

pub(crate) static DOCS: Operation = Operation {
    summary: "Read the description of the API as a web page",
    answers: || {
        vec![ResponseSpec::empty(StatusCode::OK, "The page").or("text/html", Content::Text)]
    },
    ..Operation::node("readDocs", &routes::DOCS, CallAccess::Public, |call| {
        Box::pin(ready(Ok(docs(call))))
    })
};

pub(crate) static TRY_IT: Operation = Operation {
    summary: "Read the script of /docs that sends the examples",
    answers: || {
        vec![ResponseSpec::empty(StatusCode::OK, "The script").or("text/javascript", Content::Text)]
    },
    ..Operation::node("readTryIt", &routes::TRY_IT, CallAccess::Public, |_| {
        let script = Bytes::from_static(SCRIPT.as_bytes());
        Box::pin(ready(Ok(Reply::made("text/javascript; charset=utf-8", script))))
    })
};

/// The meaning of an error code, as text for a terminal or as a page for a browser.
fn explain(call: &CallContext<'_>) -> HandlerResult {
    let raw = call.parts.uri.path().strip_prefix(EXPLAIN.prefix()).unwrap_or_default();
    let name = unescape_path(raw).unwrap_or_default();
    let code: ErrorCode = name.parse().map_err(|error: UnknownCode| {
        let missing = Problem::new(ErrorCode::NotFound, error.to_string());
        Box::new(missing.hint("GET /docs lists all error codes"))
    })?;
    if !accepts(&call.parts.headers, "text/html") {
        return Ok(Reply::text(StatusCode::OK, explanation(code)));
    }
    Ok(html_reply((call.state.documentation.error_page)(code), POLICY))
}

/// Only a browser on the node's own machine gets the page with the script.
fn docs(call: &CallContext<'_>) -> Reply {
    let peer = call.parts.extensions.get::<Peer>();
    let try_it = peer.is_some_and(|peer| peer.address.to_canonical().is_loopback());
    let policy = if try_it { SCRIPT_POLICY } else { POLICY };
    let page = (call.state.documentation.page)(try_it);
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
    let has_tls = has_tls(&call.parts.extensions);
    Some(if has_tls { format!("https://{host}") } else { host.to_owned() })
}

fn html_reply(page: Bytes, policy: HeaderValue) -> Reply {
    Reply::made("text/html; charset=utf-8", page)
        .with_header(CONTENT_SECURITY_POLICY, policy)
        .with_header(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderMap;
    use axum::http::header::ACCEPT;

    use super::*;

    #[test]
    fn html_is_returned_if_the_accept_header_lists_it() {
        let mut headers = HeaderMap::new();
        assert!(!accepts(&headers, "text/html"));
        headers
            .insert(ACCEPT, HeaderValue::from_static("text/html,application/xhtml+xml,*/*;q=0.8"));
        assert!(accepts(&headers, "text/html"));
    }
}
