//! Metrics of the front-end: calls and latencies by route, method and status.
//!
//! A table caches the counters, so that counting a call takes no lock of the metrics library. The number of series is
//! bounded: routes are patterns, methods and statuses are closed lists.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::http::{Method, StatusCode};
use holdfast_service::{LATENCY_BUCKETS, WAIT_BUCKETS};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// Label names and values of one series.
type Series<const N: usize> = [(&'static str, &'static str); N];

const METHODS: [&str; 8] = ["GET", "HEAD", "PUT", "POST", "PATCH", "DELETE", "OPTIONS", "other"];
/// 499 if the client disconnected before its reply.
const STATUSES: [(u16, &str); 20] = [
    (200, "200"),
    (201, "201"),
    (202, "202"),
    (204, "204"),
    (307, "307"),
    (400, "400"),
    (401, "401"),
    (403, "403"),
    (404, "404"),
    (405, "405"),
    (409, "409"),
    (410, "410"),
    (412, "412"),
    (413, "413"),
    (423, "423"),
    (429, "429"),
    (499, "499"),
    (500, "500"),
    (503, "503"),
    (0, "other"),
];
/// The status of a call whose client disconnected.
const DISCONNECTED: u16 = 499;
/// Handles to the front-end's metrics; clones share them.
#[derive(Clone, Debug)]
pub struct HttpMetrics(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    requests: Family<Series<3>, Counter>,
    seconds: Family<Series<1>, Histogram, fn() -> Histogram>,
    waiting_seconds: Family<Series<1>, Histogram, fn() -> Histogram>,
    connections: Gauge,
    refused: Counter,
}

impl HttpMetrics {
    /// Registers the metrics; the registry adds the prefix.
    pub fn register(registry: &mut Registry) -> Self {
        let inner = Inner {
            requests: Family::default(),
            seconds: Family::new_with_constructor(|| Histogram::new(LATENCY_BUCKETS)),
            waiting_seconds: Family::new_with_constructor(|| Histogram::new(WAIT_BUCKETS)),
            connections: Gauge::default(),
            refused: Counter::default(),
        };
        let help = "HTTP calls with a response, by route, method and status; 499 if the client disconnected first";
        registry.register("http_requests", help, inner.requests.clone());
        let help =
            "Seconds from the head of an HTTP call to its response, of calls that do not wait";
        registry.register("http_request_seconds", help, inner.seconds.clone());
        let help = "Seconds from the head of an HTTP call with the parameter wait to its response, including the wait";
        registry.register("http_waiting_request_seconds", help, inner.waiting_seconds.clone());
        let help = "Open HTTP connections of this node";
        registry.register("http_connections", help, inner.connections.clone());
        let help = "HTTP connections that this node refused because too many were open";
        registry.register("http_connections_refused", help, inner.refused.clone());
        Self(Arc::new(inner))
    }

    /// The metrics of the calls on one route.
    pub(crate) fn of_route(&self, route: &'static str) -> RouteMetrics {
        let cells = METHODS.len() * STATUSES.len();
        RouteMetrics {
            all: self.clone(),
            route,
            counters: std::iter::repeat_with(OnceLock::new).take(cells).collect(),
            seconds: OnceLock::new(),
            waiting_seconds: OnceLock::new(),
        }
    }

    /// Open connections.
    pub(crate) fn connections(&self) -> &Gauge {
        &self.0.connections
    }

    /// Rejected connections.
    pub(crate) fn refused(&self) -> &Counter {
        &self.0.refused
    }
}

/// The metrics of the calls on one route.
#[derive(Debug)]
pub(crate) struct RouteMetrics {
    all: HttpMetrics,
    route: &'static str,
    /// By method and status.
    counters: Vec<OnceLock<Counter>>,
    seconds: OnceLock<Histogram>,
    waiting_seconds: OnceLock<Histogram>,
}

