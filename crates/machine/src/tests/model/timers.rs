//! The model's time: locks that are granted to nobody for a while, holds that end, and the rules of a lock.

use holdfast_types::LockRejection;
use holdfast_types::*;

use super::locks::{lock_of, place};
use super::{Model, Node, Place, parent, refused, znode};

/// Why a lock is granted to nobody. What the rules say of it is read when it is asked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Closing {
    /// Until when those who held it want it to be kept from others.
    kept_until: Option<u64>,
    /// The last grant under a cooldown.
    granted_at: Option<u64>,
    /// The last loss, and those of the losers that have not said that they know.
    lost: Option<(u64, Vec<SessionName>)>,
}

/// Whether the loser may not know it.
fn is_unclean(cause: LossCause) -> bool {
    matches!(
        cause,
        LossCause::SessionExpired | LossCause::MaxHold | LossCause::Revoked | LossCause::Broken
    )
}

impl Model {
    fn closing(&mut self, lock: &LockName) -> &mut Option<Closing> {
        &mut self.find_mut(&format!("/locks/{lock}")).closing
    }

    /// Until when a lock is closed, and why: of several reasons the one that lasts longest.
    pub(super) fn cooldown(&self, lock: &LockName) -> Option<Cooldown> {
        let closing = self.find(&format!("/locks/{lock}"))?.closing.as_ref()?;
        let policy = self.policy(lock);
        let kept = closing.kept_until.map(|until| (until, CooldownCause::MinHold));
        let granted =
            closing.granted_at.map(|at| (at + policy.cooldown_ms, CooldownCause::Cooldown));
        let lost = closing.lost.as_ref();
        let lost = lost.map(|(at, _)| (at + policy.lock_delay_ms, CooldownCause::LockDelay));
        let (until, cause) = [kept, granted, lost].into_iter().flatten().max()?;
        Some(Cooldown { until: Stamp(until), cause })
    }

    pub(super) fn is_open(&self, lock: &LockName) -> bool {
        self.cooldown(lock).is_none_or(|cooldown| cooldown.until.0 <= self.now)
    }

    /// Somebody looks at a lock: if its time has come, it opens.
    pub(super) fn reopen(&mut self, lock: &LockName) {
        if self.cooldown(lock).is_some() && self.is_open(lock) {
            *self.closing(lock) = None;
        }
    }

    pub(super) fn cool_down(&mut self, lock: &LockName) {
        if self.policy(lock).cooldown_ms > 0 {
            let now = self.now;
            self.closing(lock).get_or_insert_default().granted_at = Some(now);
        }
    }

    /// A place goes, and with it its hold. With one that waits for several locks at once go the others.
    pub(super) fn leave(&mut self, path: &str, cause: LossCause) {
        // It may have gone with another one.
        let Some(node) = self.find(path).cloned() else { return };
        let partners = self.partners(&node);
        self.leave_one(path, cause);
        for partner in partners {
            self.leave_one(&partner.path, cause);
            self.changed.insert(lock_of(&partner));
        }
    }

    fn leave_one(&mut self, path: &str, cause: LossCause) {
        let Some(gone) = self.find(path).unwrap().place.clone() else { return self.remove(path) };
        let name = self.session_of(self.find(path).unwrap()).name.clone();
        let lock = znode(&parent(path)).as_lock().unwrap();
        self.remove(path);
        let over = gone.attempts.iter().copied().max().unwrap();
        self.live_mut(&name).over.push((lock.clone(), gone.owner.clone(), over));
        if cause == LossCause::Released {
            self.live_mut(&name).given_up.push((lock.clone(), gone.owner.clone()));
        }
        let Some(hold) = &gone.hold else { return };
        let (now, delay) = (self.now, self.policy(&lock).lock_delay_ms > 0);
        if let Some(until) = gone.min_hold.map(|ms| hold.since + ms).filter(|until| *until > now) {
            let closing = self.closing(&lock).get_or_insert_default();
            closing.kept_until = closing.kept_until.max(Some(until));
        }
        if delay && is_unclean(cause) {
            let closing = self.closing(&lock).get_or_insert_default();
            let (_, mut names) = closing.lost.take().unwrap_or_default();
            names.retain(|other| *other != name);
            names.push(name);
            closing.lost = Some((now, names));
        }
    }

