//! The sentences that hold of recipes after every command, as code.

use std::collections::BTreeSet;

use holdfast_types::{Recipe, RecipeName, Revision, SessionId};
use imbl::OrdMap;

use super::double::Round;
use super::gate::Member;
use super::{Barrier, Double, Latch};
use crate::Machine;
use crate::invariants::ensure;

impl Machine {
    /// Checks every sentence.
    ///
    /// # Errors
    /// The first that does not hold.
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
                format!("counter {name} has the version of a change")
            })?;
        }
        let mut rebuilt = self.recipes.clone();
        rebuilt.rebuild()?;
        ensure(rebuilt == self.recipes, || {
            "the index of places is that of the latches and barriers".to_owned()
        })
    }

    fn check_latch(&self, name: &RecipeName, latch: &Latch) -> Result<(), String> {
        let Latch { count, made, keys, promises } = latch;
        ensure((1..=Recipe::COUNT_MAX).contains(count) && *made <= self.revision, || {
            format!("latch {name} has a count in its bounds, and was made")
        })?;
        let lefts: BTreeSet<u32> = keys.values().copied().collect();
        let expected: BTreeSet<u32> = (latch.left()..*count).collect();
        ensure(lefts == expected && keys.len() == lefts.len(), || {
            format!("each key of latch {name} counted once")
        })?;
        ensure(promises.is_empty() || latch.left() > 0, || {
            format!("latch {name} is open, and promised to be counted down")
        })?;
        ensure(promises.len() as u64 <= u64::from(Recipe::PROMISES_MAX), || {
            format!("latch {name} has promises in their bounds")
        })?;
        for (key, session) in promises {
            self.check_live(name, *session)?;
            ensure(!keys.contains_key(key), || {
                format!("what is promised to latch {name} is not counted yet")
            })?;
        }
        Ok(())
    }

    fn check_barrier(&self, name: &RecipeName, barrier: &Barrier) -> Result<(), String> {
        let Barrier { parties, members } = barrier;
        let arrived = members.len() as u64;
        ensure(*parties <= Recipe::PARTIES_MAX && arrived >= 1, || {
            format!("barrier {name} has a member, and parties in their bounds")
        })?;
        ensure(arrived < u64::from(*parties), || {
            format!("barrier {name} is open for those who wait at it")
        })?;
        self.check_members(name, members)
    }

    fn check_double(&self, name: &RecipeName, double: &Double) -> Result<(), String> {
        let Double { parties, waiting, round } = double;
        ensure((1..=Recipe::PARTIES_MAX).contains(parties), || {
            format!("double barrier {name} has parties in their bounds")
        })?;
        let arrived = waiting.len() as u64;
        ensure(arrived <= u64::from(Recipe::ENTRANTS_MAX), || {
            format!("double barrier {name} has entrants in their bounds")
        })?;
        self.check_members(name, waiting)?;
        match round {
            Some(round) => self.check_round(name, *parties, round),
            None => ensure(arrived >= 1 && arrived < u64::from(*parties), || {
                format!("nobody is inside of double barrier {name}, and too few wait to enter")
            }),
        }
    }

    fn check_round(&self, name: &RecipeName, parties: u32, round: &Round) -> Result<(), String> {
        let Round { generation, entered } = round;
        ensure(entered.len() as u64 == u64::from(parties) && *generation <= self.revision, || {
            format!("as many entered double barrier {name} as were to")
        })?;
        ensure(round.inside() > 0, || format!("double barrier {name} has somebody inside"))?;
        ensure(entered.is_sorted_by(|a, b| a.ticket < b.ticket), || {
            format!("those inside of double barrier {name} are in order of their arrival")
        })?;
        for entered in entered.iter().filter(|entered| !entered.left) {
            self.check_live(name, entered.session)?;
        }
        Ok(())
    }

    fn check_members(
        &self,
        name: &RecipeName,
        members: &OrdMap<Revision, Member>,
    ) -> Result<(), String> {
        for (ticket, member) in members {
            self.check_live(name, member.session)?;
            ensure(member.asked >= *ticket && member.asked <= self.revision, || {
                format!("an arrival at {name} was asked for since it came")
            })?;
        }
        Ok(())
    }

    /// Promise 8, for recipes.
    fn check_live(&self, name: &RecipeName, session: SessionId) -> Result<(), String> {
        ensure(self.sessions.get(session).is_some(), || {
            format!("everybody who has a place in {name} lives")
        })
    }
}
