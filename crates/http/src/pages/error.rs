//! `GET /errors/{code}`: the meaning of an error code, as text for a terminal or as a page for a browser.

use std::future::ready;

use axum::http::header::ACCEPT;
use axum::http::{HeaderMap, StatusCode};
use futures_util::FutureExt as _;
use holdfast_api::{ErrorCode, unescape_path};

use super::{POLICY, html_reply};
use crate::call::CallContext;
use crate::operation::{Content, Operation, ResponseSpec, Scope};
use crate::reply::Reply;
use crate::routes::EXPLAIN;
use crate::status::{HttpError, explanation, problem};

pub(crate) static OPERATION: Operation = Operation {
    scope: Scope::Static,
    summary: "Read the meaning of an error code, and the next step",
    answers: || {
        let page = ResponseSpec::empty(StatusCode::OK, "The explanation");
        vec![page.or("text/plain", Content::Text).or("text/html", Content::Text)]
    },
    errors: &[ErrorCode::NotFound],
    ..Operation::public("explainError", &EXPLAIN, |call| ready(explain(call)).boxed())
};

fn explain(call: &CallContext<'_>) -> Result<Reply, HttpError> {
    let raw = call.parts.uri.path().strip_prefix(EXPLAIN.prefix()).unwrap_or_default();
    let name = unescape_path(raw).unwrap_or_default();
    let code: ErrorCode =
        name.parse().map_err(|error| problem(ErrorCode::NotFound, format!("{error}")))?;
    if !accepts_html(&call.parts.headers) {
        return Ok(Reply::text(StatusCode::OK, explanation(code)));
    }
    Ok(html_reply((call.state.documentation().error_page)(code), POLICY))
}

fn accepts_html(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let media = accepted.flat_map(|value| value.split(','));
    media
        .map(|media| media.split(';').next().unwrap_or_default().trim())
        .any(|media| media.eq_ignore_ascii_case("text/html"))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn html_is_returned_if_the_accept_header_lists_it() {
        let mut headers = HeaderMap::new();
        assert!(!accepts_html(&headers));
        headers
            .insert(ACCEPT, HeaderValue::from_static("text/html,application/xhtml+xml,*/*;q=0.8"));
        assert!(accepts_html(&headers));
    }
}
