//! When the leader last spoke to this node.

use std::time::Duration;

use holdfast_types::NodeId;
use parking_lot::Mutex;
use tokio::time::Instant;

/// The last accepted append or heartbeat.
#[derive(Debug, Default)]
pub(crate) struct Contact {
    last: Mutex<Option<(NodeId, Instant)>>,
}

impl Contact {
    pub(crate) fn heard(&self, leader: NodeId) {
        *self.last.lock() = Some((leader, Instant::now()));
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
