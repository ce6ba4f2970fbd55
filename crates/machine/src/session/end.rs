//! Ends a session: removes everything that it owns, and grants its locks to the next waiters, in one command.
//!
//! All its entries and ephemerals are removed before any queue is granted, so no entry of the session is granted again.

use holdfast_types::{LossCause, SessionEnd, SessionEvent, SessionId};

use crate::Machine;
use crate::context::ApplyContext;
use crate::lock::index::SessionLockKey;

impl Machine {
    /// Ends a live session; `cause` is that of its holds and waits. Costs one step for each of its entries and ephemerals.
    pub(crate) fn end_session(
        &mut self,
        id: SessionId,
        cause: LossCause,
        ctx: &mut ApplyContext<'_>,
    ) {
        self.end_session_without_grants(id, cause, ctx);
        self.grant_stale(ctx);
    }

    /// As [`Machine::end_session`], but the caller grants the noted locks after the rest of its changes.
    pub(crate) fn end_session_without_grants(
        &mut self,
        id: SessionId,
        cause: LossCause,
        ctx: &mut ApplyContext<'_>,
    ) {
        let Some(name) = self.session_name(id) else { return };
        let has_expired = cause == LossCause::SessionExpired;
        let end = if has_expired { SessionEnd::Expired } else { SessionEnd::Closed };
        let keys: Vec<SessionLockKey> = self.locks.keys_of(id).cloned().collect();
        for key in &keys {
            self.leave(key, cause, ctx);
        }
        self.remove_ephemerals(id, ctx);
        self.end_in_recipes(id, end, ctx);
        self.sessions.end(id, end, ctx.now, &self.limits);
        ctx.emit(SessionEvent::Ended { id, session: name, end });
        ctx.locks_to_grant.extend(keys.into_iter().map(|key| key.lock));
    }

    pub(crate) fn remove_ephemerals(&mut self, id: SessionId, ctx: &mut ApplyContext<'_>) {
        for path in self.tree.node_indexes.ephemerals_of(id) {
            if let Some(directory) = path.parent() {
                self.remove_node(&directory, &path, ctx);
            }
        }
    }
}
