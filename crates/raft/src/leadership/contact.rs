//! The time of the last append or heartbeat that this node accepted, and whether this node applies what it announced.

use std::time::Duration;

use holdfast_types::NodeId;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

#[derive(Debug)]
pub(crate) struct LeaderContact {
    last: Mutex<Option<(NodeId, Instant)>>,
    /// `None` before the first message, and while the leader is silent for too long.
    leader: watch::Sender<Option<NodeId>>,
    /// A committed position that this node has not applied, and when it learned of it.
    behind: Mutex<Option<(u64, Instant)>>,
}

impl LeaderContact {
    pub(crate) fn new() -> Self {
        Self { last: Mutex::new(None), leader: watch::Sender::new(None), behind: Mutex::new(None) }
    }

    pub(crate) fn record_contact(&self, leader: NodeId) {
        let mut last = self.last.lock();
        *last = Some((leader, Instant::now()));
        self.leader.send_if_modified(|last| last.replace(leader) != Some(leader));
    }

    /// Records the committed position that the leader announced, and the position that this node has applied.
    pub(crate) fn record_commit(&self, committed: Option<u64>, applied: Option<u64>) {
        let mut behind = self.behind.lock();
        if behind.is_none_or(|(position, _)| applied >= Some(position)) {
            let newer = committed.filter(|position| applied < Some(*position));
            *behind = newer.map(|position| (position, Instant::now()));
        }
    }

    /// How long this node has known of a committed position that it has not applied.
    pub(crate) fn behind_for(&self, applied: Option<u64>) -> Duration {
        let behind = self.behind.lock().filter(|(position, _)| applied < Some(*position));
        behind.map_or(Duration::ZERO, |(_, since)| since.elapsed())
    }

    /// Forgets a leader that has been silent for `silence_max`. Otherwise returns the time at which it will have been.
    pub(crate) fn forget_silent(&self, silence_max: Duration) -> Option<Instant> {
        let last = self.last.lock();
        let silent_at = last.as_ref().map(|(_, at)| *at + silence_max)?;
        if Instant::now() < silent_at {
            return Some(silent_at);
        }
        self.leader.send_if_modified(|leader| leader.take().is_some());
        None
    }

    /// The leader of the last accepted message, unless it is silent.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_node_is_behind_from_the_first_announcement_until_it_has_applied_it() {
        let (contact, second) = (LeaderContact::new(), Duration::from_secs(1));
        contact.record_commit(Some(7), Some(7));
        assert_eq!(contact.behind_for(Some(7)), Duration::ZERO);
        for committed in 8..10 {
            contact.record_commit(Some(committed), Some(7));
            tokio::time::advance(second).await;
        }
        assert_eq!(contact.behind_for(Some(7)), second * 2);
        // A node that applies at the pace of the leader is never far behind.
        contact.record_commit(Some(12), Some(8));
        assert_eq!(contact.behind_for(Some(8)), Duration::ZERO);
        assert_eq!(contact.behind_for(Some(12)), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_leader_is_forgotten_until_its_next_message() {
        let (contact, silence_max) = (LeaderContact::new(), Duration::from_secs(1));
        let mut leader = contact.leader();
        assert_eq!(contact.forget_silent(silence_max), None);
        contact.record_contact(NodeId(2));
        assert_eq!(*leader.borrow_and_update(), Some(NodeId(2)));
        let silent_at = contact.forget_silent(silence_max).unwrap();
        assert!(!leader.has_changed().unwrap());
        tokio::time::advance(silent_at - Instant::now()).await;
        assert_eq!(contact.forget_silent(silence_max), None);
        assert_eq!(*leader.borrow_and_update(), None);
        contact.record_contact(NodeId(2));
        assert_eq!(*leader.borrow_and_update(), Some(NodeId(2)));
    }
}
