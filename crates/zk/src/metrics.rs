//! Metrics of the front-end: connections, and requests and latencies by operation.
//!
//! The counters of each operation are cached, so that a request takes no lock of the metrics library. The number of
//! series is bounded: operations are a closed list, and nothing is counted by path, session or address.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use holdfast_service::LATENCY_BUCKETS;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::op_kind::OpKind;

type Series = [(&'static str, &'static str); 1];

/// Clones share the same metrics.
#[derive(Clone, Debug)]
pub struct ZkMetrics(pub(crate) Arc<Inner>);

#[derive(Debug)]
pub(crate) struct Inner {
    requests: Family<Series, Counter>,
    failed: Counter,
    seconds: Family<Series, Histogram, fn() -> Histogram>,
    /// Entries of `requests` and `seconds`, by [`OpKind::index`].
    by_kind: Vec<OnceLock<(Counter, Histogram)>>,
    pub(crate) connections: Gauge,
    pub(crate) refused: Counter,
    pub(crate) dropped: Counter,
    pub(crate) handshakes: Counter,
    pub(crate) words: Counter,
    pub(crate) watch_events: Counter,
    pub(crate) watches: Gauge,
}

impl ZkMetrics {
    /// Registers the metrics; the registry adds the prefix.
    pub fn register(registry: &mut Registry) -> Self {
        let inner = Inner {
            requests: Family::default(),
            failed: Counter::default(),
            seconds: Family::new_with_constructor(|| Histogram::new(LATENCY_BUCKETS)),
            by_kind: std::iter::repeat_with(OnceLock::new).take(OpKind::COUNT).collect(),
            connections: Gauge::default(),
            refused: Counter::default(),
            dropped: Counter::default(),
            handshakes: Counter::default(),
            words: Counter::default(),
            watch_events: Counter::default(),
            watches: Gauge::default(),
        };
        registry.register(
            "zk_requests",
            "ZooKeeper requests with a reply, by operation",
            inner.requests.clone(),
        );
        let help = "Seconds from the arrival of a ZooKeeper request to its reply in the buffer of the socket";
        registry.register("zk_request_seconds", help, inner.seconds.clone());
        registry.register(
            "zk_connections",
            "Open ZooKeeper connections of this node",
            inner.connections.clone(),
        );
        registry.register(
            "zk_watches",
            "Watches set through ZooKeeper connections of this node",
            inner.watches.clone(),
        );
        for (name, help, counter) in [
            ("zk_requests_failed", "ZooKeeper requests with an error reply", &inner.failed),
            (
                "zk_connections_refused",
                "ZooKeeper connections that this node refused because too many were open",
                &inner.refused,
            ),
            (
                "zk_connections_dropped",
                "ZooKeeper connections closed because of a protocol error, a timeout or a client that does not read",
                &inner.dropped,
            ),
            (
                "zk_handshakes",
                "Sessions opened or taken over by a ZooKeeper connection",
                &inner.handshakes,
            ),
            ("zk_words", "Four-letter commands with a reply", &inner.words),
            ("zk_watch_events", "Watch events sent to ZooKeeper clients", &inner.watch_events),
        ] {
            registry.register(name, help, counter.clone());
        }
        Self(Arc::new(inner))
    }

    pub(crate) fn count_reply(&self, kind: OpKind, failed: bool, latency: Duration) {
        if failed {
            self.0.failed.inc();
        }
        let Some(metrics) = self.0.by_kind.get(kind.index()) else { return };
        let (counter, histogram) = metrics.get_or_init(|| {
            let series = [("op", kind.name())];
            let counter = self.0.requests.get_or_create(&series).clone();
            (counter, self.0.seconds.get_or_create(&series).clone())
        });
        counter.inc();
        histogram.observe(latency.as_secs_f64());
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
        metrics.count_reply(OpKind::of(op::CREATE), false, took);
        metrics.count_reply(OpKind::of(op::CREATE), true, took);
        metrics.count_reply(OpKind::of(77), true, took);
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
