//! The model's claims: an acquire by an owner that has an entry, and the end of one claim.
//!
//! The entry asks for the strongest mode of its claims. A call that is a copy, or older than the last change, changes
//! nothing.

use holdfast_types::LockRejection;
use holdfast_types::*;

use super::locks::{Reader, entry};
use super::{Model, Node, QueueEntry, limit_reached};

/// An attempt that keeps an entry.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::tests) struct ModelClaim {
    pub(in crate::tests) attempt: Attempt,
    pub(in crate::tests) mode: Mode,
    pub(in crate::tests) changed_by: Option<Attempt>,
    /// The revision of its latest call, and the maximum wait of that call.
    pub(in crate::tests) asked: (u64, Option<u64>),
    /// What it was before a change that waits for the other holders.
    pub(in crate::tests) before: Option<Box<ModelClaim>>,
}

/// What an acquire makes of an entry.
pub(super) struct Again {
    after: QueueEntry,
    pub(super) waits: bool,
    pub(super) upgrades: bool,
}

impl ModelClaim {
    pub(super) fn new(attempt: Option<Attempt>, mode: Mode, asked: (u64, Option<u64>)) -> Self {
        let attempt = attempt.unwrap_or(Attempt::UNNAMED);
        Self { attempt, mode, changed_by: None, asked, before: None }
    }
}

impl ModelClaim {
    /// Another copy of the call of the claim, or of its change that waits.
    fn repeat(&mut self, number: Attempt, asked: (u64, Option<u64>)) -> bool {
        match &mut self.before {
            Some(_) if self.changed_by == Some(number) => self.asked = asked,
            Some(before) if self.attempt == number => before.asked = asked,
            None if self.attempt == number => self.asked = asked,
            _ => return false,
        }
        true
    }
}

const STRENGTH: [Mode; 3] = [Mode::Shared, Mode::Upgradable, Mode::Exclusive];

fn strength(mode: Mode) -> usize {
    STRENGTH.iter().position(|other| *other == mode).unwrap()
}

fn strongest(claims: &[ModelClaim]) -> Mode {
    STRENGTH[claims.iter().map(|claim| strength(claim.mode)).max().unwrap()]
}

impl QueueEntry {
    pub(super) fn claim(&self, attempt: Attempt) -> Option<&ModelClaim> {
        self.claims.iter().find(|claim| claim.attempt == attempt)
    }

    /// The mode that it has now: of its hold, or the one it waits for.
    fn present(&self) -> Mode {
        if self.hold.is_some() { self.held } else { self.mode }
    }

    pub(super) fn is_only_claim(&self, attempt: Attempt) -> bool {
        self.claims.len() == 1 && self.claims[0].attempt == attempt
    }

    fn is_weaker(&self, mode: Mode) -> bool {
        self.hold.is_some() && strength(self.held) < strength(mode)
    }

    /// The calls that wait: the number of each, and when it was asked.
    pub(super) fn waiting(&self) -> Vec<(Attempt, (u64, Option<u64>))> {
        let mut waiting = Vec::new();
        for claim in &self.claims {
            let own = claim.before.as_deref().unwrap_or(claim);
            if claim.before.is_some() {
                waiting.push((claim.changed_by.unwrap(), claim.asked));
            }
            if self.hold.is_none() || self.is_weaker(own.mode) {
                waiting.push((own.attempt, own.asked));
            }
        }
        waiting
    }

    /// The number of the call that waits since a revision, and the claims without it.
    pub(super) fn end_wait(&self, asked: u64) -> Option<(Attempt, Vec<ModelClaim>)> {
        let (number, _) = *self.waiting().iter().find(|(_, (at, _))| *at == asked)?;
        let mut rest = self.claims.clone();
        let is_change = |claim: &ModelClaim| claim.before.is_some() && claim.asked.0 == asked;
        if let Some(changed) = rest.iter_mut().find(|claim| is_change(claim)) {
            *changed = *changed.before.clone().unwrap();
        } else {
            rest.retain(|claim| claim.attempt != number);
        }
        Some((number, rest))
    }

