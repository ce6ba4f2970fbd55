//! A bound for the connections whose callers have proved no identity.
//!
//! Strangers can open connections and send nothing. Above a bound, the oldest such connection closes: of the source at its
//! bound, or of the source with the most. An honest client proves its identity within milliseconds.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::failures::network;

/// The maximum number of connections of a listener whose callers have proved no identity.
pub const PENDING_MAX: usize = 8_192;
/// The maximum number of them of one source.
pub const PENDING_PER_SOURCE_MAX: usize = 4_096;

/// The connections of one listener without an identity. Clones share them.
#[derive(Clone, Debug)]
pub struct PendingConnections(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    max: usize,
    per_source_max: usize,
    pending: Mutex<PendingBySource>,
}

#[derive(Debug, Default)]
struct PendingBySource {
    /// By source, then by the order of their begins.
    sources: BTreeMap<IpAddr, BTreeMap<u64, Arc<Notify>>>,
    count: usize,
    begun: u64,
}

/// One connection until the drop of this value.
#[derive(Debug)]
pub struct PendingConnection {
    all: Arc<Shared>,
    source: IpAddr,
    number: u64,
    evicted: Arc<Notify>,
}

impl PendingConnections {
    /// The bounds of a port of a node that accepts so many connections: an eighth is left for callers with an identity.
    pub fn of_port(connections_max: usize) -> Self {
        let max = connections_max - connections_max / 8;
        Self::new(max.min(PENDING_MAX), PENDING_PER_SOURCE_MAX)
    }

    /// At most `max` connections, and `per_source_max` of each source.
    pub fn new(max: usize, per_source_max: usize) -> Self {
        Self(Arc::new(Shared { max, per_source_max, pending: Mutex::default() }))
    }

    /// Runs a handshake. Returns `None` if its connection was evicted.
    pub async fn run<T>(&self, source: IpAddr, handshake: impl Future<Output = T>) -> Option<T> {
        let pending = self.begin(source);
        tokio::select! {
            done = handshake => Some(done),
            () = pending.evicted() => None,
        }
    }

    /// Adds a connection. Above a bound, another one is evicted.
    pub fn begin(&self, source: IpAddr) -> PendingConnection {
        let source = network(source);
        let mut pending = self.0.pending.lock();
        pending.begun += 1;
        pending.count += 1;
        let (number, evicted) = (pending.begun, Arc::<Notify>::default());
        let of_source = pending.sources.entry(source).or_default();
        of_source.insert(number, evicted.clone());
        if of_source.len() > self.0.per_source_max {
            pending.evict(source);
        } else if pending.count > self.0.max {
            // Of several, the one with the oldest connection.
            let largest = pending.sources.iter().max_by_key(|(_, connections)| {
                (connections.len(), connections.keys().next().copied().map(Reverse))
            });
            if let Some(largest) = largest.map(|(source, _)| *source) {
                pending.evict(largest);
            }
        }
        drop(pending);
        PendingConnection { all: self.0.clone(), source, number, evicted }
    }
}

impl PendingConnection {
    /// Resolves when the connection must close.
    pub fn evicted(&self) -> impl Future<Output = ()> + Send + use<> {
        let evicted = self.evicted.clone();
        async move { evicted.notified().await }
    }
}

impl PendingBySource {
    /// Evicts the oldest connection of a source.
    fn evict(&mut self, source: IpAddr) {
        let oldest = self.sources.get(&source).and_then(|all| all.first_key_value());
        if let Some(number) = oldest.map(|(number, _)| *number)
            && let Some(evicted) = self.remove(source, number)
        {
            evicted.notify_one();
        }
    }

    fn remove(&mut self, source: IpAddr, number: u64) -> Option<Arc<Notify>> {
        let of_source = self.sources.get_mut(&source)?;
        let removed = of_source.remove(&number)?;
        if of_source.is_empty() {
            self.sources.remove(&source);
        }
        self.count -= 1;
        Some(removed)
    }
}

impl Drop for PendingConnection {
    fn drop(&mut self) {
        self.all.pending.lock().remove(self.source, self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(n: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, n])
    }

    /// Which of the connections must close, in order.
    fn evicted(connections: &[PendingConnection]) -> Vec<usize> {
        use futures_util::FutureExt as _;
        let is_evicted = |index: &usize| connections[*index].evicted().now_or_never().is_some();
        (0..connections.len()).filter(is_evicted).collect()
    }

    #[test]
    fn the_oldest_connection_of_a_source_closes_above_the_bound_of_a_source() {
        let pending = PendingConnections::new(10, 2);
        let connections = [1, 2, 2, 2].map(|n| pending.begin(source(n)));
        assert_eq!(evicted(&connections), [1]);
    }

    #[test]
    fn above_the_bound_of_all_the_source_with_the_most_connections_loses_one() {
        let pending = PendingConnections::new(4, 3);
        let connections = [1, 2, 2, 2, 3].map(|n| pending.begin(source(n)));
        assert_eq!(evicted(&connections), [1]);
    }

    #[tokio::test]
    async fn a_complete_handshake_leaves_its_place() {
        let pending = PendingConnections::new(1, 1);
        for number in 0..10 {
            assert_eq!(pending.run(source(1), async { number }).await, Some(number));
        }
        let left = pending.0.pending.lock();
        assert!(left.sources.is_empty() && left.count == 0);
    }

    #[tokio::test]
    async fn an_evicted_handshake_ends() {
        let pending = PendingConnections::new(2, 2);
        let mut first = std::pin::pin!(pending.run(source(1), std::future::pending::<()>()));
        assert!(futures_util::poll!(&mut first).is_pending());
        let _others = [source(2), source(3)].map(|source| pending.begin(source));
        assert_eq!(first.await, None);
    }
}
