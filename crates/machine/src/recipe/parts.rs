//! Converts recipes to parts of a snapshot (`docs/contributing/formats/snapshot.md`) and back. A load rebuilds the indexes.

use std::ops::Bound;
use std::sync::Arc;

use holdfast_types::{
    BarrierKind, CounterView, RecipeKind, RecipeName, RequestId, Revision, SessionId,
};
use imbl::OrdMap;
use serde::{Deserialize, Serialize};

use super::arrivals::BarrierMember;
use super::barriers::BarrierRound;
use super::waits::ArrivalDeadlines;
use super::{Barrier, DoubleBarrierState, Latch, Participation, Recipes};

/// One recipe. New variants are appended, as in all parts.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum RecipePart {
    /// A latch.
    Latch(LatchPart),
    /// A generation of a barrier.
    Barrier(BarrierPart),
    /// A double barrier.
    Double(DoublePart),
    /// A counter.
    Counter {
        name: RecipeName,
        /// The value and the version.
        view: CounterView,
    },
}

/// A latch.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct LatchPart {
    pub(crate) name: RecipeName,
    /// The initial count.
    pub(crate) count: u32,
    /// The revision of its creation.
    pub(crate) created_in: Revision,
    /// Counted keys, each with the remaining count after it, by key.
    pub(crate) keys: Vec<(RequestId, u32)>,
    /// Keys that count down when a session ends, by key.
    pub(crate) promises: Vec<(RequestId, SessionId)>,
}

/// A generation of a barrier.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct BarrierPart {
    pub(crate) name: RecipeName,
    /// The number of members that trip the barrier.
    pub(crate) parties: u32,
    /// The arrived members by ticket, in order.
    pub(crate) members: Vec<(Revision, BarrierMember)>,
}

/// A double barrier.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct DoublePart {
    pub(crate) name: RecipeName,
    /// The number of members of a round.
    pub(crate) parties: u32,
    /// The members that wait to enter by ticket, in order.
    pub(crate) waiting: Vec<(Revision, BarrierMember)>,
    pub(crate) round: Option<BarrierRound>,
}

impl RecipePart {
    /// The identity of the recipe.
    pub(crate) fn key(&self) -> (RecipeKind, RecipeName) {
        match self {
            Self::Latch(latch) => (RecipeKind::Latch, latch.name.clone()),
            Self::Barrier(barrier) => (RecipeKind::Barrier, barrier.name.clone()),
            Self::Double(double) => (RecipeKind::DoubleBarrier, double.name.clone()),
            Self::Counter { name, .. } => (RecipeKind::Counter, name.clone()),
        }
    }

    pub(crate) fn weight(&self) -> usize {
        /// The size of a member with the longest names, in bytes.
        const MEMBER: usize = 256;
        let items = match self {
            Self::Latch(latch) => latch.keys.len() + latch.promises.len(),
            Self::Barrier(barrier) => barrier.members.len(),
            Self::Double(double) => {
                double.waiting.len() + double.round.as_ref().map_or(0, |round| round.entered.len())
            }
            Self::Counter { .. } => 0,
        };
        let (_, name) = self.key();
        64 + name.as_str().len() + MEMBER * items
    }
}

impl Latch {
    fn part(&self, name: &RecipeName) -> RecipePart {
        RecipePart::Latch(LatchPart {
            name: name.clone(),
            count: self.count,
            created_in: self.created_in,
            keys: pairs(&self.keys),
            promises: pairs(&self.promises),
        })
    }
}

impl Barrier {
    fn part(&self, name: &RecipeName) -> RecipePart {
        let members = pairs(&self.members);
        RecipePart::Barrier(BarrierPart { name: name.clone(), parties: self.parties, members })
    }
}

impl DoubleBarrierState {
    fn part(&self, name: &RecipeName) -> RecipePart {
        RecipePart::Double(DoublePart {
            name: name.clone(),
            parties: self.parties,
            waiting: pairs(&self.waiting),
            round: self.round.clone(),
        })
    }
}