impl RouteMetrics {
    /// Starts measuring one call. A call that is dropped without a reply counts as a disconnect.
    pub(crate) fn begin(&self, method: &Method) -> InFlight<'_> {
        InFlight { metrics: self, method: method_number(method), answered: false }
    }

    fn count(&self, method: usize, status: u16) {
        let code = STATUSES.iter().position(|(number, _)| *number == status);
        let code = code.unwrap_or(STATUSES.len() - 1);
        let Some(cell) = self.counters.get(method * STATUSES.len() + code) else { return };
        let counter = cell.get_or_init(|| {
            let series =
                [("route", self.route), ("method", METHODS[method]), ("code", STATUSES[code].1)];
            self.all.0.requests.get_or_create(&series).clone()
        });
        counter.inc();
    }

    fn time(&self, took: Duration, waits: bool) {
        let (family, histogram) = if waits {
            (&self.all.0.waiting_seconds, &self.waiting_seconds)
        } else {
            (&self.all.0.seconds, &self.seconds)
        };
        let histogram =
            histogram.get_or_init(|| family.get_or_create(&[("route", self.route)]).clone());
        histogram.observe(took.as_secs_f64());
    }
}

fn method_number(method: &Method) -> usize {
    let known = METHODS.iter().position(|name| *name == method.as_str());
    known.unwrap_or(METHODS.len() - 1)
}

/// A call that has not been counted yet.
#[derive(Debug)]
pub(crate) struct InFlight<'a> {
    metrics: &'a RouteMetrics,
    method: usize,
    answered: bool,
}

impl InFlight<'_> {
    /// Counts the call with the status of its reply. `waits` is true if the call asked to wait.
    pub(crate) fn answered(mut self, status: StatusCode, took: Duration, waits: bool) {
        self.answered = true;
        self.metrics.count(self.method, status.as_u16());
        self.metrics.time(took, waits);
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        if !self.answered {
            self.metrics.count(self.method, DISCONNECTED);
        }
    }
}

#[cfg(test)]
mod tests {
    use holdfast_api::ErrorCode;

    use super::*;
    use crate::operations::OPERATIONS;

    fn text(registry: &Registry) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, registry).unwrap();
        text
    }

    #[test]
    fn the_status_of_every_response_has_a_label() {
        let errors = ErrorCode::ALL.iter().map(|code| crate::status::of_code(*code));
        let specs = OPERATIONS.iter().flat_map(|operation| (operation.answers)());
        for status in errors.chain(specs.map(|spec| spec.status)) {
            assert!(STATUSES.iter().any(|(known, _)| *known == status.as_u16()), "{status}");
        }
    }

    #[test]
    fn calls_are_counted_by_route_method_and_status() {
        let mut registry = Registry::with_prefix("holdfast");
        let metrics = HttpMetrics::register(&mut registry);
        let took = Duration::from_millis(2);
        let (lock, other) = (metrics.of_route("/v1/locks/{name}"), metrics.of_route("other"));
        lock.begin(&Method::PUT).answered(StatusCode::OK, took, false);
        lock.begin(&Method::PUT).answered(StatusCode::OK, took, true);
        lock.begin(&Method::PATCH).answered(StatusCode::OK, took, false);
        other.begin(&Method::TRACE).answered(StatusCode::IM_A_TEAPOT, took, false);
        drop(lock.begin(&Method::PUT));
        let text = text(&registry);
        for line in [
            r#"holdfast_http_requests_total{route="/v1/locks/{name}",method="PUT",code="200"} 2"#,
            r#"holdfast_http_requests_total{route="/v1/locks/{name}",method="PUT",code="499"} 1"#,
            r#"holdfast_http_requests_total{route="/v1/locks/{name}",method="PATCH",code="200"} 1"#,
            r#"holdfast_http_waiting_request_seconds_count{route="/v1/locks/{name}"} 1"#,
            r#"holdfast_http_requests_total{route="other",method="other",code="other"} 1"#,
            r#"holdfast_http_request_seconds_bucket{le="0.0025",route="/v1/locks/{name}"} 2"#,
        ] {
            assert!(text.contains(line), "{line} is missing in\n{text}");
        }
    }
}
