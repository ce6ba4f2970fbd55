//! The connections to other members: one channel for each member and purpose, made at the first call.
//!
//! Bound: the members, and those that left since the start of the process.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdfast_tls::PeerTls;
use holdfast_types::NodeId;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::error::CallError;
use crate::transport::channel::PeerChannel;
use crate::transport::handshake::PeerHandshake;
use crate::transport::reachability::Reachability;
use crate::wire::{PeerCall, Purpose};

const PURPOSES: [Purpose; 5] =
    [Purpose::Replication, Purpose::Control, Purpose::Snapshot, Purpose::Calls, Purpose::Bootstrap];

pub(crate) struct Peers {
    handshake: Arc<PeerHandshake>,
    tls: Option<PeerTls>,
    channels: Mutex<BTreeMap<(NodeId, Purpose), Arc<PeerChannel>>>,
    reachability: Mutex<BTreeMap<NodeId, Arc<Reachability>>>,
}

impl Peers {
    pub(crate) fn new(handshake: &Arc<PeerHandshake>, tls: Option<&PeerTls>) -> Self {
        let (channels, reachability) = (Mutex::default(), Mutex::default());
        Self { handshake: handshake.clone(), tls: tls.cloned(), channels, reachability }
    }

    pub(crate) fn handshake(&self) -> &PeerHandshake {
        &self.handshake
    }

    /// Calls a peer; connects first if necessary.
    pub(crate) async fn call<C: PeerCall>(
        &self,
        to: NodeId,
        purpose: Purpose,
        call: C,
        deadline: Instant,
    ) -> Result<C::Reply, CallError> {
        self.channel(to, purpose).call(call, deadline).await
    }

    fn channel(&self, to: NodeId, purpose: Purpose) -> Arc<PeerChannel> {
        let mut channels = self.channels.lock();
        let channel = channels.entry((to, purpose)).or_insert_with(|| {
            let (handshake, tls) = (self.handshake.clone(), self.tls.clone());
            let mut reachability = self.reachability.lock();
            let reachability =
                reachability.entry(to).or_insert_with(|| Arc::new(Reachability::new(to)));
            Arc::new(PeerChannel::new(handshake, tls, to, purpose, reachability.clone()))
        });
        channel.clone()
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
