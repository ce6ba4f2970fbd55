//! The model's timers: cooldowns, the ends of holds, and lock policies.

use holdfast_types::LockRejection;
use holdfast_types::*;

use super::locks::{Reader, entry, lock_of};
use super::{Model, Node, QueueEntry, limit_reached, parent, znode};

/// The causes of a cooldown. The durations come from the policy at each read.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct CooldownState {
    /// The latest end of the holders' minimum hold times.
    kept_until: Option<u64>,
    /// The last grant under a cooldown.
    granted_at: Option<u64>,
    /// The stamp of the last unclean loss, and the lost holds whose loss is not acknowledged.
    lost: Option<(u64, Vec<Loser>)>,
}

#[derive(Clone, Debug, PartialEq)]
struct Loser {
    name: SessionName,
    session: u64,
    owner: Owner,
    tokens: (u64, u64),
    first: Attempt,
}

/// Whether the loser may be unaware of the loss.
fn is_unclean(cause: LossCause) -> bool {
    matches!(
        cause,
        LossCause::SessionExpired
            | LossCause::MaxHold
            | LossCause::Revoked
            | LossCause::ForceReleased
    )
}

impl Model {
    fn cooldown_state(&mut self, lock: &LockName) -> &mut Option<CooldownState> {
        &mut self.find_mut(&format!("/locks/{lock}")).cooldown_state
    }

    /// The end and cause of the cooldown; of several causes the one that ends last.
    pub(super) fn cooldown(&self, lock: &LockName) -> Option<Cooldown> {
        let cooldown_state = self.find(&format!("/locks/{lock}"))?.cooldown_state.as_ref()?;
        let policy = self.policy(lock);
        let kept = cooldown_state.kept_until.map(|until| (until, CooldownCause::MinHold));
        let granted =
            cooldown_state.granted_at.map(|at| (at + policy.cooldown_ms, CooldownCause::Cooldown));
        let lost = cooldown_state.lost.as_ref();
        let lost = lost.map(|(at, _)| (at + policy.lock_delay_ms, CooldownCause::LockDelay));
        let (until, cause) = [kept, granted, lost].into_iter().flatten().max()?;
        Some(Cooldown { until: Stamp(until), cause })
    }

    pub(super) fn is_past_cooldown(&self, lock: &LockName) -> bool {
        self.cooldown(lock).is_none_or(|cooldown| cooldown.until.0 <= self.now)
    }

    /// Removes an expired cooldown.
    pub(super) fn end_cooldown(&mut self, lock: &LockName) {
        if self.cooldown(lock).is_some() && self.is_past_cooldown(lock) {
            *self.cooldown_state(lock) = None;
        }
    }

    /// Keeps only the lock delay.
    pub(super) fn end_min_hold_and_cooldown(&mut self, lock: &LockName) {
        if self.find(&format!("/locks/{lock}")).is_none() {
            return;
        }
        let state = self.cooldown_state(lock);
        let lost = state.take().and_then(|state| state.lost);
        *state = lost.map(|lost| CooldownState { lost: Some(lost), ..CooldownState::default() });
    }

    pub(super) fn cool_down(&mut self, lock: &LockName) {
        if self.policy(lock).cooldown_ms > 0 {
            let now = self.now;
            self.cooldown_state(lock).get_or_insert_default().granted_at = Some(now);
        }
    }

    /// Removes an entry with its hold. A waiting multi-lock entry takes its partners along.
    pub(super) fn leave(&mut self, path: &str, cause: LossCause) {
        // A partner's removal may already have removed it.
        let Some(node) = self.find(path).cloned() else { return };
        let partners = self.partners(&node);
        self.leave_one(path, cause);
        for partner in partners {
            self.leave_one(&partner.path, cause);
            self.changed.insert(lock_of(&partner));
        }
    }

