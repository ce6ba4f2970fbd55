//! The claims of a queue entry: the attempts that keep it, each with the mode that it asked for.
//!
//! An owner has one entry in a lock, however deeply its calls are nested. The entry has the strongest mode of its
//! claims. A release ends one claim, in any order, and leaves what the others asked for. Only a change that names the
//! claim replaces its mode; the claim keeps the number of the change, so an older copy of any call replaces nothing.
//! Bound: `hold_count_max` claims.

use holdfast_types::{Attempt, Mode};
use serde::{Deserialize, Serialize};

/// One attempt that keeps an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct LockClaim {
    pub(crate) attempt: Attempt,
    /// The requested mode.
    pub(crate) mode: Mode,
    /// The attempt of its latest change; `None` if it was never changed.
    pub(crate) changed_by: Option<Attempt>,
    /// What it was before a change to exclusive that still waits.
    pub(crate) before: Option<ClaimBefore>,
}

/// The state of a claim to which it returns if its change ends without a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct ClaimBefore {
    mode: Mode,
    changed_by: Option<Attempt>,
}

impl LockClaim {
    fn new(attempt: Attempt, mode: Mode) -> Self {
        Self { attempt, mode, changed_by: None, before: None }
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
        let ClaimBefore { mode, changed_by } = before;
        Self { mode, changed_by, before: None, ..self }
    }
}

/// The claims of one entry. Invariant: sorted by attempt, without duplicates, never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claims(Vec<LockClaim>);

impl Claims {
    /// Creates a set of one claim.
    pub(crate) fn of(attempt: Option<Attempt>, mode: Mode) -> Self {
        Self(vec![LockClaim::new(attempt.unwrap_or(Attempt::UNNAMED), mode)])
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

    /// The largest attempt, of the claims and of their changes.
    pub(crate) fn newest(&self) -> Attempt {
        self.0.iter().map(LockClaim::newest).fold(Attempt::UNNAMED, Attempt::max)
    }

    /// Adds a claim. Has no effect if the set contains the attempt.
    pub(crate) fn insert(&mut self, attempt: Attempt, mode: Mode) {
        if let Err(at) = self.position(attempt) {
            self.0.insert(at, LockClaim::new(attempt, mode));
        }
    }

    /// Changes the mode of a claim. If the change waits, [`Claims::withdraw`] returns the claim to its present state.
    pub(crate) fn change(&mut self, attempt: Attempt, mode: Mode, by: Attempt, waits: bool) {
        let at = self.position(attempt);
        let Some(claim) = at.ok().and_then(|at| self.0.get_mut(at)) else { return };
        let now = ClaimBefore { mode: claim.mode, changed_by: claim.changed_by };
        claim.before = waits.then_some(claim.before.unwrap_or(now));
        (claim.mode, claim.changed_by) = (mode, Some(by));
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

    /// Ends all waiting upgrades of a holder in this mode. Returns the remaining claims, `None` if there are none, and
    /// the attempts that ended.
    pub(crate) fn withdraw(&self, held: Mode) -> (Option<Self>, Vec<Attempt>) {
        let (mut rest, mut ended) = (Vec::new(), Vec::new());
        for claim in &self.0 {
            match claim.before {
                Some(before) => {
                    ended.extend(claim.changed_by);
                    rest.push(claim.restored(before));
                }
                None if claim.mode.is_stronger_than(held) => ended.push(claim.attempt),
                None => rest.push(*claim),
            }
        }
        (Self::restore(rest), ended)
    }

    pub(crate) fn as_slice(&self) -> &[LockClaim] {
        &self.0
    }

    fn position(&self, attempt: Attempt) -> Result<usize, usize> {
        self.0.binary_search_by_key(&attempt, |claim| claim.attempt)
    }
}
