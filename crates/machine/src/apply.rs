//! The switchboard: an entry comes in, each command gets its revision and goes to the file that means it.
//!
//! Owns revisions, the machine's time, the rolling digest, and the guard that keeps tokens below their end. Of a command
//! it knows only which file applies it and how many tokens it can mint at most.

use std::collections::BTreeSet;

use holdfast_types::{
    Acquire, AcquireAll, Applied, Bound, Break, Cancel, Command, Entry, Event, FencingToken,
    HandOver, Incarnation, LockName, Multi, NodeId, Outcome, Rejection, Release, ReleaseAll, Reply,
    Revision, SessionName, Stamp, ZnodePath,
};

use crate::{Machine, digest, room};

/// One command on its way: when it happens, and what it changed so far.
#[derive(Debug)]
pub(crate) struct Step<'a> {
    pub(crate) revision: Revision,
    pub(crate) now: Stamp,
    events: &'a mut Vec<(Revision, Event)>,
    /// Operations of a multi, and directories they make on the way. Bound: [`Multi::OPS_MAX`].
    ops: usize,
    /// Znodes deleted with all below them. Bound: [`crate::nodes::DELETED_MAX`].
    pub(crate) deleted: usize,
    /// Locks whose queues are to be looked at again: whoever changes one on the way grants it on in the end.
    pub(crate) stale: BTreeSet<LockName>,
    /// Znodes counted for new quotas. Bound: [`crate::quota::COUNTED_MAX`].
    pub(crate) counted: u64,
}

impl<'a> Step<'a> {
    fn new(revision: Revision, now: Stamp, events: &'a mut Vec<(Revision, Event)>) -> Self {
        let stale = BTreeSet::new();
        Self { revision, now, events, ops: 0, deleted: 0, stale, counted: 0 }
    }
}

impl Step<'_> {
    /// Says what changed.
    pub(crate) fn emit(&mut self, event: Event) {
        self.events.push((self.revision, event));
    }

    /// Says which soft quotas were passed.
    pub(crate) fn passed(&mut self, quotas: Vec<ZnodePath>) {
        for path in quotas {
            self.emit(Event::QuotaPassed { path });
        }
    }

    /// Refuses work beyond what one multi may do.
    pub(crate) fn spend_ops(&mut self, count: usize) -> Result<(), Rejection> {
        self.ops += count;
        if self.ops > Multi::OPS_MAX {
            return Err(limit_reached(Bound::OpsOfMulti, Multi::OPS_MAX as u64));
        }
        Ok(())
    }

    /// The same moment, to try out what is not to happen: what it says is kept apart.
    pub(crate) fn aside<'b>(&self, events: &'b mut Vec<(Revision, Event)>) -> Step<'b> {
        let Self { revision, now, ops, deleted, counted, .. } = *self;
        Step { revision, now, events, ops, deleted, counted, stale: BTreeSet::new() }
    }

    /// How much was said so far.
    pub(crate) fn said(&self) -> usize {
        self.events.len()
    }

    /// Takes back what was said since.
    pub(crate) fn unsay(&mut self, since: usize) {
        self.events.truncate(since);
    }
}

/// "A bound is reached."
pub(crate) fn limit_reached(bound: Bound, limit: impl Into<u64>) -> Rejection {
    Rejection::LimitReached { bound, limit: limit.into() }
}

/// "The session expired."
pub(crate) fn expired(session: SessionName) -> Rejection {
    Rejection::SessionExpired { session }
}

/// "No such session."
pub(crate) fn no_session(session: SessionName) -> Rejection {
    Rejection::NoSession { session }
}

impl Machine {
    /// Executes the commands of one entry in order. Total: whatever the entry holds, there is an outcome to each of
    /// its commands. A rejected command takes a revision and changes nothing else, except that a rejection may be
    /// remembered under its request id.
    pub fn apply(&mut self, entry: Entry) -> Applied {
        self.now = self.now.max(entry.stamped_at);
        let mut outcomes = Vec::with_capacity(entry.commands.len());
        let mut events = Vec::with_capacity(4 * entry.commands.len());
        for command in entry.commands {
            self.revision = Revision(self.revision.0.saturating_add(1));
            let before = events.len();
            let (revision, now) = (self.revision, self.now);
            let mut step = Step::new(revision, now, &mut events);
            let outcome = match self.guard_tokens(&command) {
                Ok(()) if room::may_store(&command) => {
                    self.within_bytes(&mut step, |machine, step| machine.dispatch(command, step))
                }
                Ok(()) => self.dispatch(command, &mut step),
                Err(rejection) => Err(rejection),
            };
            let changed = events.get(before..).unwrap_or_default();
            self.digest = digest::absorb(self.digest, self.revision, &outcome, changed);
            outcomes.push(outcome);
        }
        Applied { revision: self.revision, outcomes, events }
    }

