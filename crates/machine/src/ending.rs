//! The end of a session: everything it owns goes in the same command, and every lock it held is granted on.
//!
//! Owns the order: first all its places and ephemerals go, so that none of them can be granted anything, then the
//! session, then the next in line of every lock is granted.

use holdfast_types::{Event, LossCause, SessionEnd, SessionId};

use crate::Machine;
use crate::apply::Step;
use crate::locks::Claim;

impl Machine {
    /// Ends a live session. As many steps as it has places and ephemerals.
    pub(crate) fn end_session(&mut self, id: SessionId, end: SessionEnd, step: &mut Step<'_>) {
        let Some(name) = self.session_name(id) else { return };
        let cause = match end {
            SessionEnd::Closed => LossCause::SessionClosed,
            SessionEnd::Expired => LossCause::SessionExpired,
        };
        let claims: Vec<Claim> = self.locks.claims_of(id).cloned().collect();
        for claim in &claims {
            self.leave(claim, cause, step);
        }
        self.drop_ephemerals(id, step);
        self.end_in_recipes(id, end, step);
        self.sessions.end(id, end, step.now, &self.limits);
        step.emit(Event::SessionEnded { id, session: name, end });
        let mut locks: Vec<_> = claims.into_iter().filter_map(|claim| claim.lock).collect();
        locks.dedup();
        for lock in locks {
            self.grant_next(&lock, step);
        }
    }

    fn drop_ephemerals(&mut self, id: SessionId, step: &mut Step<'_>) {
        for path in self.tree.orders.ephemerals_of(id) {
            if let Some(directory) = path.parent() {
                self.tree.remove(&directory, &path, step.revision, step.now);
                step.emit(Event::NodeDeleted { path });
            }
        }
    }
}
