//! Timers of locks: the end of a hold (`max_hold`, a revoke deadline) and the end of a cooldown.
//!
//! A timer has no effect by itself. It runs in the first command that names the lock at or after its stamp
//! ([`Machine::run_timers_of`]). If no command does, it runs in the `RunTimers` that the leader proposes
//! ([`Machine::timers_until`]). Bound: one command ends [`EXPIRED_MAX`] holds.

use std::collections::BTreeSet;

use holdfast_types::{Condition, LockName, LossCause, Multi, Op, ShardRequest, Stamp};

use crate::Machine;
use crate::command_rules::NamedLocks;
use crate::context::ApplyContext;
use crate::lock::index::SessionLockKey;

/// Holds that the timers of one command end at most. The other timers stay due.
pub(crate) const EXPIRED_MAX: u32 = 1_000;

/// The locks whose queues a multi reads or changes.
fn locks_of_multi(multi: &Multi) -> impl Iterator<Item = LockName> {
    let held = multi.conditions.iter().filter_map(|condition| match condition {
        Condition::Holds { lock, .. } => Some(lock.clone()),
        Condition::Exists { .. }
        | Condition::Version { .. }
        | Condition::Data { .. }
        | Condition::SessionOpen { .. } => None,
    });
    let changed = multi.then.iter().chain(&multi.otherwise).filter_map(|op| match op {
        Op::Create(create) => create.directory.as_lock(),
        Op::Delete { path, .. } => path.parent()?.as_lock(),
        Op::SetData { .. } | Op::SetAcl { .. } | Op::Check { .. } => None,
    });
    held.chain(changed)
}

impl Machine {
    /// Runs the expired timers of the locks that a command names. The command then reads the state of this time, even
    /// if the leader has not proposed a `RunTimers`. No timer runs while the cluster is sealed.
    pub(crate) fn run_timers_of(&mut self, locks: NamedLocks<'_>, ctx: &mut ApplyContext<'_>) {
        if self.sealed().is_some() || self.next_timer().is_none_or(|due| due > ctx.now) {
            return;
        }
        let locks: Vec<LockName> = match locks {
            NamedLocks::None => return,
            NamedLocks::One(lock) => vec![lock.clone()],
            NamedLocks::All(locks) => locks.iter().cloned().collect(),
            NamedLocks::OfMulti(multi) => {
                // Thousands of operations may name one lock.
                let mut named = BTreeSet::new();
                locks_of_multi(multi).filter(|lock| named.insert(lock.clone())).collect()
            }
        };
        for lock in locks {
            let shards = self.shard_count(&lock).unwrap_or(0);
            let shards =
                (0..shards).filter_map(|index| ShardRequest::shard_name(&lock, index).ok());
            let expired: Vec<LockName> = std::iter::once(lock.clone())
                .chain(shards)
                .filter(|lock| self.locks.get(lock).is_some_and(|lock| lock.is_due(ctx.now)))
                .collect();
            for lock in expired {
                self.run_timers(&lock, ctx);
            }
        }
    }

    /// Ends the holds of a lock whose `max_hold` or revoke deadline has passed, ends an expired cooldown, and grants
    /// the lock.
    pub(crate) fn run_timers(&mut self, lock: &LockName, ctx: &mut ApplyContext<'_>) {
        while ctx.ended_holds < EXPIRED_MAX
            && let Some((overdue, cause)) = self.overdue_holder(lock, ctx.now)
        {
            self.leave(&overdue, cause, ctx);
            self.close_if_anonymous_and_idle(overdue.session, ctx);
            ctx.ended_holds += 1;
        }
        self.grant_next(lock, ctx);
    }

    fn overdue_holder(&self, lock: &LockName, now: Stamp) -> Option<(SessionLockKey, LossCause)> {
        let holders = &self.locks.get(lock)?.holders;
        let (_, sequence) = holders.first_end().filter(|(end, _)| *end <= now)?;
        let holder = holders.get(sequence)?;
        let (_, cause) = holder.next_end()?;
        Some((SessionLockKey::of(lock, holder), cause))
    }

    /// Returns the locks with a timer that has expired at a stamp, earliest first; at most `count_max`.
    pub fn timers_until(&self, stamp: Stamp, count_max: usize) -> Vec<LockName> {
        self.locks.timers_until(stamp).take(count_max).cloned().collect()
    }

    /// The stamp at which the next timer of any lock expires.
    pub fn next_timer(&self) -> Option<Stamp> {
        self.locks.next_timer()
    }
}