    fn dispatch(&mut self, command: Command, step: &mut Step<'_>) -> Outcome {
        match command {
            Command::OpenSession(open) => self.open_session(open, step),
            Command::RenewSession { session, ttl } => self.renew_session(session, ttl, step),
            Command::CloseSession { session, attachment, incarnation } => {
                self.close_session(session, (attachment, incarnation), step)
            }
            Command::ExpireSession { session, generation } => {
                self.expire_session(session, generation, step)
            }
            Command::Acquire(acquire) => self.acquire(acquire, step),
            Command::Release(release) => self.release(release, step),
            Command::Cancel(cancel) => Ok(self.cancel(cancel, step)),
            Command::Multi(multi) => self.multi(multi, step),
            Command::Sweep { empty_before, count_max } => {
                Ok(Reply::Swept { count: self.sweep(empty_before, count_max, step) })
            }
            Command::SetLimits(limits) => {
                self.limits = limits;
                Ok(Reply::LimitsSet)
            }
            Command::RegisterNode { node, incarnation } => {
                self.register_node(node, incarnation, step)
            }
            Command::AttachSession { session, password, ttl } => {
                self.attach_session(session, password, ttl, step)
            }
            Command::Recipe(recipe) => self.recipe(recipe, step),
            Command::SetPolicy { lock, change } => self.set_policy(&lock, change, step),
            Command::Due { lock } => Ok(self.do_what_is_due(&lock, step)),
            Command::Break(breaking) => Ok(self.break_places(breaking, step)),
            Command::AskRelease(ask) => self.ask_release(ask, step),
            Command::HandOver(hand_over) => self.hand_over(hand_over, step),
            Command::AcquireAll(all) => self.acquire_all(all, step),
            Command::ReleaseAll(all) => self.release_all(all, step),
        }
    }

    /// Refuses what could need a token beyond the last one. A command grants at most one to each waiter that it looks at,
    /// one to the holder of each lock that waits to hold otherwise, and one to what it makes itself.
    fn guard_tokens(&self, command: &Command) -> Result<(), Rejection> {
        let left = (FencingToken::END - 1).saturating_sub(self.locks.grants);
        if left > u64::from(u32::MAX) {
            return Ok(());
        }
        let all = self.locks.waiting;
        let of = |lock: &LockName| {
            // Whoever asked for several is granted all when one of them comes free.
            if self.locks.bundled > 0 {
                return all + 1;
            }
            // Of one that is cut it may be any segment.
            if self.segments_in(lock).is_some() {
                return all + 1;
            }
            self.locks.get(lock).map_or(0, |lock| {
                u64::from(lock.waiting()) + u64::from(lock.holders.upgrading().is_some())
            })
        };
        let needed = match command {
            Command::Acquire(Acquire { segments: Some(_), .. }) => all + 2,
            Command::Acquire(acquire) => of(&acquire.lock) + 1,
            Command::Release(Release { lock, .. })
            | Command::Cancel(Cancel { lock, .. })
            | Command::SetPolicy { lock, .. }
            | Command::Break(Break { lock, .. })
            | Command::Due { lock } => of(lock),
            Command::HandOver(HandOver { lock, .. }) => of(lock) + 1,
            Command::AcquireAll(AcquireAll { locks, .. })
            | Command::ReleaseAll(ReleaseAll { locks, .. }) => all + 1 + locks.len() as u64,
            Command::Multi(multi) => all + multi.then.len().max(multi.otherwise.len()) as u64,
            Command::CloseSession { .. } | Command::ExpireSession { .. } => {
                all + u64::from(self.limits.contenders_per_session_max).min(self.locks.held)
            }
            Command::OpenSession(_)
            | Command::RenewSession { .. }
            | Command::Sweep { .. }
            | Command::SetLimits(_)
            | Command::RegisterNode { .. }
            | Command::AttachSession { .. }
            | Command::AskRelease(_)
            | Command::Recipe(_) => 0,
        };
        if needed > left { Err(limit_reached(Bound::Counter, FencingToken::END)) } else { Ok(()) }
    }

    fn register_node(
        &mut self,
        node: NodeId,
        incarnation: Incarnation,
        step: &mut Step<'_>,
    ) -> Outcome {
        match self.members.get(&node) {
            Some(known) if *known != incarnation => return Err(Rejection::NodeTaken),
            Some(_) => {}
            None => {
                self.members.insert(node, incarnation);
                step.emit(Event::NodeRegistered { node });
            }
        }
        Ok(Reply::NodeRegistered)
    }
}