    /// A session says that it knows that it lost a lock. False if nobody waited for that.
    pub(super) fn take_note_of(&mut self, name: &SessionName, lock: &LockName) -> bool {
        if self.find(&format!("/locks/{lock}")).is_none() {
            return false;
        }
        let closing = self.closing(lock);
        let lost = closing.as_mut().and_then(|closing| closing.lost.as_mut());
        let Some((_, names)) = lost.filter(|(_, names)| names.contains(name)) else {
            return false;
        };
        names.retain(|other| other != name);
        if names.is_empty() {
            closing.as_mut().unwrap().lost = None;
        }
        if *closing == Some(Closing::default()) {
            *closing = None;
        }
        self.settle(lock);
        true
    }

    /// As [`Model::take_note_of`], of every lock.
    pub(super) fn take_note(&mut self, name: &SessionName) {
        for lock in self.locks() {
            self.take_note_of(name, &lock);
        }
    }

    /// Every directory that could be a lock's, by name.
    fn locks(&self) -> Vec<LockName> {
        let locks = self.nodes.iter().filter(|node| node.stat.ephemeral_owner <= 0);
        let mut locks: Vec<_> = locks.filter_map(|node| znode(&node.path).as_lock()).collect();
        locks.sort();
        locks
    }

    /// Sessions for whose sake some lock is closed.
    pub(in crate::tests) fn losers(&self) -> Vec<&SessionName> {
        let closings = self.nodes.iter().filter_map(|node| node.closing.as_ref());
        closings.filter_map(|closing| closing.lost.as_ref()).flat_map(|(_, names)| names).collect()
    }

    /// What is due when, the first of each lock, in order.
    pub(in crate::tests) fn dues(&self) -> Vec<(u64, LockName)> {
        let first = |lock: &LockName| {
            let ends = self.holders(lock).into_iter().filter_map(|node| place(node).taken_at());
            ends.chain(self.cooldown(lock).map(|cooldown| cooldown.until.0)).min()
        };
        let locks = self.locks().into_iter();
        let mut dues: Vec<_> = locks.filter_map(|lock| Some((first(&lock)?, lock))).collect();
        dues.sort();
        dues
    }

    /// A command names a lock: what is due of it happens first.
    pub(super) fn run_expired_timers(&mut self, lock: &LockName) {
        let now = self.now;
        if self.dues().iter().any(|(due, other)| *due <= now && other == lock) {
            self.due(lock);
        }
    }

    /// Ends the holds of a lock that lasted as long as they may or were asked for in vain, and opens it if it is time.
    pub(super) fn due(&mut self, lock: &LockName) -> Reply {
        let mut ended = 0;
        loop {
            let end = |node: &&Node| place(node).taken_at().filter(|end| *end <= self.now);
            let holders = self.holders(lock).into_iter().filter(|node| end(node).is_some());
            let Some(over) = holders.min_by_key(end).cloned() else { break };
            self.leave(&over.path, LossCause::MaxHold);
            self.end_if_spent(over.stat.ephemeral_owner.cast_unsigned());
            ended += 1;
        }
        self.settle(lock);
        Reply::DueDone { ended }
    }

