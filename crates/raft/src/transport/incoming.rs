//! The open connections from each peer, except those for calls and for the bootstrap.
//!
//! The connections of a process close when it ends, so their end is the first sign of the loss of a leader. Bound: the
//! connections of the server.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdfast_types::NodeId;
use parking_lot::Mutex;
use tokio::sync::mpsc;

/// The maximum number of unread ends. A full queue drops further ones, because it already triggers an election.
const ENDED_MAX: usize = 16;

pub(crate) struct IncomingConnections {
    open: Mutex<BTreeMap<NodeId, u32>>,
    ended: mpsc::Sender<NodeId>,
}

impl IncomingConnections {
    /// The receiver gets the peer of each connection that has ended.
    pub(crate) fn new() -> (Arc<Self>, mpsc::Receiver<NodeId>) {
        let (ended, ends) = mpsc::channel(ENDED_MAX);
        (Arc::new(Self { open: Mutex::default(), ended }), ends)
    }

    /// Counts a connection until the drop of the returned value.
    pub(crate) fn opened(self: &Arc<Self>, peer: NodeId) -> IncomingConnection {
        *self.open.lock().entry(peer).or_default() += 1;
        IncomingConnection { connections: self.clone(), peer }
    }

    pub(crate) fn has(&self, peer: NodeId) -> bool {
        self.open.lock().contains_key(&peer)
    }
}

/// One open connection.
pub(crate) struct IncomingConnection {
    connections: Arc<IncomingConnections>,
    peer: NodeId,
}

impl Drop for IncomingConnection {
    fn drop(&mut self) {
        let mut open = self.connections.open.lock();
        if let Some(count) = open.get_mut(&self.peer) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.peer);
            }
        }
        drop(open);
        self.connections.ended.try_send(self.peer).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_has_a_connection_until_the_last_one_ends() {
        let (connections, mut ends) = IncomingConnections::new();
        let (first, second) = (connections.opened(NodeId(2)), connections.opened(NodeId(2)));
        assert!(connections.has(NodeId(2)) && !connections.has(NodeId(3)));
        drop(first);
        assert!(connections.has(NodeId(2)));
        assert_eq!(ends.try_recv(), Ok(NodeId(2)));
        drop(second);
        assert!(!connections.has(NodeId(2)));
        assert_eq!(ends.try_recv(), Ok(NodeId(2)));
    }
}
