//! A bound for the connections whose handshake is not complete.
//!
//! Strangers can open connections and send nothing. Above the bound, the oldest such connection is closed: an honest
//! client completes its handshake within milliseconds, so it is hardly ever the oldest.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

/// The connections of one listener whose handshake is not complete. Clones share them.
#[derive(Clone, Debug)]
pub struct PendingHandshakes(Arc<HandshakeBound>);

#[derive(Debug)]
struct HandshakeBound {
    max: usize,
    connections: Mutex<PendingConnections>,
}

#[derive(Debug, Default)]
struct PendingConnections {
    /// By the order of their begins.
    pending: BTreeMap<u64, Arc<Notify>>,
    begun: u64,
}

/// One connection until the drop of this value.
#[derive(Debug)]
struct PendingHandshake {
    all: Arc<HandshakeBound>,
    number: u64,
    evicted: Arc<Notify>,
}

impl PendingHandshakes {
    /// At most `max` connections.
    pub fn new(max: usize) -> Self {
        Self(Arc::new(HandshakeBound { max, connections: Mutex::default() }))
    }

    /// Runs a handshake. Returns `None` if it was the oldest one above the bound.
    pub async fn run<T>(&self, handshake: impl Future<Output = T>) -> Option<T> {
        let pending = self.begin();
        tokio::select! {
            done = handshake => Some(done),
            () = pending.evicted.notified() => None,
        }
    }

    fn begin(&self) -> PendingHandshake {
        let mut connections = self.0.connections.lock();
        connections.begun += 1;
        let (number, evicted) = (connections.begun, Arc::<Notify>::default());
        connections.pending.insert(number, evicted.clone());
        let is_full = connections.pending.len() > self.0.max;
        if is_full && let Some((_, oldest)) = connections.pending.pop_first() {
            oldest.notify_one();
        }
        drop(connections);
        PendingHandshake { all: self.0.clone(), number, evicted }
    }
}

impl Drop for PendingHandshake {
    fn drop(&mut self) {
        self.all.connections.lock().pending.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_oldest_handshake_ends_above_the_bound() {
        let pending = PendingHandshakes::new(2);
        let never = || std::future::pending::<()>();
        let mut first = std::pin::pin!(pending.run(never()));
        let mut second = std::pin::pin!(pending.run(never()));
        assert!(futures_util::poll!(&mut first).is_pending());
        assert!(futures_util::poll!(&mut second).is_pending());
        assert_eq!(pending.run(async { 7 }).await, Some(7));
        assert_eq!(first.await, None);
        assert!(futures_util::poll!(&mut second).is_pending());
    }

    #[tokio::test]
    async fn a_complete_handshake_leaves_its_place() {
        let pending = PendingHandshakes::new(1);
        for number in 0..10 {
            assert_eq!(pending.run(async { number }).await, Some(number));
        }
        assert!(pending.0.connections.lock().pending.is_empty());
    }
}
