//! The claims of a queue entry: the attempts that keep it, each with the mode that it asked for.
//!
//! An owner has one entry in a lock, however deeply its calls are nested. The entry has the strongest mode of its
//! claims. A release ends one claim, in any order, and leaves what the others asked for. Only a change that names the
//! claim replaces its mode; the claim keeps the number of the change, so an older copy of any call replaces nothing.
//! Each claim knows its latest call: the end of that call's wait ends this claim alone. Bound: `hold_count_max` claims.

use holdfast_types::{Attempt, Mode, Revision};
use serde::{Deserialize, Serialize};

/// One attempt that keeps an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct LockClaim {
    pub(crate) attempt: Attempt,
    /// The requested mode.
    pub(crate) mode: Mode,
    pub(crate) call: ClaimCall,
    /// The attempt of its latest change; `None` if it was never changed.
    pub(crate) changed_by: Option<Attempt>,
    /// What it was before a change to exclusive that still waits.
    pub(crate) before: Option<ClaimBefore>,
}

/// The latest copy of a call that may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct ClaimCall {
    pub(crate) requested_in: Revision,
    /// The maximum wait of the caller in milliseconds after `requested_in`; `None` waits as long as the session lives.
    pub(crate) wait_ms: Option<u64>,
}

impl ClaimCall {
    /// A call without the deadline of a wait.
    pub(crate) const fn at(requested_in: Revision) -> Self {
        Self { requested_in, wait_ms: None }
    }
}

/// The state of a claim to which it returns if its change ends without a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct ClaimBefore {
    mode: Mode,
    call: ClaimCall,
    changed_by: Option<Attempt>,
}

impl LockClaim {
    fn new(attempt: Attempt, mode: Mode, call: ClaimCall) -> Self {
        Self { attempt, mode, call, changed_by: None, before: None }
    }

    /// The newest attempt that made this claim what it is.
    fn newest(&self) -> Attempt {
        self.changed_by.map_or(self.attempt, |by| by.max(self.attempt))
    }

    /// Whether a change with this number still applies. A copy of a change without a number always does.
    pub(crate) fn accepts_change(&self, by: Attempt) -> bool {
        let is_newer = |changed_by| by > changed_by || by == Attempt::UNNAMED && changed_by == by;
        (by == Attempt::UNNAMED || by > self.attempt) && self.changed_by.is_none_or(is_newer)
    }

    fn restored(self, before: ClaimBefore) -> Self {
        let ClaimBefore { mode, call, changed_by } = before;
        Self { mode, call, changed_by, before: None, ..self }
    }

    /// Its call, and its change that waits, each with the number: those that wait beside a hold in the mode `held`.
    fn waiting(&self, held: Option<Mode>) -> impl Iterator<Item = (Attempt, ClaimCall)> {
        let change = self.before.and(self.changed_by).map(|by| (by, self.call));
        let (mode, call) = self.before.map_or((self.mode, self.call), |own| (own.mode, own.call));
        let waits = held.is_none_or(|held| mode.is_stronger_than(held));
        change.into_iter().chain(waits.then_some((self.attempt, call)))
    }
}

/// The claims of one entry. Invariant: sorted by attempt, without duplicates, never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claims(Vec<LockClaim>);

impl Claims {
    /// Creates a set of one claim.
    pub(crate) fn of(attempt: Option<Attempt>, mode: Mode, call: ClaimCall) -> Self {
        Self(vec![LockClaim::new(attempt.unwrap_or(Attempt::UNNAMED), mode, call)])
    }

    /// Creates a set from a snapshot; `None` if it violates the invariant.
    pub(crate) fn restore(claims: Vec<LockClaim>) -> Option<Self> {
        let sound = !claims.is_empty() && claims.is_sorted_by(|a, b| a.attempt < b.attempt);
        sound.then_some(Self(claims))
    }

    /// The number of claims, at least 1.
    pub(crate) fn count(&self) -> u32 {
        u32::try_from(self.0.len()).unwrap_or(u32::MAX)
    }

    pub(crate) fn get(&self, attempt: Attempt) -> Option<&LockClaim> {
        self.0.get(self.position(attempt).ok()?)
    }

    pub(crate) fn contains(&self, attempt: Attempt) -> bool {
        self.get(attempt).is_some()
    }

    /// The strongest mode of the claims.
    pub(crate) fn mode(&self) -> Mode {
        self.0.iter().map(|claim| claim.mode).fold(Mode::Shared, Mode::stronger)
    }

