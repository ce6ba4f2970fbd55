//! Decides which calls are traced, and creates the first span of a traced call.
//!
//! The header `traceparent` of W3C Trace Context decides for its call. Of the other calls, a random share is traced.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

use axum::http::HeaderName;
use axum::http::request::Parts;
use holdfast_trace::{Traceparent, entry_span};
use tracing::Span;
use tracing::field::Empty;

pub(crate) static TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
/// The number of values that a draw can have.
const DRAWS: f64 = 4_294_967_296.0;

#[derive(Debug)]
pub(crate) struct TracingChoice {
    /// The share of traced calls; `None` if this node exports no traces.
    sample: Option<f64>,
    /// A random function of the number of a call.
    random: RandomState,
    calls: AtomicU64,
}

impl TracingChoice {
    pub(crate) fn new(sample: Option<f64>) -> Self {
        Self { sample, random: RandomState::new(), calls: AtomicU64::new(0) }
    }

    /// The span of a call; disabled if the call is not traced.
    pub(crate) fn span_of(&self, parts: &Parts, route: &'static str) -> Span {
        let Some(sample) = self.sample else { return Span::none() };
        let caller = parts.headers.get(&TRACEPARENT).and_then(|value| value.to_str().ok());
        let caller: Option<Traceparent> = caller.and_then(|text| text.parse().ok());
        if !caller.map_or_else(|| self.draw(sample), |caller| caller.sampled) {
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

    /// Returns `true` with the probability `sample`.
    fn draw(&self, sample: f64) -> bool {
        let hash = self.random.hash_one(self.calls.fetch_add(1, Ordering::Relaxed));
        let [a, b, c, d, ..] = hash.to_ne_bytes();
        f64::from(u32::from_ne_bytes([a, b, c, d])) < sample * DRAWS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_of_drawn_calls_is_the_sample() {
        let drawn = |sample: f64| {
            let choice = TracingChoice::new(Some(sample));
            (0..10_000).filter(|_| choice.draw(sample)).count()
        };
        assert_eq!((drawn(0.0), drawn(1.0)), (0, 10_000));
        assert!((2_000..3_000).contains(&drawn(0.25)));
    }
}
