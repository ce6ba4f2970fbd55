//! When the leader last spoke to this node.

use std::time::Duration;

use holdfast_types::NodeId;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

/// The last accepted append or heartbeat.
#[derive(Debug)]
pub(crate) struct Contact {
    last: Mutex<Option<(NodeId, Instant)>>,
    leader: watch::Sender<Option<NodeId>>,
}

impl Contact {
    pub(crate) fn new() -> Self {
        Self { last: Mutex::new(None), leader: watch::Sender::new(None) }
    }

    pub(crate) fn heard(&self, leader: NodeId) {
        *self.last.lock() = Some((leader, Instant::now()));
        self.leader.send_if_modified(|last| last.replace(leader) != Some(leader));
    }

    /// Who was heard last since this process began.
    pub(crate) fn leader(&self) -> watch::Receiver<Option<NodeId>> {
        self.leader.subscribe()
    }

    /// When this leader was last heard.
    pub(crate) fn last(&self, leader: NodeId) -> Option<Instant> {
        self.last.lock().filter(|(node, _)| *node == leader).map(|(_, at)| at)
    }

    /// How long ago any leader was last heard.
    pub(crate) fn age(&self) -> Option<Duration> {
        self.last.lock().map(|(_, at)| at.elapsed())
    }
}
