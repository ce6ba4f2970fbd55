//! The other members, with one channel for each member and purpose.
//!
//! Addresses come from this node's configuration: the membership in the log has only ids.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdfast_tls::PeerTls;
use holdfast_types::NodeId;
use tokio::time::Instant;

use crate::config::MemberAddresses;
use crate::error::CallError;
use crate::transport::channel::PeerChannel;
use crate::transport::handshake::PeerHandshake;
use crate::transport::reachability::Reachability;
use crate::wire::{PeerCall, Purpose};

const PURPOSES: [Purpose; 5] =
    [Purpose::Replication, Purpose::Control, Purpose::Snapshot, Purpose::Calls, Purpose::Bootstrap];

pub(crate) struct Peers {
    channels: BTreeMap<(NodeId, Purpose), Arc<PeerChannel>>,
}

impl Peers {
    pub(crate) fn new(
        handshake: &Arc<PeerHandshake>,
        tls: Option<&PeerTls>,
        own: NodeId,
        members: &BTreeMap<NodeId, MemberAddresses>,
    ) -> Self {
        let others = members.iter().filter(|(id, _)| **id != own);
        let channels = others.flat_map(|(id, member)| {
            let (id, address) = (*id, &member.peer);
            let reachability = Arc::new(Reachability::new(id, address.clone()));
            PURPOSES.map(|purpose| {
                let (handshake, reachability) = (handshake.clone(), reachability.clone());
                let (tls, address) = (tls.cloned(), address.clone());
                let channel = PeerChannel::new(handshake, tls, id, address, purpose, reachability);
                ((id, purpose), Arc::new(channel))
            })
        });
        Self { channels: channels.collect() }
    }

    /// Calls a peer; connects first if necessary.
    pub(crate) async fn call<C: PeerCall>(
        &self,
        to: NodeId,
        purpose: Purpose,
        call: C,
        deadline: Instant,
    ) -> Result<C::Reply, CallError> {
        match self.channels.get(&(to, purpose)) {
            Some(channel) => channel.call(call, deadline).await,
            None => Err(CallError::NotSent(format!("node {to} is not among the members"))),
        }
    }

    /// Closes the connection for a purpose; the peer then drops its partial snapshot.
    pub(crate) fn close(&self, to: NodeId, purpose: Purpose) {
        if let Some(channel) = self.channels.get(&(to, purpose)) {
            channel.close();
        }
    }

    /// Returns `true` if any connection to a peer is open, except a bootstrap connection.
    pub(crate) fn is_connected(&self, to: NodeId) -> bool {
        PURPOSES.iter().filter(|purpose| **purpose != Purpose::Bootstrap).any(|purpose| {
            self.channels.get(&(to, *purpose)).is_some_and(|channel| channel.is_open())
        })
    }
}
