//! The connections to other members, one channel for each member and purpose, made at the first call; and those from them.
//!
//! Bound: the members, and those that left since the start of the process.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use holdfast_tls::PeerTls;
use holdfast_types::NodeId;
use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, timeout};

use crate::error::CallError;
use crate::transport::channel::{PeerChannel, Reachability};
use crate::transport::handshake::PeerHandshake;
use crate::wire::{PeerCall, Purpose};

const PURPOSES: [Purpose; 5] =
    [Purpose::Replication, Purpose::Control, Purpose::Snapshot, Purpose::Calls, Purpose::Bootstrap];

/// The time limit for a machine to refuse a connection, which its kernel does at once.
const REFUSAL_TIMEOUT: Duration = Duration::from_millis(50);

/// The time between two checks of changed addresses.
const CHANGED_EVERY: Duration = Duration::from_secs(2);

/// The maximum number of unread ends. A full queue drops further ones, because it already triggers an election.
const ENDED_MAX: usize = 16;

pub(crate) struct Peers {
    handshake: Arc<PeerHandshake>,
    tls: Option<PeerTls>,
    channels: Mutex<BTreeMap<(NodeId, Purpose), Arc<PeerChannel>>>,
    reachability: Mutex<BTreeMap<NodeId, Arc<Reachability>>>,
    /// The peers that rejected this node's last entries or snapshot, because their disks are below the reserve.
    pub(crate) low_disks: watch::Sender<BTreeSet<NodeId>>,
}

impl Peers {
    pub(crate) fn new(handshake: &Arc<PeerHandshake>, tls: Option<&PeerTls>) -> Self {
        Self {
            handshake: handshake.clone(),
            tls: tls.cloned(),
            channels: Mutex::default(),
            reachability: Mutex::default(),
            low_disks: watch::Sender::default(),
        }
    }

    pub(crate) fn handshake(&self) -> &PeerHandshake {
        &self.handshake
    }

    /// A connection outlives a change of the peer's address. This task connects to the new one, so that a wrong address is
    /// noticed before the peer restarts.
    pub(crate) async fn check_changed_addresses(self: Arc<Self>) {
        loop {
            tokio::time::sleep(CHANGED_EVERY).await;
            let known: Vec<_> = self.reachability.lock().values().cloned().collect();
            for peer in known {
                let (to, used) = (peer.peer(), peer.connected_to());
                let address = self.handshake.peer_address(to);
                if used.is_none() || address.is_none() || !self.is_connected(to) {
                    continue;
                }
                if used == address {
                    // Corrected to the address of the open connection.
                    if peer.failed_at() != address && peer.failure().is_some() {
                        peer.record_success(address);
                    }
                    continue;
                }
                let (handshake, tls) = (self.handshake.clone(), self.tls.clone());
                let channel = PeerChannel::new(handshake, tls, to, Purpose::Calls, peer);
                Arc::new(channel).open().await;
            }
        }
    }

    /// The address and the reason of the last failed attempt to reach a peer, and how long it has been failing.
    pub(crate) fn failure(&self, of: NodeId) -> Option<(String, Duration)> {
        self.reachability.lock().get(&of)?.failure()
    }

    /// Records whether the disk of a peer rejects entries.
    pub(crate) fn record_disk(&self, of: NodeId, is_low: bool) {
        self.low_disks
            .send_if_modified(|low| if is_low { low.insert(of) } else { low.remove(&of) });
    }

    /// Calls a peer; connects first if necessary.
    pub(crate) async fn call<C: PeerCall>(
        &self,
        to: NodeId,
        purpose: Purpose,
        call: C,
        deadline: Instant,
    ) -> Result<C::Reply, CallError> {
        let channel = self.channel(to, purpose);
        let channel =
            channel.ok_or_else(|| CallError::NotSent(format!("node {to} is not a member")))?;
        channel.call(call, deadline).await
    }

    /// Returns `true` if the machine of a peer refuses a new connection: no process listens there.
    pub(crate) async fn is_refused(&self, to: NodeId) -> bool {
        let Some(address) = self.handshake.peer_address(to) else { return false };
        let connecting = timeout(REFUSAL_TIMEOUT, TcpStream::connect(address.to_string()));
        let error = connecting.await.ok().and_then(Result::err);
        error.is_some_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
    }

    /// Returns `None` for an id of no member, so that calls of such ids leave nothing behind.
    fn channel(&self, to: NodeId, purpose: Purpose) -> Option<Arc<PeerChannel>> {
        let existing = self.existing(to, purpose);
        if existing.is_some() || !self.handshake.is_member(to) {
            return existing;
        }
        let mut channels = self.channels.lock();
        let channel = channels.entry((to, purpose)).or_insert_with(|| {
            let (handshake, tls) = (self.handshake.clone(), self.tls.clone());
            let mut reachability = self.reachability.lock();
            let reachability =
                reachability.entry(to).or_insert_with(|| Arc::new(Reachability::new(to)));
            Arc::new(PeerChannel::new(handshake, tls, to, purpose, reachability.clone()))
        });
        Some(channel.clone())
    }

    fn existing(&self, to: NodeId, purpose: Purpose) -> Option<Arc<PeerChannel>> {
        self.channels.lock().get(&(to, purpose)).cloned()
    }

    /// Closes the connection for a purpose; the peer then drops its partial snapshot.
    pub(crate) fn close(&self, to: NodeId, purpose: Purpose) {
        if let Some(channel) = self.existing(to, purpose) {
            channel.close();
        }
    }

    /// Returns `true` if any connection to a peer is open, except a bootstrap connection.
    pub(crate) fn is_connected(&self, to: NodeId) -> bool {
        let mut purposes = PURPOSES.iter().filter(|purpose| **purpose != Purpose::Bootstrap);
        purposes.any(|purpose| self.existing(to, *purpose).is_some_and(|channel| channel.is_open()))
    }
}

/// The open connections from each peer, except those for calls and for the bootstrap. The connections of a process close
/// when it ends, so their end is the first sign of the loss of a leader. Bound: the connections of the server.
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
    use crate::transport::handshake::tests::handshake;
    use crate::wire::Ping;

    #[tokio::test]
    async fn a_call_of_an_unknown_or_a_former_member_leaves_no_channel() {
        let dir = tempfile::tempdir().unwrap();
        let peers = Peers::new(&Arc::new(handshake(&dir)), None);
        for (node, channels) in [(5, 0), (7, 0), (1_000, 0), (4, 1)] {
            let called = peers.call(NodeId(node), Purpose::Control, Ping, Instant::now()).await;
            assert!(matches!(called, Err(CallError::NotSent(_))), "{called:?}");
            assert_eq!(peers.channels.lock().len(), channels, "{node}");
            assert_eq!(peers.reachability.lock().len(), channels, "{node}");
        }
    }

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