    /// All its numbers, of claims and of changes.
    pub(in crate::tests) fn numbers(&self) -> Vec<Attempt> {
        let of = |claim: &ModelClaim| [Some(claim.attempt), claim.changed_by];
        self.claims.iter().flat_map(of).flatten().collect()
    }
}

fn conflict(mode: Mode, why: ModeConflictReason) -> Rejection {
    LockRejection::ModeConflict { mode, why }.into()
}

impl Model {
    /// What an acquire makes of the owner's entry.
    pub(super) fn again(
        &self,
        lock: &LockName,
        node: &Node,
        acquire: &Acquire,
    ) -> Result<Again, Rejection> {
        let old = entry(node);
        let limit = self.policy(lock).limit;
        if acquire.limit.is_some() && acquire.limit != limit {
            return Err(LockRejection::LimitMismatch { limit }.into());
        }
        if acquire.permits.is_some_and(|permits| permits != old.permits) {
            return Err(LockRejection::PermitsMismatch { permits: old.permits }.into());
        }
        let in_multi_lock = acquire.locks.is_multi_lock();
        if old.hold.is_none() && old.multi_lock.is_empty() == in_multi_lock {
            return Err(LockRejection::AlreadyQueued { lock: lock.clone() }.into());
        }
        let number = acquire.attempt.unwrap_or(Attempt::UNNAMED);
        let (after, waits) = match (acquire.change, old.claim(number), acquire.attempt) {
            (Some(claim), ..) => self.changed(lock, node, claim, acquire)?,
            (None, Some(own), _) => copied(old, own, acquire)?,
            (None, None, None) if acquire.mode.is_some_and(|mode| mode != old.present()) => {
                return Err(conflict(old.present(), ModeConflictReason::SameAttempt));
            }
            (None, None, None) => (old.clone(), old.hold.is_none()),
            (None, None, Some(attempt)) => self.nested(lock, old, attempt, acquire)?,
        };
        let upgrades = after.mode != old.mode && old.is_weaker(after.mode);
        let now = upgrades && self.admits_upgrade(lock, node, after.mode);
        if upgrades && !now && old.held == Mode::Shared {
            return Err(conflict(old.held, ModeConflictReason::SharedBesideOthers));
        }
        let converts = old.hold.is_some() && (after.mode != old.mode || old.mode != old.held);
        if in_multi_lock && converts && after != *old {
            return Err(conflict(old.present(), ModeConflictReason::NoOtherMode));
        }
        if !acquire.wait && waits && !now {
            return Err(self.busy(lock, &node.path));
        }
        if upgrades && after.mode == Mode::Exclusive {
            let mut then = self.clone();
            let own = then.find_mut(&node.path).entry.as_mut().unwrap();
            own.mode = after.mode;
            own.held = if now { after.mode } else { own.held };
            then.check_deadlock(&[(lock.clone(), node.path.clone())], self)?;
        }
        Ok(Again { after, waits, upgrades })
    }

    /// Another attempt of the owner.
    fn nested(
        &self,
        lock: &LockName,
        old: &QueueEntry,
        attempt: Attempt,
        acquire: &Acquire,
    ) -> Result<(QueueEntry, bool), Rejection> {
        if !(acquire.options.reentrant && old.reentrant) {
            return Err(LockRejection::NotReentrant.into());
        }
        let max = self.limits.hold_count_max;
        if old.claims.len() as u32 >= max {
            return Err(limit_reached(Bound::HoldCount, max));
        }
        let semaphore = self.policy(lock).limit.is_some();
        let default = if semaphore { old.mode } else { Mode::Exclusive };
        let mode = acquire.mode.unwrap_or(default);
        if mode != old.mode && (semaphore || old.hold.is_none()) {
            return Err(conflict(old.present(), ModeConflictReason::NoOtherMode));
        }
        let mut after = old.clone();
        after.claims.push(ModelClaim::new(Some(attempt), mode, (0, None)));
        after.mode = strongest(&after.claims);
        after.set_value(attempt, acquire);
        Ok((after, old.hold.is_none() || old.is_weaker(mode)))
    }

