//! Calls that match no operation: an unknown path, or a method that the path does not support.

mod foreign_paths;

use std::future::ready;

use axum::http::header::{ALLOW, LOCATION};
use axum::http::{HeaderValue, Method, StatusCode};
use holdfast_api::{ErrorCode, Form, Param, Problem};

use self::foreign_paths::hint_of;
use crate::access::CallAccess;
use crate::call::{CallContext, HandlerResult};
use crate::operation::{Operation, Scope};
use crate::operations::OPERATIONS;
use crate::reply::Reply;
use crate::routes::{LOCK, MEMBER, NODE, OTHER, Route};

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

/// Returns the route that an unknown path misspells, if there is one: each fixed component differs by at most a slip or
/// two. The path may lack `/v1`, or have the prefix `/api`.
fn nearest(path: &str) -> Option<&'static str> {
    let asked: Vec<&str> = path.split('/').filter(|component| !component.is_empty()).collect();
    let asked = asked.strip_prefix(&["api"]).unwrap_or(&asked);
    let asked = match asked.split_first() {
        Some((&("v1" | "v2" | "v3"), rest)) => rest,
        Some(_) | None => asked,
    };
    let fits = OPERATIONS.iter().map(|operation| operation.route);
    let fits = fits.filter_map(|route| Some((slips(route, asked)?, route)));
    // `/v1/locks` and `/v1/locks/{name}` differ only in the name.
    fits.min_by_key(|(slips, route)| (*slips, route.name.is_some())).map(|(_, route)| route.pattern)
}

/// The slips in the fixed components of a route; `None` if the path is another one.
fn slips(route: &Route, asked: &[&str]) -> Option<usize> {
    let parts = route.pattern.split('/').filter(|part| !part.is_empty() && *part != "v1");
    let mut asked = asked.iter();
    let mut slips = 0;
    for part in parts {
        match asked.next() {
            Some(_) if part.starts_with('{') => {}
            Some(asked) => {
                holdfast_api::nearest(asked, [part])?;
                slips += strsim::osa_distance(asked, part);
            }
            // The path lacks the name.
            None if part.starts_with('{') && route.pattern.ends_with(part) => slips += 1,
            None => return None,
        }
    }
    let is_long = matches!(route.name, Some(Param { form: Form::Path { .. }, .. }));
    (asked.next().is_none() || (is_long && route.pattern.ends_with('}'))).then_some(slips)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_path_has_a_nearest_route_and_another_path_has_none() {
        for (path, route) in [
            ("/v1/lock/orders", "/v1/locks/{name}"),
            ("/locks/orders", "/v1/locks/{name}"),
            ("/api/v1/locks", "/v1/locks"),
            ("/api/locks/a/b", "/v1/locks/{name}"),
            ("/v2/locks/a", "/v1/locks/{name}"),
            ("/v1/cluster/", "/v1/cluster"),
            ("/v1/tre/a/b", "/v1/tree/{path}"),
            ("/v1/txns", "/v1/txn"),
            ("/readz", "/readyz"),
            ("/metric", "/metrics"),
            ("/v1/session", "/v1/sessions"),
            ("/v1/session/me", "/v1/sessions/{id}"),
            ("/v1/session/me/keepalive", "/v1/sessions/{id}/keepalive"),
            ("/v1/counter/hits", "/v1/counters/{name}"),
            ("/v1/auth/token", "/v1/auth/tokens"),
            ("/v1/history", "/v1/history/{name}"),
            ("/v1/counters", "/v1/counters/{name}"),
        ] {
            assert_eq!(nearest(path), Some(route), "{path}");
        }
        for path in
            ["/favicon.ico", "", "/v1/status", "/v1/health/state/any", "/v1/ls", "/ui", "/v1/a"]
        {
            assert_eq!(nearest(path), None, "{path}");
        }
    }
}