    /// The smallest attempt of the claims.
    pub(crate) fn oldest(&self) -> Attempt {
        self.0.first().map_or(Attempt::UNNAMED, |claim| claim.attempt)
    }

    /// The largest attempt, of the claims and of their changes.
    pub(crate) fn newest(&self) -> Attempt {
        self.0.iter().map(LockClaim::newest).fold(Attempt::UNNAMED, Attempt::max)
    }

    /// Adds a claim. Has no effect if the set contains the attempt.
    pub(crate) fn insert(&mut self, attempt: Attempt, mode: Mode, call: ClaimCall) {
        if let Err(at) = self.position(attempt) {
            self.0.insert(at, LockClaim::new(attempt, mode, call));
        }
    }

    /// Changes the mode of a claim. With a `call`, the change waits: if its wait ends, the claim is again what it was.
    pub(crate) fn change(
        &mut self,
        attempt: Attempt,
        mode: Mode,
        by: Attempt,
        call: Option<ClaimCall>,
    ) {
        let at = self.position(attempt);
        let Some(claim) = at.ok().and_then(|at| self.0.get_mut(at)) else { return };
        let LockClaim { mode: before, changed_by, call: own, .. } = *claim;
        let now = ClaimBefore { mode: before, call: own, changed_by };
        let present = claim.before.unwrap_or(now);
        claim.before = call.map(|_| present);
        claim.call = call.unwrap_or(present.call);
        (claim.mode, claim.changed_by) = (mode, Some(by));
    }

    /// Records another copy of the call that made a claim, or of the change of one that waits. Returns false if the
    /// attempt has neither. A change names its claim `of`, because unnamed changes have the same number.
    pub(crate) fn repeat(
        &mut self,
        attempt: Attempt,
        of: Option<Attempt>,
        call: ClaimCall,
    ) -> bool {
        for claim in self.0.iter_mut().filter(|claim| of.is_none_or(|of| claim.attempt == of)) {
            match &mut claim.before {
                Some(_) if claim.changed_by == Some(attempt) => claim.call = call,
                Some(before) if claim.attempt == attempt => before.call = call,
                None if claim.attempt == attempt => claim.call = call,
                Some(_) | None => continue,
            }
            return true;
        }
        false
    }

    /// Ends the wait that began in this revision beside a hold in the mode `held`: the rest of the claims, `None` if there
    /// is none, and the number that ended. `None` if no call waits since then.
    pub(crate) fn end_wait(
        &self,
        held: Option<Mode>,
        began: Revision,
    ) -> Option<(Option<Self>, Attempt)> {
        let is_it = |call: ClaimCall| call.requested_in == began;
        let ended =
            self.0.iter().position(|claim| claim.waiting(held).any(|(_, call)| is_it(call)));
        let at = ended?;
        let (mut rest, claim) = (self.0.clone(), self.0.get(at)?);
        let number = match (claim.before, claim.changed_by) {
            (Some(before), Some(by)) if is_it(claim.call) => {
                rest.get_mut(at)?.clone_from(&claim.restored(before));
                by
            }
            (Some(_) | None, _) => rest.remove(at).attempt,
        };
        Some((Self::restore(rest), number))
    }

    /// The calls that wait beside a hold in the mode `held`.
    pub(crate) fn waiting(&self, held: Option<Mode>) -> impl Iterator<Item = ClaimCall> {
        self.0.iter().flat_map(move |claim| claim.waiting(held)).map(|(_, call)| call)
    }

    /// The latest of the calls that wait.
    pub(crate) fn latest_waiting(&self, held: Option<Mode>) -> Option<ClaimCall> {
        self.waiting(held).max_by_key(|call| call.requested_in)
    }

    /// Makes the waiting changes final.
    pub(crate) fn settle(&mut self) {
        self.0.iter_mut().for_each(|claim| claim.before = None);
    }

    /// Removes a claim, or withdraws the waiting change with this number. Returns `None` if no claim remains, and the
    /// same set if the attempt has neither.
    pub(crate) fn without(&self, attempt: Attempt) -> Option<Self> {
        let rest = self.0.iter().filter(|claim| claim.attempt != attempt);
        let rest = rest.map(|claim| match claim.before {
            Some(before) if claim.changed_by == Some(attempt) => claim.restored(before),
            Some(_) | None => *claim,
        });
        Self::restore(rest.collect())
    }

    pub(crate) fn as_slice(&self) -> &[LockClaim] {
        &self.0
    }

    fn position(&self, attempt: Attempt) -> Result<usize, usize> {
        self.0.binary_search_by_key(&attempt, |claim| claim.attempt)
    }
}
