//! When this node last received an append or a heartbeat that it accepted.

use std::time::Duration;

use holdfast_types::NodeId;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

#[derive(Debug)]
pub(crate) struct LeaderContact {
    last: Mutex<Option<(NodeId, Instant)>>,
    leader: watch::Sender<Option<NodeId>>,
}

impl LeaderContact {
    pub(crate) fn new() -> Self {
        Self { last: Mutex::new(None), leader: watch::Sender::new(None) }
    }

    pub(crate) fn heard(&self, leader: NodeId) {
        *self.last.lock() = Some((leader, Instant::now()));
        self.leader.send_if_modified(|last| last.replace(leader) != Some(leader));
    }

    /// The leader that this process heard from last.
    pub(crate) fn leader(&self) -> watch::Receiver<Option<NodeId>> {
        self.leader.subscribe()
    }

    /// When this node last heard from `leader`; `None` if it heard from another leader since.
    pub(crate) fn last(&self, leader: NodeId) -> Option<Instant> {
        self.last.lock().filter(|(node, _)| *node == leader).map(|(_, at)| at)
    }

    /// The time since this node last heard from any leader.
    pub(crate) fn age(&self) -> Option<Duration> {
        self.last.lock().map(|(_, at)| at.elapsed())
    }
}
