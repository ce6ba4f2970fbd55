//! The context of the command that is applied, and rejections that many commands share.

use std::collections::BTreeSet;

use holdfast_types::{
    Actor, Bound, Event, LockName, Rejection, Revision, SessionName, SessionRejection, Stamp,
    TreeEvent, ZnodePath,
};

/// The maximum number of missing directories that one command creates.
pub(crate) const DIRECTORIES_MAX: usize = 1_000;

/// The command that is applied: its revision and stamp, its events, and the work that it has done so far.
#[derive(Debug)]
pub(crate) struct ApplyContext<'a> {
    pub(crate) revision: Revision,
    pub(crate) now: Stamp,
    pub(crate) actor: Actor,
    events: &'a mut Vec<(Revision, Event)>,
    /// Missing directories that a multi created. Bound: [`DIRECTORIES_MAX`].
    directories: usize,
    /// Znodes that recursive deletes removed. Bound: [`crate::tree::change::DELETED_MAX`].
    pub(crate) deleted: usize,
    /// Locks whose queues have changed, and whose waiters have not been granted since.
    pub(crate) locks_to_grant: BTreeSet<LockName>,
    /// Sharded locks whose first waiter for any shard has another request than before.
    pub(crate) sharded_to_offer: BTreeSet<LockName>,
    /// Znodes counted for new quotas. Bound: [`crate::tree::quota::COUNTED_MAX`].
    pub(crate) counted: u64,
    /// Holds that timers ended. Bound: [`crate::lock::timers::EXPIRED_MAX`].
    pub(crate) ended_holds: u32,
}

impl<'a> ApplyContext<'a> {
    pub(crate) fn new(
        revision: Revision,
        now: Stamp,
        actor: Actor,
        events: &'a mut Vec<(Revision, Event)>,
    ) -> Self {
        let locks_to_grant = BTreeSet::new();
        Self {
            revision,
            now,
            actor,
            events,
            directories: 0,
            deleted: 0,
            locks_to_grant,
            sharded_to_offer: BTreeSet::new(),
            counted: 0,
            ended_holds: 0,
        }
    }
}

impl ApplyContext<'_> {
    pub(crate) fn emit(&mut self, event: impl Into<Event>) {
        self.events.push((self.revision, event.into()));
    }

    pub(crate) fn soft_quota_exceeded(&mut self, quotas: Vec<ZnodePath>) {
        for path in quotas {
            self.emit(TreeEvent::SoftQuotaExceeded { path });
        }
    }

    /// Counts missing directories. Rejects more than [`DIRECTORIES_MAX`].
    pub(crate) fn charge_directories(&mut self, count: usize) -> Result<(), Rejection> {
        self.directories += count;
        if self.directories > DIRECTORIES_MAX {
            return Err(limit_reached(Bound::MissingDirectories, DIRECTORIES_MAX as u64));
        }
        Ok(())
    }

    pub(crate) fn events_len(&self) -> usize {
        self.events.len()
    }

    pub(crate) fn truncate_events(&mut self, len: usize) {
        self.events.truncate(len);
    }
}

pub(crate) fn limit_reached(bound: Bound, limit: impl Into<u64>) -> Rejection {
    Rejection::LimitReached { bound, limit: limit.into() }
}

pub(crate) fn expired(session: SessionName) -> Rejection {
    Rejection::Session(SessionRejection::Expired { session })
}

pub(crate) fn no_session(session: SessionName) -> Rejection {
    Rejection::Session(SessionRejection::Unknown { session })
}
