//! The end of a session: all that it owns is removed in the same command, then its locks are granted to the next
//! waiters.
//!
//! First all its entries and ephemerals are removed, so that none of them can be granted, then the session, then the
//! queues are granted.

use holdfast_types::{LossCause, SessionEnd, SessionEvent, SessionId, TreeEvent};

use crate::Machine;
use crate::context::ApplyContext;
use crate::lock::index::SessionLockKey;

impl Machine {
    /// Ends a live session. As many steps as it has places and ephemerals.
    pub(crate) fn end_session(
        &mut self,
        id: SessionId,
        end: SessionEnd,
        ctx: &mut ApplyContext<'_>,
    ) {
        let Some(name) = self.session_name(id) else { return };
        let cause = match end {
            SessionEnd::Closed => LossCause::SessionClosed,
            SessionEnd::Expired => LossCause::SessionExpired,
        };
        let keys: Vec<SessionLockKey> = self.locks.keys_of(id).cloned().collect();
        for key in &keys {
            self.leave(key, cause, ctx);
        }
        self.drop_ephemerals(id, ctx);
        self.end_in_recipes(id, end, ctx);
        self.sessions.end(id, end, ctx.now, &self.limits);
        ctx.emit(SessionEvent::Ended { id, session: name, end });
        let mut locks: Vec<_> = keys.into_iter().filter_map(|key| key.lock).collect();
        locks.dedup();
        for lock in locks {
            self.grant_next(&lock, ctx);
        }
    }

    fn drop_ephemerals(&mut self, id: SessionId, ctx: &mut ApplyContext<'_>) {
        for path in self.tree.orders.ephemerals_of(id) {
            if let Some(directory) = path.parent() {
                self.tree.remove(&directory, &path, ctx.revision, ctx.now);
                ctx.emit(TreeEvent::Deleted { path });
            }
        }
    }
}
