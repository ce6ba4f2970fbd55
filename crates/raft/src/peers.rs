//! The other members, and the lanes to them.
//!
//! Owns one lane for each member and purpose. Addresses come from this node's own configuration: the membership in the
//! log holds ids only.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdfast_types::NodeId;
use tokio::time::Instant;

use crate::config::Member;
use crate::error::CallError;
use crate::transport::handshake::Doorman;
use crate::transport::lane::Lane;
use crate::transport::reach::Reach;
use crate::wire::{Purpose, ReplyBody, RequestBody};

const PURPOSES: [Purpose; 5] =
    [Purpose::Replication, Purpose::Control, Purpose::Snapshot, Purpose::Calls, Purpose::Founding];

/// See the module.
pub(crate) struct Peers {
    lanes: BTreeMap<(NodeId, Purpose), Arc<Lane>>,
}

impl Peers {
    pub(crate) fn new(
        doorman: &Arc<Doorman>,
        own: NodeId,
        members: &BTreeMap<NodeId, Member>,
    ) -> Self {
        let others = members.iter().filter(|(id, _)| **id != own);
        let lanes = others.flat_map(|(id, member)| {
            let (id, address) = (*id, &member.peer);
            let reach = Arc::new(Reach::new(id, address.clone()));
            PURPOSES.map(|purpose| {
                let lane = Lane::new(doorman.clone(), id, address.clone(), purpose, reach.clone());
                ((id, purpose), Arc::new(lane))
            })
        });
        Self { lanes: lanes.collect() }
    }

    /// Asks a peer, connecting first if need be.
    pub(crate) async fn call(
        &self,
        to: NodeId,
        purpose: Purpose,
        body: &RequestBody,
        deadline: Instant,
    ) -> Result<ReplyBody, CallError> {
        match self.lanes.get(&(to, purpose)) {
            Some(lane) => lane.call(body, deadline).await,
            None => Err(CallError::NotSent(format!("node {to} is not among the members"))),
        }
    }

    /// Gives up the connection for a purpose: what was asked on it is not wanted any more.
    pub(crate) fn close(&self, to: NodeId, purpose: Purpose) {
        if let Some(lane) = self.lanes.get(&(to, purpose)) {
            lane.close();
        }
    }

    /// Whether any connection to a peer is open, but for one about founding.
    pub(crate) fn is_connected(&self, to: NodeId) -> bool {
        PURPOSES
            .iter()
            .filter(|purpose| **purpose != Purpose::Founding)
            .any(|purpose| self.lanes.get(&(to, *purpose)).is_some_and(|lane| lane.is_open()))
    }
}
