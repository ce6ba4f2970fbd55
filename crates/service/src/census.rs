//! Counts and lists of sessions and ephemeral nodes, from the state that this node has applied.

use holdfast_machine::{Counts, Machine};
use holdfast_types::{SessionId, Ttl, ZnodePath};

use crate::service::Service;

impl Service {
    /// How much there is. O(1).
    pub fn counts(&self) -> Counts {
        self.raft().read(Machine::counts)
    }

    /// Live sessions with their time-to-live, by number, at most so many.
    pub fn session_ids(&self, limit: usize) -> Vec<(SessionId, Ttl)> {
        let list = |machine: &Machine| {
            machine.leases().take(limit).map(|(id, ttl, _)| (id, ttl)).collect::<Vec<_>>()
        };
        self.raft().read(list)
    }

    /// A session's ephemeral nodes, sorted.
    pub fn ephemerals(&self, session: SessionId) -> Vec<ZnodePath> {
        self.raft().read(|machine| machine.ephemerals(session, ""))
    }
}
