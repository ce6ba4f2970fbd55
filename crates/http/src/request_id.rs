//! The id of a call, which its log lines contain, and the first span of a traced call.
//!
//! The header `traceparent` of W3C Trace Context decides for its call. Of the other calls, a random share is traced.

use std::sync::atomic::{AtomicU64, Ordering};

use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName};
use holdfast_trace::{Sampler, Traceparent, entry_span};
use tracing::Span;
use tracing::field::Empty;

/// The longest id that a request may carry, bytes.
const LEN_MAX: usize = 64;

/// Assigns an id to each call: the client's own id if it is valid, else the next id of this process.
#[derive(Debug)]
pub(crate) struct RequestIds {
    prefix: String,
    next: AtomicU64,
}

impl RequestIds {
    /// Generates a random prefix, so that ids differ between runs of the process.
    pub(crate) fn new(node: u64) -> Self {
        // Without randomness the ids are still unique within this process, which is sufficient.
        let life = getrandom::u32().unwrap_or_default();
        Self { prefix: format!("{node}-{life:08x}-"), next: AtomicU64::new(1) }
    }

    /// Returns the id of one call.
    pub(crate) fn of(&self, headers: &HeaderMap) -> String {
        let given = headers.get(holdfast_api::HOLDFAST_REQUEST_ID);
        match given.and_then(|value| value.to_str().ok()).filter(|id| is_sane(id)) {
            Some(id) => id.to_owned(),
            None => format!("{}{}", self.prefix, self.next.fetch_add(1, Ordering::Relaxed)),
        }
    }
}

/// Whether an id is short and has no character that could forge a log line.
fn is_sane(id: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.:/+=".contains(&b);
    (1..=LEN_MAX).contains(&id.len()) && id.bytes().all(plain)
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_valid_id_is_kept_and_an_invalid_one_is_replaced() {
        let ids = RequestIds::new(3);
        let of = |id: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(holdfast_api::HOLDFAST_REQUEST_ID, id.parse().unwrap());
            ids.of(&headers)
        };
        assert_eq!(of("trace:4bf9-2"), "trace:4bf9-2");
        for bad in ["", "a b", "a\"b", "{x}", &"a".repeat(65)] {
            assert!(of(bad).starts_with("3-"), "{bad}");
        }
        assert_ne!(ids.of(&HeaderMap::new()), ids.of(&HeaderMap::new()));
    }
}
