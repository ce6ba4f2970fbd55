//! The open connections with their statistics, for the four-letter words.
//!
//! The table also counts the connections of each client address and enforces their limit. Bounds: one entry for each
//! open connection.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;

use crate::metrics::OpKind;

/// Counts and latencies since the start or the last reset.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct RequestStats {
    pub(crate) received: u64,
    /// Replies and watch events.
    pub(crate) sent: u64,
    pub(crate) outstanding: u64,
    answered: u64,
    latency_sum: Duration,
    latency_min: Option<Duration>,
    pub(crate) latency_max: Duration,
}

impl RequestStats {
    pub(crate) fn count_request(&mut self) {
        self.received += 1;
        self.outstanding += 1;
    }

    pub(crate) fn count_reply(&mut self, latency: Duration) {
        self.sent += 1;
        self.outstanding = self.outstanding.saturating_sub(1);
        self.answered += 1;
        self.latency_sum += latency;
        self.latency_min = Some(self.latency_min.map_or(latency, |min| min.min(latency)));
        self.latency_max = self.latency_max.max(latency);
    }

    pub(crate) fn count_event(&mut self) {
        self.sent += 1;
    }

    pub(crate) fn latency_min(&self) -> Duration {
        self.latency_min.unwrap_or_default()
    }

    pub(crate) fn latency_average_ms(&self) -> f64 {
        let answered = u32::try_from(self.answered).unwrap_or(u32::MAX);
        if answered == 0 { 0.0 } else { self.latency_sum.as_secs_f64() * 1e3 / f64::from(answered) }
    }

    fn reset(&mut self) {
        *self = Self { outstanding: self.outstanding, ..Self::default() };
    }
}

/// The session and the last request of one connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LastRequest {
    /// 0 before the handshake.
    pub(crate) session: i64,
    pub(crate) timeout_ms: u32,
    pub(crate) kind: Option<OpKind>,
    pub(crate) xid: i32,
    pub(crate) zxid: i64,
    /// When its reply was sent, since the start of the front-end.
    pub(crate) at: Duration,
    pub(crate) latency: Duration,
}

#[derive(Debug)]
pub(crate) struct ConnectionStats {
    pub(crate) peer: SocketAddr,
    /// The start of the connection, milliseconds since 1970.
    pub(crate) since_ms: u128,
    pub(crate) requests: Mutex<RequestStats>,
    pub(crate) last: Mutex<LastRequest>,
}

#[derive(Debug)]
pub(crate) struct ConnectionTable {
    started: Instant,
    per_address_max: usize,
    next: AtomicU64,
    open: Mutex<Open>,
    totals: Mutex<RequestStats>,
}

#[derive(Debug, Default)]
struct Open {
    connections: BTreeMap<u64, Arc<ConnectionStats>>,
    addresses: BTreeMap<IpAddr, usize>,
}

impl ConnectionTable {
    pub(crate) fn new(per_address_max: usize) -> Arc<Self> {
        Arc::new(Self {
            started: Instant::now(),
            per_address_max,
            next: AtomicU64::new(0),
            open: Mutex::default(),
            totals: Mutex::default(),
        })
    }

    /// Adds a connection; `None` if its address has too many already.
    pub(crate) fn open(self: &Arc<Self>, peer: SocketAddr) -> Option<ConnectionGuard> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let stats = Arc::new(ConnectionStats {
            peer,
            since_ms: since.as_millis(),
            requests: Mutex::default(),
            last: Mutex::default(),
        });
        let mut open = self.open.lock();
        let address = open.addresses.entry(peer.ip().to_canonical()).or_default();
        if self.per_address_max > 0 && *address >= self.per_address_max {
            return None;
        }
        *address += 1;
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        open.connections.insert(number, stats.clone());
        drop(open);
        Some(ConnectionGuard { table: self.clone(), number, stats })
    }

    /// All connections, oldest first.
    pub(crate) fn list(&self) -> Vec<Arc<ConnectionStats>> {
        self.open.lock().connections.values().cloned().collect()
    }

    pub(crate) fn count(&self) -> usize {
        self.open.lock().connections.len()
    }

    /// The sums over all connections, including closed ones.
    pub(crate) fn totals(&self) -> RequestStats {
        *self.totals.lock()
    }

    pub(crate) fn reset_totals(&self) {
        self.totals.lock().reset();
    }

    pub(crate) fn reset_connections(&self) {
        for connection in self.list() {
            connection.requests.lock().reset();
        }
    }

    /// The time since the start of the front-end.
    pub(crate) fn uptime(&self) -> Duration {
        self.started.elapsed()
    }
}

/// A connection's entry in the table, which is removed on drop.
#[derive(Debug)]
pub(crate) struct ConnectionGuard {
    table: Arc<ConnectionTable>,
    number: u64,
    stats: Arc<ConnectionStats>,
}

impl ConnectionGuard {
    pub(crate) fn set_session(&self, session: i64, timeout_ms: u32) {
        let mut last = self.stats.last.lock();
        (last.session, last.timeout_ms) = (session, timeout_ms);
    }

    pub(crate) fn count_request(&self) {
        self.stats.requests.lock().count_request();
        self.table.totals.lock().count_request();
    }

    pub(crate) fn count_reply(&self, kind: OpKind, xid: i32, zxid: i64, latency: Duration) {
        self.stats.requests.lock().count_reply(latency);
        self.table.totals.lock().count_reply(latency);
        let mut last = self.stats.last.lock();
        let at = self.table.started.elapsed();
        *last = LastRequest { kind: Some(kind), xid, zxid, at, latency, ..*last };
    }

    pub(crate) fn count_event(&self) {
        self.stats.requests.lock().count_event();
        self.table.totals.lock().count_event();
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        let outstanding = self.stats.requests.lock().outstanding;
        let mut totals = self.table.totals.lock();
        totals.outstanding = totals.outstanding.saturating_sub(outstanding);
        drop(totals);
        let mut open = self.table.open.lock();
        open.connections.remove(&self.number);
        let address = self.stats.peer.ip().to_canonical();
        if let Some(count) = open.addresses.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                open.addresses.remove(&address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    #[test]
    fn the_connections_of_an_address_are_limited_and_a_closed_one_frees_its_slot() {
        let table = ConnectionTable::new(2);
        let first = table.open(peer(1));
        let _second = table.open(peer(2)).unwrap();
        assert!(table.open(peer(3)).is_none());
        assert!(table.open(SocketAddr::from(([127, 0, 0, 2], 1))).is_some());
        drop(first);
        assert!(table.open(peer(3)).is_some());
        assert_eq!(table.count(), 1);
    }

    #[test]
    fn statistics_follow_requests_and_a_closed_connection_has_none_outstanding() {
        let table = ConnectionTable::new(0);
        let guard = table.open(peer(1)).unwrap();
        guard.count_request();
        guard.count_request();
        guard.count_reply(OpKind::of(1), 5, 9, Duration::from_millis(4));
        guard.count_event();
        let totals = table.totals();
        assert_eq!((totals.received, totals.sent, totals.outstanding), (2, 2, 1));
        assert_eq!((totals.latency_min().as_millis(), totals.latency_max.as_millis()), (4, 4));
        assert!((totals.latency_average_ms() - 4.0).abs() < f64::EPSILON);
        assert_eq!(table.list()[0].last.lock().zxid, 9);
        drop(guard);
        assert_eq!(table.totals().outstanding, 0);
        table.reset_totals();
        assert_eq!(table.totals(), RequestStats::default());
    }
}
