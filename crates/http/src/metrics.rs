//! What the door counts: calls by route, method and status, and how long they took.
//!
//! Counters are looked up in a table of their own, so that a call takes no lock in the metrics library to be counted.
//! The number of series is bounded: routes are patterns, methods and statuses closed lists.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::http::{Method, StatusCode};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::action::Route;

/// Label names and values of one series.
type Series<const N: usize> = [(&'static str, &'static str); N];

const METHODS: [&str; 7] = ["GET", "HEAD", "PUT", "POST", "DELETE", "OPTIONS", "other"];
/// 499 stands for a client that hung up before its answer.
const STATUSES: [(u16, &str); 18] = [
    (200, "200"),
    (201, "201"),
    (204, "204"),
    (307, "307"),
    (400, "400"),
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
/// The status counted for a client that hung up.
const HUNG_UP: u16 = 499;
/// Upper bounds of the buckets, seconds: from a renewal on the leader to the longest wait.
const BUCKETS: [f64; 16] = [
    0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0,
    300.0,
];

/// Handles to the door's metrics; clones share them.
#[derive(Clone, Debug)]
pub struct HttpMetrics(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    requests: Family<Series<3>, Counter>,
    seconds: Family<Series<1>, Histogram, fn() -> Histogram>,
    /// Cells of `requests`, by route, method and status.
    counters: Vec<OnceLock<Counter>>,
    /// Cells of `seconds`, by route.
    histograms: Vec<OnceLock<Histogram>>,
    connections: Gauge,
    refused: Counter,
}

impl HttpMetrics {
    /// Makes the metrics and puts them into a registry, which sets the prefix.
    pub fn register(registry: &mut Registry) -> Self {
        let cells = Route::ALL.len() * METHODS.len() * STATUSES.len();
        let inner = Inner {
            requests: Family::default(),
            seconds: Family::new_with_constructor(|| Histogram::new(BUCKETS)),
            counters: std::iter::repeat_with(OnceLock::new).take(cells).collect(),
            histograms: Route::ALL.iter().map(|_| OnceLock::new()).collect(),
            connections: Gauge::default(),
            refused: Counter::default(),
        };
        registry.register("http_requests", "Calls answered", inner.requests.clone());
        let help = "From a call's head to its answer, waits included";
        registry.register("http_request_seconds", help, inner.seconds.clone());
        registry.register("http_connections", "Open connections", inner.connections.clone());
        let help = "Connections refused because too many were open";
        registry.register("http_connections_refused", help, inner.refused.clone());
        Self(Arc::new(inner))
    }

    /// Open connections.
    pub(crate) fn connections(&self) -> &Gauge {
        &self.0.connections
    }

    /// Connections refused.
    pub(crate) fn refused(&self) -> &Counter {
        &self.0.refused
    }

    /// Follows one call; unless it is answered, it counts as hung up when dropped.
    pub(crate) fn begin(&self, route: Route, method: &Method) -> InFlight<'_> {
        InFlight { metrics: self, route, method: method_number(method), answered: false }
    }

    fn count(&self, route: Route, method: usize, status: u16) {
        let code = STATUSES.iter().position(|(number, _)| *number == status);
        let code = code.unwrap_or(STATUSES.len() - 1);
        let cell = (route as usize * METHODS.len() + method) * STATUSES.len() + code;
        let Some(cell) = self.0.counters.get(cell) else { return };
        let counter = cell.get_or_init(|| {
            let series = [
                ("route", route.pattern()),
                ("method", METHODS[method]),
                ("code", STATUSES[code].1),
            ];
            self.0.requests.get_or_create(&series).clone()
        });
        counter.inc();
    }

    fn time(&self, route: Route, took: Duration) {
        let Some(cell) = self.0.histograms.get(route as usize) else { return };
        let histogram = cell
            .get_or_init(|| self.0.seconds.get_or_create(&[("route", route.pattern())]).clone());
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
    metrics: &'a HttpMetrics,
    route: Route,
    method: usize,
    answered: bool,
}

impl InFlight<'_> {
    /// Counts the call as answered.
    pub(crate) fn answered(mut self, status: StatusCode, took: Duration) {
        self.answered = true;
        self.metrics.count(self.route, self.method, status.as_u16());
        self.metrics.time(self.route, took);
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        if !self.answered {
            self.metrics.count(self.route, self.method, HUNG_UP);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(registry: &Registry) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, registry).unwrap();
        text
    }

    #[test]
    fn calls_are_counted_by_route_method_and_status() {
        let mut registry = Registry::with_prefix("holdfast");
        let metrics = HttpMetrics::register(&mut registry);
        let took = Duration::from_millis(2);
        metrics.begin(Route::Lock, &Method::PUT).answered(StatusCode::OK, took);
        metrics.begin(Route::Lock, &Method::PUT).answered(StatusCode::OK, took);
        metrics.begin(Route::Other, &Method::PATCH).answered(StatusCode::IM_A_TEAPOT, took);
        drop(metrics.begin(Route::Lock, &Method::PUT));
        let text = text(&registry);
        for line in [
            r#"holdfast_http_requests_total{route="/v1/locks/{name}",method="PUT",code="200"} 2"#,
            r#"holdfast_http_requests_total{route="/v1/locks/{name}",method="PUT",code="499"} 1"#,
            r#"holdfast_http_requests_total{route="other",method="other",code="other"} 1"#,
            r#"holdfast_http_request_seconds_bucket{le="0.0025",route="/v1/locks/{name}"} 2"#,
        ] {
            assert!(text.contains(line), "{line} is missing in\n{text}");
        }
    }

    #[test]
    fn routes_are_numbered_in_their_order() {
        for (number, route) in Route::ALL.iter().enumerate() {
            assert_eq!(*route as usize, number);
        }
    }
}