    fn leave_one(&mut self, path: &str, cause: LossCause) {
        let Some(gone) = self.find(path).unwrap().entry.clone() else { return self.remove(path) };
        let live = self.session_of(self.find(path).unwrap());
        let (name, session) = (live.name.clone(), live.id);
        let lock = znode(&parent(path)).as_lock().unwrap();
        self.remove(path);
        let newest = gone.numbers().into_iter().max().unwrap();
        self.live_mut(&name).ended_attempts.push((lock.clone(), gone.owner.clone(), newest));
        if cause == LossCause::Released {
            self.live_mut(&name).released.push((lock.clone(), gone.owner.clone()));
        }
        let Some(hold) = &gone.hold else { return };
        let (now, delay_ms) = (self.now, self.policy(&lock).lock_delay_ms);
        if let Some(until) = gone.min_hold.map(|ms| hold.since + ms).filter(|until| *until > now) {
            let cooldown_state = self.cooldown_state(&lock).get_or_insert_default();
            cooldown_state.kept_until = cooldown_state.kept_until.max(Some(until));
        }
        if delay_ms > 0 && is_unclean(cause) {
            let cooldown_state = self.cooldown_state(&lock).get_or_insert_default();
            // A delay that is over has no part in the new one.
            let running = cooldown_state.lost.take().filter(|(at, _)| at + delay_ms > now);
            let (_, mut losers) = running.unwrap_or_default();
            let first = gone.numbers().into_iter().min().unwrap();
            let tokens = (hold.first_token, hold.token);
            losers.push(Loser { name, session, owner: gone.owner.clone(), tokens, first });
            cooldown_state.lost = Some((now, losers));
        }
    }

    /// Acknowledges the loss of the hold that a release names. Returns false if no such loss was pending.
    pub(super) fn acknowledge_loss(
        &mut self,
        name: &SessionName,
        lock: &LockName,
        owner: &Owner,
        target: ReleaseTarget,
    ) -> bool {
        let is_meant = |loser: &Loser| {
            loser.name == *name
                && loser.owner == *owner
                && match target {
                    ReleaseTarget::AnyEntry | ReleaseTarget::Permits(HoldName::Unnamed, _) => true,
                    ReleaseTarget::Attempt(number)
                    | ReleaseTarget::Permits(HoldName::Attempt(number), _) => number == loser.first,
                    ReleaseTarget::Hold(token)
                    | ReleaseTarget::Permits(HoldName::Token(token), _) => {
                        loser.tokens.0 <= token.0 && token.0 <= loser.tokens.1
                    }
                }
        };
        self.acknowledge(lock, is_meant)
    }

    fn acknowledge(&mut self, lock: &LockName, is_meant: impl Fn(&Loser) -> bool) -> bool {
        if self.find(&format!("/locks/{lock}")).is_none() {
            return false;
        }
        let cooldown_state = self.cooldown_state(lock);
        let lost = cooldown_state.as_mut().and_then(|cooldown_state| cooldown_state.lost.as_mut());
        let Some((_, losers)) = lost.filter(|(_, losers)| losers.iter().any(&is_meant)) else {
            return false;
        };
        losers.retain(|loser| !is_meant(loser));
        if losers.is_empty() {
            cooldown_state.as_mut().unwrap().lost = None;
        }
        if *cooldown_state == Some(CooldownState::default()) {
            *cooldown_state = None;
        }
        self.grant_waiters(lock);
        true
    }

    /// Acknowledges the losses of a session in every lock.
    pub(super) fn acknowledge_losses(&mut self, session: u64) {
        for lock in self.locks() {
            self.acknowledge(&lock, |loser| loser.session == session);
        }
    }

    /// Every directory that can be a lock, by name.
    fn locks(&self) -> Vec<LockName> {
        let locks = self.nodes.iter().filter(|node| node.stat.ephemeral_owner <= 0);
        let mut locks: Vec<_> = locks.filter_map(|node| znode(&node.path).as_lock()).collect();
        locks.sort();
        locks
    }

    /// Sessions whose unacknowledged loss keeps a lock in cooldown.
    pub(in crate::tests) fn losers(&self) -> Vec<&SessionName> {
        let cooldown_states = self.nodes.iter().filter_map(|node| node.cooldown_state.as_ref());
        cooldown_states
            .filter_map(|cooldown_state| cooldown_state.lost.as_ref())
            .flat_map(|(_, losers)| losers.iter().map(|loser| &loser.name))
            .collect()
    }

    /// The earliest timer of each lock, in order of expiry.
    pub(in crate::tests) fn pending_timers(&self) -> Vec<(u64, LockName)> {
        let first = |lock: &LockName| {
            let ends = self.holders(lock).into_iter().filter_map(|node| entry(node).next_end());
            ends.chain(self.cooldown(lock).map(|cooldown| cooldown.until.0)).min()
        };
        let locks = self.locks().into_iter();
        let mut pending_timers: Vec<_> =
            locks.filter_map(|lock| Some((first(&lock)?, lock))).collect();
        pending_timers.sort();
        pending_timers
    }

    /// Runs the expired timers of a lock before a command that names it.
    pub(super) fn run_expired_timers(&mut self, lock: &LockName) {
        let now = self.now;
        if self.pending_timers().iter().any(|(due, other)| *due <= now && other == lock) {
            self.run_timers(lock);
        }
    }