    /// A change of a claim, by name.
    fn changed(
        &self,
        lock: &LockName,
        node: &Node,
        of: Attempt,
        acquire: &Acquire,
    ) -> Result<(QueueEntry, bool), Rejection> {
        let (old, by) = (entry(node), acquire.attempt.unwrap_or(Attempt::UNNAMED));
        let name = &acquire.open.session;
        let newest = self.newest_ended(name, lock, &acquire.owner);
        let over = |number: Attempt| number != Attempt::UNNAMED && number <= newest;
        let Some(own) = old.claim(of) else {
            return Err(self.no_claim(lock, of, newest));
        };
        let is_copy = acquire.attempt.is_some() && own.changed_by == acquire.attempt;
        if is_copy {
            if acquire.mode.is_some_and(|mode| mode != own.mode) {
                return Err(conflict(own.mode, ModeConflictReason::SameAttempt));
            }
            return Ok((old.clone(), old.hold.is_none() || own.before.is_some()));
        }
        if over(by) {
            return Err(Rejection::Lock(LockRejection::AttemptOver { newest }));
        }
        let numbers = [own.attempt, own.changed_by.unwrap_or(Attempt::UNNAMED)];
        let is_late = match by {
            Attempt::UNNAMED => own.changed_by.is_some_and(|number| number != by),
            _ => numbers.iter().any(|number| *number >= by),
        };
        if is_late {
            return Ok((old.clone(), old.hold.is_none()));
        }
        let mode = acquire.mode.unwrap_or(own.mode);
        if mode != own.mode && (self.policy(lock).limit.is_some() || old.hold.is_none()) {
            return Err(conflict(old.present(), ModeConflictReason::NoOtherMode));
        }
        let waits = old.is_weaker(mode);
        let before = own.before.clone().unwrap_or_else(|| Box::new(own.clone()));
        let asked = before.asked;
        let before = waits.then_some(before);
        let new = ModelClaim { attempt: of, mode, changed_by: Some(by), asked, before };
        let mut after = old.clone();
        after.claims.iter_mut().filter(|claim| claim.attempt == of).for_each(|c| *c = new.clone());
        after.mode = strongest(&after.claims);
        after.set_value(by, acquire);
        if old.claims.len() == 1 {
            after.min_hold = acquire.options.min_hold_ms.or(old.min_hold);
        }
        Ok((after, old.hold.is_none() || waits))
    }

    /// The rejection of a change of a claim that does not exist.
    pub(super) fn no_claim(&self, lock: &LockName, of: Attempt, newest: Attempt) -> Rejection {
        match self.other_holder(lock, "") {
            _ if of <= newest && of != Attempt::UNNAMED => {
                Rejection::Lock(LockRejection::AttemptOver { newest })
            }
            Some(holder) => Rejection::Lock(LockRejection::NotHolder { holder: holder.into() }),
            None => Rejection::Lock(LockRejection::NotHeld),
        }
    }

    /// Whether the other holders of a lock admit the upgrade of one of them.
    fn admits_upgrade(&self, lock: &LockName, own: &Node, mode: Mode) -> bool {
        let holders = self.holders(lock);
        if mode == Mode::Exclusive {
            return holders.len() == 1 && !self.has_reader_inside(lock, own);
        }
        // The other name of an upgradable holder would stop a reader that has entered.
        let mut entries = self.queue(lock).into_iter().map(entry);
        let has_readers = entries.any(|other| other.reader == Reader::Curator);
        holders.iter().all(|other| entry(other).held == Mode::Shared)
            && !(own.path.contains("__READ__") && has_readers)
    }

    /// Whether a reader of Curator may have entered beside a holder, although it waits for the machine.
    pub(super) fn has_reader_inside(&self, lock: &LockName, own: &Node) -> bool {
        let is_shared = own.path.contains("__READ__");
        let is_inside = |reader: &QueueEntry| is_shared || reader.sequence < entry(own).sequence;
        let mut waiters = self.waiters(lock).into_iter().map(entry);
        waiters.any(|waiter| waiter.reader == Reader::Curator && is_inside(waiter))
    }

