//! Invariants of recipes that hold after each command.

use std::collections::BTreeSet;

use holdfast_types::{Recipe, RecipeName, Revision, SessionId};
use imbl::OrdMap;

use super::arrivals::BarrierMember;
use super::barriers::BarrierRound;
use super::{Barrier, DoubleBarrierState, Latch};
use crate::Machine;
use crate::invariants::ensure;

impl Machine {
    /// Checks all invariants of recipes.
    ///
    /// # Errors
    /// The first violated invariant.
    pub(crate) fn check_recipes(&self) -> Result<(), String> {
        for (name, latch) in &self.recipes.latches {
            self.check_latch(name, latch)?;
        }
        for (name, barrier) in &self.recipes.barriers {
            self.check_barrier(name, barrier)?;
        }
        for (name, double) in &self.recipes.doubles {
            self.check_double(name, double)?;
        }
        for (name, counter) in &self.recipes.counters {
            let version = counter.version;
            ensure(version >= 1 && version <= self.revision.0, || {
                format!("counter {name} has an impossible version")
            })?;
        }
        let mut rebuilt = self.recipes.clone();
        rebuilt.rebuild()?;
        ensure(rebuilt == self.recipes, || {
            "the index of promises and arrivals differs from the latches and barriers".to_owned()
        })
    }

    fn check_latch(&self, name: &RecipeName, latch: &Latch) -> Result<(), String> {
        let Latch { count, created_in, keys, promises } = latch;
        ensure((1..=Recipe::COUNT_MAX).contains(count) && *created_in <= self.revision, || {
            format!("latch {name} has a count out of bounds, or an impossible creation revision")
        })?;
        let lefts: BTreeSet<u32> = keys.values().copied().collect();
        let expected: BTreeSet<u32> = (latch.left()..*count).collect();
        ensure(lefts == expected && keys.len() == lefts.len(), || {
            format!("the keys of latch {name} do not match its remaining count")
        })?;
        ensure(promises.is_empty() || latch.left() > 0, || {
            format!("latch {name} is open and has promises")
        })?;
        ensure(promises.len() as u64 <= u64::from(Recipe::PROMISES_MAX), || {
            format!("latch {name} has too many promises")
        })?;
        for (key, session) in promises {
            self.check_live(name, *session)?;
            ensure(!keys.contains_key(key), || {
                format!("latch {name} has a promise for a counted key")
            })?;
        }
        Ok(())
    }

    fn check_barrier(&self, name: &RecipeName, barrier: &Barrier) -> Result<(), String> {
        let Barrier { parties, members } = barrier;
        let arrived = members.len() as u64;
        ensure(*parties <= Recipe::PARTIES_MAX && arrived >= 1, || {
            format!("barrier {name} has no member, or its parties are out of bounds")
        })?;
        ensure(arrived < u64::from(*parties), || {
            format!("barrier {name} has enough members, which still wait")
        })?;
        self.check_barrier_members(name, members)
    }

    fn check_double(&self, name: &RecipeName, double: &DoubleBarrierState) -> Result<(), String> {
        let DoubleBarrierState { parties, waiting, round } = double;
        ensure((1..=Recipe::PARTIES_MAX).contains(parties), || {
            format!("the parties of double barrier {name} are out of bounds")
        })?;
        let arrived = waiting.len() as u64;
        ensure(arrived <= u64::from(Recipe::WAITING_ARRIVALS_MAX), || {
            format!("double barrier {name} has too many waiting members")
        })?;
        self.check_barrier_members(name, waiting)?;
        match round {
            Some(round) => self.check_round(name, *parties, round),
            None => ensure(arrived >= 1 && arrived < u64::from(*parties), || {
                format!("double barrier {name} has no member, or could start a round")
            }),
        }
    }

    fn check_round(
        &self,
        name: &RecipeName,
        parties: u32,
        round: &BarrierRound,
    ) -> Result<(), String> {
        let BarrierRound { generation, entered } = round;
        ensure(entered.len() as u64 == u64::from(parties) && *generation <= self.revision, || {
            format!("the round of double barrier {name} has a wrong size or revision")
        })?;
        ensure(round.inside() > 0, || {
            format!("all members of double barrier {name} have left, but its round continues")
        })?;
        ensure(entered.is_sorted_by(|a, b| a.ticket < b.ticket), || {
            format!("the round of double barrier {name} is not in the order of arrival")
        })?;
        for entered in entered.iter().filter(|entered| !entered.left) {
            self.check_live(name, entered.session)?;
        }
        Ok(())
    }

    fn check_barrier_members(
        &self,
        name: &RecipeName,
        members: &OrdMap<Revision, BarrierMember>,
    ) -> Result<(), String> {
        for (ticket, member) in members {
            self.check_live(name, member.session)?;
            ensure(member.requested_in >= *ticket && member.requested_in <= self.revision, || {
                format!(
                    "an arrival at {name} has a call revision before its ticket or after the last command"
                )
            })?;
        }
        Ok(())
    }

    /// Promise 8 for recipes.
    fn check_live(&self, name: &RecipeName, session: SessionId) -> Result<(), String> {
        ensure(self.sessions.get(session).is_some(), || {
            format!("{name} has a promise or an arrival without a live session")
        })
    }
}
