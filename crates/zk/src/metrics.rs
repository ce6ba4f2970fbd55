//! Metrics of the front-end: connections, and requests and latencies by kind of operation.
//!
//! The counters of each operation are cached, so that a request takes no lock of the metrics library. The number of
//! series is bounded: operations are a closed list, and nothing is counted by path, session or address.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use holdfast_service::LATENCY_BUCKETS;
use holdfast_zkwire::op;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

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

/// The kind of an operation, for metrics, `cons` and log lines. The list is closed: unknown operations share the last kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OpKind(usize);

/// Number, name in metrics, and letters in `cons`.
const KINDS: &[(i32, &str, &str)] = &[
    (op::CREATE, "create", "CREA"),
    (op::DELETE, "delete", "DELE"),
    (op::EXISTS, "exists", "EXIS"),
    (op::GET_DATA, "getData", "GETD"),
    (op::SET_DATA, "setData", "SETD"),
    (op::GET_ACL, "getACL", "GETA"),
    (op::SET_ACL, "setACL", "SETA"),
    (op::GET_CHILDREN, "getChildren", "GETC"),
    (op::SYNC, "sync", "SYNC"),
    (op::PING, "ping", "PING"),
    (op::GET_CHILDREN2, "getChildren2", "GETC"),
    (op::CHECK, "check", "CHEC"),
    (op::MULTI, "multi", "MULT"),
    (op::CREATE2, "create2", "CREA"),
    (op::RECONFIG, "reconfig", "RECO"),
    (op::CHECK_WATCHES, "checkWatches", "CHKW"),
    (op::REMOVE_WATCHES, "removeWatches", "REMW"),
    (op::CREATE_CONTAINER, "createContainer", "CREA"),
    (op::CREATE_TTL, "createTTL", "CREA"),
    (op::MULTI_READ, "multiRead", "MLTR"),
    (op::AUTH, "auth", "AUTH"),
    (op::SET_WATCHES, "setWatches", "SETW"),
    (op::SASL, "sasl", "SASL"),
    (op::GET_EPHEMERALS, "getEphemerals", "GETE"),
    (op::GET_ALL_CHILDREN_NUMBER, "getAllChildrenNumber", "GACN"),
    (op::SET_WATCHES2, "setWatches2", "STW2"),
    (op::ADD_WATCH, "addWatch", "ADDW"),
    (op::WHO_AM_I, "whoAmI", "HOMI"),
    (op::CLOSE_SESSION, "closeSession", "CLOS"),
    (i32::MIN, "other", "NA"),
];

impl OpKind {
    const COUNT: usize = KINDS.len();
    const OTHER: Self = Self(KINDS.len() - 1);

    pub(crate) fn of(op: i32) -> Self {
        KINDS.iter().position(|(number, ..)| *number == op).map_or(Self::OTHER, Self)
    }

    /// Whether it only renews the session.
    pub(crate) fn is_ping(self) -> bool {
        KINDS.get(self.0).is_some_and(|(number, ..)| *number == op::PING)
    }

    fn index(self) -> usize {
        self.0
    }

    pub(crate) fn name(self) -> &'static str {
        KINDS.get(self.0).map_or("other", |(_, name, _)| name)
    }

    pub(crate) fn letters(self) -> &'static str {
        KINDS.get(self.0).map_or("NA", |(_, _, letters)| letters)
    }
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn operations_are_known_by_their_number_and_the_rest_are_other() {
        assert_eq!(OpKind::of(op::CREATE2).name(), "create2");
        assert_eq!(OpKind::of(op::CLOSE_SESSION).letters(), "CLOS");
        assert_eq!(OpKind::of(99), OpKind::OTHER);
        assert_eq!(OpKind::OTHER.name(), "other");
    }
}
