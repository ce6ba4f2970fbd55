//! Calls that match no operation: an unknown path, or a method that the path does not support.

mod foreign_paths;

use std::future::ready;

use axum::http::header::{ALLOW, LOCATION};
use axum::http::{HeaderValue, Method, StatusCode};
use holdfast_api::{ErrorCode, Problem};

use self::foreign_paths::hint_of;
use crate::access::CallAccess;
use crate::call::{CallContext, HandlerResult};
use crate::operation::{Operation, Scope};
use crate::operations::OPERATIONS;
use crate::reply::Reply;
use crate::routes::{LOCK, MEMBER, NODE, OTHER, nearest};

/// Bytes of a path or a method that an error quotes.
const SHOWN_MAX: usize = 128;

pub(crate) static WRONG_METHOD: Operation = Operation {
    scope: Scope::Static,
    ..Operation::node("", &OTHER, CallAccess::Public, |call| Box::pin(ready(wrong_method(call))))
};

pub(crate) static NO_SUCH_PATH: Operation = Operation {
    scope: Scope::Static,
    ..Operation::node("", &OTHER, CallAccess::Public, |call| Box::pin(ready(no_such_path(call))))
};

/// Rejects the method, except `OPTIONS`, which returns 204. The router adds the header `Allow`.
fn wrong_method(call: &CallContext<'_>) -> HandlerResult {
    if call.parts.method == Method::OPTIONS {
        return Ok(Reply::empty(StatusCode::NO_CONTENT));
    }
    let (method, path) = (call.parts.method.as_str(), call.parts.uri.path());
    let detail = format!("'{}' does not support {}", shown(path), shown(method));
    let is_lock = path.starts_with(LOCK.prefix());
    let hint = match method {
        "POST" | "PATCH" if is_lock => {
            "PUT acquires the lock, DELETE releases it, POST /v1/release-requests/{name} asks its holders to \
             release it, and PATCH /v1/policies/{name} changes its policy"
                .to_owned()
        }
        "GET" if path == "/v1/members" || path.starts_with(MEMBER.prefix()) || path == NODE.pattern => {
            format!("GET /v1/cluster lists the members; {}", methods_of(path))
        }
        "LOCK" | "UNLOCK" if is_lock => "PUT acquires the lock, DELETE releases it".to_owned(),
        _ => methods_of(path),
    };
    Err(Box::new(Problem::new(ErrorCode::MethodNotAllowed, detail).hint(hint)))
}

/// The methods of a path with their purposes.
fn methods_of(path: &str) -> String {
    let pattern = nearest(path);
    let operations = OPERATIONS.iter().filter(|operation| Some(operation.route.pattern) == pattern);
    let line =
        |operation: &&Operation| format!("{}: {}", operation.method.as_str(), operation.summary);
    let lines: Vec<String> = operations.map(line).collect();
    if lines.is_empty() {
        return "the header Allow lists the supported methods".to_owned();
    }
    lines.join("; ")
}

/// Rejects the path. `/` redirects to the documentation; `OPTIONS *` returns the methods of the whole API.
fn no_such_path(call: &CallContext<'_>) -> HandlerResult {
    let path = call.parts.uri.path();
    if call.parts.method == Method::OPTIONS && path == "*" {
        let methods = HeaderValue::from_static("GET,HEAD,PUT,POST,PATCH,DELETE,OPTIONS");
        return Ok(Reply::empty(StatusCode::NO_CONTENT).with_header(ALLOW, methods));
    }
    if path == "/" {
        let docs = HeaderValue::from_static("/docs");
        return Ok(Reply::empty(StatusCode::TEMPORARY_REDIRECT).with_header(LOCATION, docs));
    }
    let missing = Problem::new(ErrorCode::NotFound, format!("there is no path '{}'", shown(path)));
    let (hint, near) = match (hint_of(path), nearest(path)) {
        (Some((hint, near)), _) => (hint.to_owned(), Some(near)),
        (None, Some(near)) => (format!("did you mean {near}?"), Some(near)),
        (None, None) => ("GET /docs lists all paths".to_owned(), None),
    };
    let mut missing = missing.hint(hint);
    missing.facts.nearest = near.map(Into::into);
    Err(Box::new(missing))
}

fn shown(text: &str) -> &str {
    &text[..text.floor_char_boundary(SHOWN_MAX)]
}
