//! The time of the last append or heartbeat that this node accepted.

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

    pub(crate) fn record_contact(&self, leader: NodeId) {
        *self.last.lock() = Some((leader, Instant::now()));
        self.leader.send_if_modified(|last| last.replace(leader) != Some(leader));
    }

    /// The leader of the last accepted message.
    pub(crate) fn leader(&self) -> watch::Receiver<Option<NodeId>> {
        self.leader.subscribe()
    }

    /// The time of the last message from `leader`; `None` if another leader sent a later one.
    pub(crate) fn last(&self, leader: NodeId) -> Option<Instant> {
        self.last.lock().filter(|(node, _)| *node == leader).map(|(_, at)| at)
    }

    /// The time since the last message from any leader.
    pub(crate) fn age(&self) -> Option<Duration> {
        self.last.lock().map(|(_, at)| at.elapsed())
    }
}
