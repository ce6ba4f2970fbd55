//! The first span of a traced call.
//!
//! The header `traceparent` of W3C Trace Context decides for its call. Of the other calls, a random share is traced.

use axum::http::HeaderName;
use axum::http::request::Parts;
use holdfast_trace::{Sampler, Traceparent, entry_span};
use tracing::Span;
use tracing::field::Empty;

pub(crate) static TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// The span of a call; disabled if the call is not traced. A node without a sampler exports no traces.
pub(crate) fn span_of(sampler: Option<&Sampler>, parts: &Parts, route: &'static str) -> Span {
    let Some(sampler) = sampler else { return Span::none() };
    let caller = parts.headers.get(&TRACEPARENT).and_then(|value| value.to_str().ok());
    let caller: Option<Traceparent> = caller.and_then(|text| text.parse().ok());
    if !caller.map_or_else(|| sampler.draw(), |caller| caller.sampled) {
        return Span::none();
    }
    let span = entry_span!(
        "http",
        otel.kind = "server",
        otel.status_code = Empty,
        http.request.method = parts.method.as_str(),
        http.route = route,
        http.response.status_code = Empty,
        request_id = Empty,
        lock = Empty,
        session = Empty,
        token = Empty,
        revision = Empty,
    );
    if let Some(Traceparent { context, .. }) = caller {
        holdfast_trace::set_parent(&span, context);
    }
    span
}