    /// Makes an entry what an acquire makes of it.
    pub(super) fn apply_again(
        &mut self,
        lock: &LockName,
        path: &str,
        again: Again,
        (number, of, wait_ms): (Attempt, Option<Attempt>, Option<u64>),
    ) {
        let (revision, before) = (self.revision, entry(self.find(path).unwrap()).clone());
        let Again { mut after, waits, upgrades } = again;
        // The granted claims of an entry are never asked about.
        for claim in &mut after.claims {
            claim.asked.0 = if claim.asked.0 == 0 { revision } else { claim.asked.0 };
        }
        let asked = (revision, wait_ms);
        let mut meant = after.claims.iter_mut().filter(|one| of.is_none_or(|of| one.attempt == of));
        if waits && meant.any(|claim| claim.repeat(number, asked)) {
            (after.requested_in, after.wait_ms) = asked;
        }
        let mode = after.mode;
        self.find_mut(path).entry = Some(after);
        if before.hold.is_none() || mode == before.mode {
            return;
        }
        if upgrades {
            if self.admits_upgrade(lock, &self.find(path).unwrap().clone(), mode) {
                self.grant_upgrade(lock, path);
            }
            return;
        }
        self.find_mut(path).entry.as_mut().unwrap().held = mode;
        self.grant_waiters(lock);
    }

    /// Ends one attempt of an entry: a claim, or a change that waits. Returns the rest of its claims.
    pub(super) fn end_claim(&mut self, lock: &LockName, path: &str, attempt: Attempt) -> Released {
        let node = self.find(path).unwrap().clone();
        let (name, owner) = (self.session_of(&node).name.clone(), entry(&node).owner.clone());
        self.end_attempt((&name, lock, &owner), attempt);
        let withdrawn = |claim: &ModelClaim| match &claim.before {
            Some(before) if claim.changed_by == Some(attempt) => (**before).clone(),
            _ => claim.clone(),
        };
        let old = entry(&node).claims.clone();
        let rest: Vec<_> = old.iter().filter(|c| c.attempt != attempt).map(withdrawn).collect();
        let (hold_count, changed) = (rest.len() as u32, rest != old);
        self.set_claims(lock, path, rest);
        Released { hold_count, changed }
    }

    pub(super) fn set_claims(&mut self, lock: &LockName, path: &str, claims: Vec<ModelClaim>) {
        let own = self.find_mut(path).entry.as_mut().unwrap();
        let (before, mode) = (own.mode, strongest(&claims));
        (own.claims, own.mode) = (claims, mode);
        if let Some(asked) = own.waiting().into_iter().map(|(_, asked)| asked).max() {
            (own.requested_in, own.wait_ms) = asked;
        }
        if own.hold.is_some() && mode != before {
            own.held = mode;
            self.grant_waiters(lock);
        }
    }
}

impl QueueEntry {
    /// The value of an acquire, unless a newer one set the present value.
    fn set_value(&mut self, by: Attempt, acquire: &Acquire) {
        if acquire.options.value.is_some() && by >= self.value_by {
            (self.value, self.value_by) = (acquire.options.value.clone(), by);
        }
    }
}

/// The call that made a claim, again.
fn copied(
    old: &QueueEntry,
    own: &ModelClaim,
    acquire: &Acquire,
) -> Result<(QueueEntry, bool), Rejection> {
    let waits = old.hold.is_none() || own.before.is_none() && old.is_weaker(own.mode);
    let same = (old.clone(), waits);
    if own.changed_by.is_some() {
        return Ok(same);
    }
    if acquire.mode.is_some_and(|mode| mode != own.mode) {
        return Err(conflict(own.mode, ModeConflictReason::SameAttempt));
    }
    let value = &acquire.options.value;
    if value.is_some() && *value != old.value && own.attempt >= old.value_by {
        return Err(LockRejection::ValueConflict.into());
    }
    Ok(same)
}
