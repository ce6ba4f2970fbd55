//! What the door counts for Prometheus: connections, requests by operation, and how long they took.
//!
//! Counters are looked up in a table of their own, so that a request takes no lock in the metrics library. The number
//! of series is bounded: operations are a closed list, nothing is counted by path, session or address.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::kind::Kind;

type Series = [(&'static str, &'static str); 1];

/// Upper bounds of the buckets, seconds: from a local read to the longest write.
const BUCKETS: [f64; 15] = [
    0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
    1.0, 5.0,
];

/// Handles to the door's metrics; clones share them.
#[derive(Clone, Debug)]
pub struct ZkMetrics(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    requests: Family<Series, Counter>,
    failed: Counter,
    seconds: Family<Series, Histogram, fn() -> Histogram>,
    /// Cells of `requests` and `seconds`, by kind.
    cells: Vec<OnceLock<(Counter, Histogram)>>,
    connections: Gauge,
    refused: Counter,
    dropped: Counter,
    handshakes: Counter,
    words: Counter,
    notices: Counter,
    watches: Gauge,
}

impl ZkMetrics {
    /// Makes the metrics and puts them into a registry, which sets the prefix.
    pub fn register(registry: &mut Registry) -> Self {
        let inner = Inner {
            requests: Family::default(),
            failed: Counter::default(),
            seconds: Family::new_with_constructor(|| Histogram::new(BUCKETS)),
            cells: std::iter::repeat_with(OnceLock::new).take(Kind::COUNT).collect(),
            connections: Gauge::default(),
            refused: Counter::default(),
            dropped: Counter::default(),
            handshakes: Counter::default(),
            words: Counter::default(),
            notices: Counter::default(),
            watches: Gauge::default(),
        };
        registry.register("zk_requests", "Requests answered", inner.requests.clone());
        let help = "From a request's last byte to its reply in the socket's buffer";
        registry.register("zk_request_seconds", help, inner.seconds.clone());
        registry.register("zk_connections", "Open connections", inner.connections.clone());
        registry.register("zk_watches", "Watches armed on this node", inner.watches.clone());
        for (name, help, counter) in [
            ("zk_requests_failed", "Requests answered with an error", &inner.failed),
            (
                "zk_connections_refused",
                "Connections refused because too many were open",
                &inner.refused,
            ),
            (
                "zk_connections_dropped",
                "Connections closed for what the client did or did not do",
                &inner.dropped,
            ),
            ("zk_handshakes", "Sessions opened or taken over", &inner.handshakes),
            ("zk_words", "Four-letter words answered", &inner.words),
            ("zk_watch_events", "Watch events sent", &inner.notices),
        ] {
            registry.register(name, help, counter.clone());
        }
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

    /// Connections that the client's conduct ended.
    pub(crate) fn dropped(&self) -> &Counter {
        &self.0.dropped
    }

    /// Sessions opened or taken over.
    pub(crate) fn handshakes(&self) -> &Counter {
        &self.0.handshakes
    }

    /// Four-letter words answered.
    pub(crate) fn words(&self) -> &Counter {
        &self.0.words
    }

    /// Watch events sent.
    pub(crate) fn notices(&self) -> &Counter {
        &self.0.notices
    }

    /// Watches armed on this node.
    pub(crate) fn watches(&self) -> &Gauge {
        &self.0.watches
    }

    /// Counts a reply.
    pub(crate) fn answered(&self, kind: Kind, failed: bool, took: Duration) {
        if failed {
            self.0.failed.inc();
        }
        let Some(cell) = self.0.cells.get(kind.index()) else { return };
        let (counter, histogram) = cell.get_or_init(|| {
            let series = [("op", kind.name())];
            let counter = self.0.requests.get_or_create(&series).clone();
            (counter, self.0.seconds.get_or_create(&series).clone())
        });
        counter.inc();
        histogram.observe(took.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use holdfast_zkwire::op;

    use super::*;

    #[test]
    fn requests_are_counted_by_operation() {
        let mut registry = Registry::with_prefix("holdfast");
        let metrics = ZkMetrics::register(&mut registry);
        let took = Duration::from_micros(200);
        metrics.answered(Kind::of(op::CREATE), false, took);
        metrics.answered(Kind::of(op::CREATE), true, took);
        metrics.answered(Kind::of(77), true, took);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        for line in [
            r#"holdfast_zk_requests_total{op="create"} 2"#,
            r#"holdfast_zk_requests_total{op="other"} 1"#,
            "holdfast_zk_requests_failed_total 2",
            r#"holdfast_zk_request_seconds_bucket{le="0.00025",op="create"} 2"#,
        ] {
            assert!(text.contains(line), "{line} is missing in\n{text}");
        }
    }
}