fn pairs<K: Ord + Clone, V: Clone>(map: &OrdMap<K, V>) -> Vec<(K, V)> {
    map.iter().map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// Returns the range of names of one kind after the last dumped recipe; `None` if the kind is complete.
fn start(
    kind: RecipeKind,
    after: Option<&(RecipeKind, RecipeName)>,
) -> Option<(Bound<&str>, Bound<&str>)> {
    match after {
        Some((last, _)) if kind < *last => None,
        Some((last, name)) if kind == *last => {
            Some((Bound::Excluded(name.as_str()), Bound::Unbounded))
        }
        Some(_) | None => Some((Bound::Unbounded, Bound::Unbounded)),
    }
}

impl Recipes {
    /// The recipes after one, by kind and name.
    pub(crate) fn parts_after<'a>(
        &'a self,
        after: Option<&'a (RecipeKind, RecipeName)>,
    ) -> impl Iterator<Item = RecipePart> + 'a {
        let at = move |kind| start(kind, after);
        let latches = at(RecipeKind::Latch).map(|from| self.latches.range::<_, str>(from));
        let barriers = at(RecipeKind::Barrier).map(|from| self.barriers.range::<_, str>(from));
        let doubles = at(RecipeKind::DoubleBarrier).map(|from| self.doubles.range::<_, str>(from));
        let counters = at(RecipeKind::Counter).map(|from| self.counters.range::<_, str>(from));
        let latches = latches.into_iter().flatten().map(|(name, latch)| latch.part(name));
        let barriers = barriers.into_iter().flatten().map(|(name, barrier)| barrier.part(name));
        let doubles = doubles.into_iter().flatten().map(|(name, double)| double.part(name));
        let counters = counters
            .into_iter()
            .flatten()
            .map(|(name, view)| RecipePart::Counter { name: name.clone(), view: *view });
        latches.chain(barriers).chain(doubles).chain(counters)
    }

    /// Adds a recipe from a snapshot. Returns false if its name exists.
    ///
    /// # Errors
    /// A key or a ticket repeats.
    pub(crate) fn restore(&mut self, part: RecipePart) -> Result<bool, String> {
        Ok(match part {
            RecipePart::Latch(LatchPart { name, count, created_in, keys, promises }) => {
                let latch =
                    Latch { count, created_in, keys: once(keys)?, promises: once(promises)? };
                self.latches.insert(name, Arc::new(latch)).is_none()
            }
            RecipePart::Barrier(BarrierPart { name, parties, members }) => {
                let barrier = Barrier { parties, members: once(members)? };
                self.barriers.insert(name, Arc::new(barrier)).is_none()
            }
            RecipePart::Double(DoublePart { name, parties, waiting, round }) => {
                let double = DoubleBarrierState { parties, waiting: once(waiting)?, round };
                self.doubles.insert(name, Arc::new(double)).is_none()
            }
            RecipePart::Counter { name, view } => self.counters.insert(name, view).is_none(),
        })
    }

    /// Rebuilds the indexes.
    ///
    /// # Errors
    /// A promise or an arrival of a session repeats.
    pub(crate) fn rebuild(&mut self) -> Result<(), String> {
        let (latches, barriers, doubles) =
            (self.latches.clone(), self.barriers.clone(), self.doubles.clone());
        (self.participations, self.waits) = (OrdMap::new(), ArrivalDeadlines::default());
        self.bytes = latches.values().map(|latch| latch.bytes()).sum();
        for (name, latch) in &latches {
            for (key, session) in &latch.promises {
                self.add_once(
                    *session,
                    Participation::Promise(name.clone(), key.clone()),
                    latch.created_in,
                )?;
            }
        }
        for (name, barrier) in &barriers {
            self.add_members(BarrierKind::Barrier, name, &barrier.members)?;
        }
        for (name, double) in &doubles {
            self.add_members(BarrierKind::Double, name, &double.waiting)?;
            let entered = double.round.iter().flat_map(|round| &round.entered);
            for entered in entered.filter(|entered| !entered.left) {
                let participation = Participation::Arrival(
                    BarrierKind::Double,
                    name.clone(),
                    entered.owner.clone(),
                );
                self.add_once(entered.session, participation, entered.ticket)?;
            }
        }
        Ok(())
    }

    fn add_members(
        &mut self,
        barrier_kind: BarrierKind,
        name: &RecipeName,
        members: &OrdMap<Revision, BarrierMember>,
    ) -> Result<(), String> {
        for (ticket, member) in members {
            self.add_once(member.session, member.participation(barrier_kind, name), *ticket)?;
            if !self.waits.enter(barrier_kind, name, *ticket, member) {
                return Err(format!(
                    "two waiting arrivals have the same call revision, one of them at {name}"
                ));
            }
        }
        Ok(())
    }

    fn add_once(
        &mut self,
        session: SessionId,
        participation: Participation,
        at: Revision,
    ) -> Result<(), String> {
        let complaint = format!("{participation:?} repeats in one session");
        if self.add(session, participation, at) { Ok(()) } else { Err(complaint) }
    }
}

fn once<K: Ord + Clone, V: Clone>(items: Vec<(K, V)>) -> Result<OrdMap<K, V>, String> {
    let count = items.len();
    let map: OrdMap<K, V> = items.into_iter().collect();
    if map.len() == count { Ok(map) } else { Err("a recipe repeats a key or a ticket".to_owned()) }
}
