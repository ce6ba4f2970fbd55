//! Calls that match no operation: an unknown path, or a method that the path does not support.

use std::future::ready;

use axum::http::header::{ALLOW, LOCATION};
use axum::http::{HeaderValue, Method, StatusCode};
use futures_util::FutureExt as _;
use holdfast_api::{ErrorCode, Problem};

use crate::call::CallContext;
use crate::operation::{Operation, Scope};
use crate::reply::Reply;
use crate::routes::{LOCK, OTHER, nearest};
use crate::status::HttpError;

/// Bytes of a path or a method that an error quotes.
const SHOWN_MAX: usize = 128;
/// Paths of health checks in other servers.
const HEALTH_PATHS: [&str; 5] = ["/health", "/healthz", "/healthcheck", "/ready", "/live"];

pub(crate) static WRONG_METHOD: Operation = Operation {
    scope: Scope::Static,
    ..Operation::public("", &OTHER, |call| ready(wrong_method(call)).boxed())
};

pub(crate) static NO_SUCH_PATH: Operation = Operation {
    scope: Scope::Static,
    ..Operation::public("", &OTHER, |call| ready(no_such_path(call)).boxed())
};

/// Rejects the method, except `OPTIONS`, which returns 204. The router adds the header `Allow`.
fn wrong_method(call: &CallContext<'_>) -> Result<Reply, HttpError> {
    if call.parts.method == Method::OPTIONS {
        return Ok(Reply::empty(StatusCode::NO_CONTENT));
    }
    let (method, path) = (call.parts.method.as_str(), call.parts.uri.path());
    let detail = format!("'{}' does not support {}", shown(path), shown(method));
    let hint = match call.parts.method {
        Method::POST | Method::PATCH if path.starts_with(LOCK.prefix()) => {
            "PUT acquires the lock, POST /v1/release-requests/{name} asks its holders to release it, and \
             PATCH /v1/policies/{name} changes its policy"
        }
        _ => "the header Allow lists the supported methods",
    };
    Err(Box::new(Problem::new(ErrorCode::MethodNotAllowed, detail).hint(hint)))
}

/// Rejects the path. `/` redirects to the documentation; `OPTIONS *` returns the methods of the whole API.
fn no_such_path(call: &CallContext<'_>) -> Result<Reply, HttpError> {
    let path = call.parts.uri.path();
    if call.parts.method == Method::OPTIONS && path == "*" {
        let methods = HeaderValue::from_static("GET,HEAD,PUT,POST,PATCH,DELETE,OPTIONS");
        return Ok(Reply::empty(StatusCode::NO_CONTENT).with_header(ALLOW, methods));
    }
    if path == "/" {
        let docs = HeaderValue::from_static("/docs");
        return Ok(Reply::empty(StatusCode::TEMPORARY_REDIRECT).with_header(LOCATION, docs));
    }
    let mut missing =
        Problem::new(ErrorCode::NotFound, format!("there is no path '{}'", shown(path)));
    if HEALTH_PATHS.contains(&path) {
        missing.facts.nearest = Some("/readyz".into());
        missing = missing.hint(
            "GET /livez shows whether the process is alive, GET /readyz whether it accepts calls",
        );
    } else if let Some(near) = nearest(path) {
        missing.facts.nearest = Some(near.into());
        missing = missing.hint(format!("did you mean {near}?"));
    }
    Err(Box::new(missing))
}

fn shown(text: &str) -> &str {
    &text[..text.floor_char_boundary(SHOWN_MAX)]
}