    /// Ends holds that reached their maximum or their revocation deadline, and ends an expired cooldown.
    pub(super) fn run_timers(&mut self, lock: &LockName) -> Reply {
        let mut ended = 0;
        loop {
            let end = |node: &&Node| entry(node).next_end().filter(|end| *end <= self.now);
            let holders = self.holders(lock).into_iter().filter(|node| end(node).is_some());
            let Some(ended_hold) = holders.min_by_key(end).cloned() else { break };
            self.leave(&ended_hold.path, LossCause::MaxHold);
            self.close_if_anonymous_and_idle(ended_hold.stat.ephemeral_owner.cast_unsigned());
            ended += 1;
        }
        self.grant_waiters(lock);
        Reply::TimersRun { ended }
    }

    pub(super) fn set_policy(&mut self, lock: &LockName, change: PolicyChange) -> Outcome {
        let before = self.policy(lock);
        let policy = change.of(before);
        if !policy.is_within_bounds() {
            return Err(Rejection::OutOfBounds { what: OutOfBounds::Policy });
        }
        let shards = policy.shards;
        if shards.is_some()
            && change != (PolicyChange { shards: change.shards, ..PolicyChange::default() })
        {
            return Err(LockRejection::ShardsMismatch { shards }.into());
        }
        let entries = self.queue(lock).len() as u32;
        if entries > 0 && policy.limit.is_some() != before.limit.is_some() {
            return Err(LockRejection::InUse { entries }.into());
        }
        if policy == before && !self.is_known(lock) {
            return Ok(Reply::PolicySet { policy });
        }
        self.make_room_for_policy(lock)?;
        let directory = self.find_mut(&format!("/locks/{lock}"));
        directory.policy = (policy != LockPolicy::DEFAULT).then_some((policy, true));
        let large = |one: &QueueEntry| policy.limit.is_some_and(|limit| one.permits > limit);
        let waiters = self.waiters(lock).into_iter().cloned();
        let waiters: Vec<Node> = waiters.filter(|node| large(entry(node))).collect();
        for waiter in waiters.iter().filter(|node| entry(node).reader == Reader::Own) {
            self.leave(&waiter.path, LossCause::LimitLowered);
            self.close_if_anonymous_and_idle(waiter.stat.ephemeral_owner.cast_unsigned());
        }
        // A ZooKeeper client waits for all permits.
        for node in
            self.nodes.iter_mut().filter(|node| parent(&node.path) == format!("/locks/{lock}"))
        {
            let waits = |one: &&mut QueueEntry| one.hold.is_none() && one.reader != Reader::Own;
            if let (Some(limit), Some(one)) = (policy.limit, node.entry.as_mut().filter(waits)) {
                one.permits = limit;
            }
        }
        self.grant_waiters(lock);
        Ok(Reply::PolicySet { policy })
    }

    /// Creates the lock's directory for a policy if it is missing, and checks the permissions.
    fn make_room_for_policy(&mut self, lock: &LockName) -> Result<(), Rejection> {
        let directory = format!("/locks/{lock}");
        let (nearest, missing) = self.missing(&directory)?;
        let needed = if missing.is_empty() { Perms::WRITE } else { Perms::CREATE };
        self.anyone_may(&nearest, needed)?;
        let znodes = self.nodes.len() + missing.len();
        if !missing.is_empty() && znodes > self.limits.znodes_max as usize {
            return Err(limit_reached(Bound::Znodes, self.limits.znodes_max));
        }
        self.room_in_quotas(&directory, &missing, 0)?;
        missing.iter().for_each(|path| self.add_directory(path, None));
        Ok(())
    }

    /// The limit that an acquire of a new entry sets, if it sets one.
    pub(super) fn limit_to_set(
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
            Some(limit) if permits > limit => Err(limit_reached(Bound::Permits, limit)),
            Some(_) if acquire.mode.is_some_and(|mode| mode != Mode::Exclusive) => {
                Err(Rejection::Lock(LockRejection::ModeConflict {
                    mode: Mode::Exclusive,
                    why: ModeConflictReason::NoOtherMode,
                }))
            }
            Some(_) => Ok(new),
        }
    }
}

/// Rejects options that are out of bounds.
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
        return Err(limit_reached(Bound::ValueBytes, 4096));
    }
    if acquire.locks.is_multi_lock() && acquire.mode == Some(Mode::Upgradable) {
        return Err(LockRejection::ModeConflict {
            mode: Mode::Exclusive,
            why: ModeConflictReason::NoOtherMode,
        }
        .into());
    }
    Ok(())
}