    pub(super) fn set_policy(&mut self, lock: &LockName, change: PolicyChange) -> Outcome {
        let before = self.policy(lock);
        let policy = change.of(before);
        if !policy.is_sound() {
            return Err(Rejection::OutOfBounds { what: OutOfBounds::Policy });
        }
        let entries = self.queue(lock).len() as u32;
        if entries > 0 && policy.limit.is_some() != before.limit.is_some() {
            return Err(LockRejection::InUse { entries }.into());
        }
        if policy == before && !self.is_known(lock) {
            return Ok(Reply::PolicySet { policy });
        }
        self.make_room_for_rules(lock)?;
        let directory = self.find_mut(&format!("/locks/{lock}"));
        directory.rules = (policy != LockPolicy::DEFAULT).then_some((policy, true));
        let large = |one: &Place| policy.limit.is_some_and(|limit| one.permits > limit);
        let waiters = self.waiters(lock).into_iter().cloned();
        let waiters: Vec<Node> = waiters.filter(|node| large(place(node))).collect();
        for waiter in waiters {
            self.leave(&waiter.path, LossCause::LimitLowered);
            self.end_if_spent(waiter.stat.ephemeral_owner.cast_unsigned());
        }
        self.settle(lock);
        Ok(Reply::PolicySet { policy })
    }

    /// The directory of a lock whose rules are to be set: made if it is missing, and written to if it is there.
    fn make_room_for_rules(&mut self, lock: &LockName) -> Result<(), Rejection> {
        let directory = format!("/locks/{lock}");
        let (nearest, missing) = self.missing(&directory)?;
        let needed = if missing.is_empty() { Perms::WRITE } else { Perms::CREATE };
        self.anyone_may(&nearest, needed)?;
        let znodes = self.nodes.len() + missing.len();
        if !missing.is_empty() && znodes > self.limits.znodes_max as usize {
            return Err(refused(Bound::Znodes, self.limits.znodes_max));
        }
        self.room_in_quotas(&directory, &missing, 0)?;
        missing.iter().for_each(|path| self.add_directory(path, None));
        Ok(())
    }

    /// What an acquire for a new place says about the lock: the limit that it sets, if it sets one.
    pub(super) fn kind(
        &self,
        lock: &LockName,
        acquire: &Acquire,
    ) -> Result<Option<u32>, Rejection> {
        let has = self.policy(lock).limit;
        let new = acquire.limit.filter(|_| !self.is_known(lock));
        if new.is_none() && acquire.limit.is_some() && acquire.limit != has {
            return Err(LockRejection::LimitMismatch { limit: has }.into());
        }
        let permits = acquire.permits.unwrap_or(1);
        match new.or(has) {
            None if permits > 1 => {
                Err(Rejection::Lock(LockRejection::LimitMismatch { limit: None }))
            }
            None => Ok(None),
            Some(limit) if permits > limit => Err(refused(Bound::Permits, limit)),
            Some(_) if acquire.mode.is_some_and(|mode| mode != Mode::Exclusive) => {
                Err(Rejection::Lock(LockRejection::ModeConflict { mode: Mode::Exclusive }))
            }
            Some(_) => Ok(new),
        }
    }
}

/// Refuses numbers that make no sense.
pub(super) fn check_bounds(acquire: &Acquire) -> Result<(), Rejection> {
    let count = |count: Option<u32>| count.is_some_and(|n| n == 0 || n > LockPolicy::LIMIT_MAX);
    let time = |ms: Option<u64>| ms.is_some_and(|ms| ms == 0 || ms > AcquireOptions::HOLD_MAX_MS);
    let wrong = [
        (count(acquire.permits), OutOfBounds::Permits),
        (count(acquire.limit), OutOfBounds::Limit),
        (acquire.options.priority > 9, OutOfBounds::Priority),
        (time(acquire.options.max_hold_ms), OutOfBounds::MaxHold),
        (time(acquire.options.min_hold_ms), OutOfBounds::MinHold),
    ];
    if let Some((_, what)) = wrong.into_iter().find(|(wrong, _)| *wrong) {
        return Err(Rejection::OutOfBounds { what });
    }
    if acquire.options.value.as_ref().is_some_and(|value| value.len() > 4096) {
        return Err(refused(Bound::ValueBytes, 4096));
    }
    if acquire.locks.is_multi_lock() && acquire.mode == Some(Mode::Upgradable) {
        return Err(LockRejection::ModeConflict { mode: Mode::Exclusive }.into());
    }
    Ok(())
}
