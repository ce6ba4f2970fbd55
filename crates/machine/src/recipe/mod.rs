//! Recipes other than locks: latches, barriers, double barriers and counters, and the index of each session's promises
//! and arrivals.
//!
//! Bounds: `recipes_max` recipes of all kinds, and the constants of [`Recipe`] for counts, parties, waiting members,
//! promises, and the promises and arrivals of one session. A barrier exists while it has members. A latch or counter
//! exists until it is deleted.

mod arrivals;
mod barriers;
mod counter;
mod invariants;
mod latch;
pub(crate) mod parts;
mod reads;
mod waits;

use std::sync::Arc;

use holdfast_types::{
    BarrierKind, Bound, BreachCause, CounterView, NamespaceName, Outcome, Owner, QuotaKind, Recipe,
    RecipeName, RecipeRejection, Rejection, RequestId, Revision, SessionEnd, SessionId,
};
use imbl::OrdMap;

use crate::Machine;
use crate::context::{ApplyContext, limit_reached};

pub(crate) use parts::RecipePart;
pub use reads::{ArrivalState, RecipeFilter, recipe_of_next};
pub use waits::ArrivalWait;

pub(crate) use barriers::{Barrier, DoubleBarrierState};
pub(crate) use latch::Latch;
use waits::ArrivalDeadlines;

/// A promise or an arrival of a session, which the end of the session concerns.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Participation {
    /// A promise to count a latch down.
    Promise(RecipeName, RequestId),
    /// An arrival at a barrier, or at or inside a double barrier.
    Arrival(BarrierKind, RecipeName, Owner),
}

/// The promises and arrivals of a session, each with a revision: the ticket of an arrival, or the creation of the
/// latch.
type Participations = OrdMap<Participation, Revision>;

/// All recipes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Recipes {
    pub(crate) latches: OrdMap<RecipeName, Arc<Latch>>,
    pub(crate) barriers: OrdMap<RecipeName, Arc<Barrier>>,
    pub(crate) doubles: OrdMap<RecipeName, Arc<DoubleBarrierState>>,
    pub(crate) counters: OrdMap<RecipeName, CounterView>,
    /// Invariant: the promises of the latches and the members of the barriers, by session; no empty map.
    participations: OrdMap<SessionId, Participations>,
    /// Invariant: the waiting arrivals, by their latest call.
    waits: ArrivalDeadlines,
    /// Invariant: the bytes of the counted and promised keys of all latches.
    bytes: u64,
}

impl Recipes {
    /// The bytes of the counted and promised keys of all latches.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The number of recipes.
    pub(crate) fn len(&self) -> usize {
        self.latches.len() + self.barriers.len() + self.doubles.len() + self.counters.len()
    }

    /// The number of recipes of a namespace, counted up to one above [`QuotaKind::RECIPES_MAX`].
    pub(crate) fn count_in(&self, namespace: &NamespaceName) -> u64 {
        let count = |name: &str| {
            names_below(&self.latches, name)
                .chain(names_below(&self.barriers, name))
                .chain(names_below(&self.doubles, name))
                .chain(names_below(&self.counters, name))
                .zip(0..=QuotaKind::RECIPES_MAX)
                .count() as u64
        };
        namespace.names().iter().map(|name| count(name)).sum()
    }

    /// The number of promises and arrivals of a session.
    pub(crate) fn participation_count(&self, session: SessionId) -> usize {
        self.participations.get(&session).map_or(0, Participations::len)
    }

    fn participation(&self, session: SessionId, participation: &Participation) -> Option<Revision> {
        self.participations.get(&session)?.get(participation).copied()
    }

    /// Adds a promise or an arrival. Returns false if it existed.
    fn add(&mut self, session: SessionId, participation: Participation, at: Revision) -> bool {
        let mut participations = self.participations.get(&session).cloned().unwrap_or_default();
        let new = participations.insert(participation, at).is_none();
        self.participations.insert(session, participations);
        new
    }

    fn remove(&mut self, session: SessionId, participation: &Participation) {
        let Some(participations) = self.participations.get_mut(&session) else { return };
        participations.remove(participation);
        if participations.is_empty() {
            self.participations.remove(&session);
        }
    }
}

/// The recipes with a name or with names below it.
fn names_below<'a, V: Clone>(
    recipes: &'a OrdMap<RecipeName, V>,
    name: &str,
) -> impl Iterator<Item = &'a RecipeName> + use<'a, V> {
    let top = recipes.get_key_value(name).map(|(name, _)| name);
    let below = format!("{name}/");
    let rest = recipes
        .range::<_, str>((std::ops::Bound::Included(below.as_str()), std::ops::Bound::Unbounded));
    top.into_iter()
        .chain(rest.map(|(name, _)| name).take_while(move |name| name.as_str().starts_with(&below)))
}

/// Turns the rejection of a recipe into one of a command.
fn rejected(rejection: RecipeRejection) -> Rejection {
    Rejection::Recipe(rejection)
}

/// Rejects 0 and numbers greater than `max`.
fn check_range(number: u32, max: u32) -> Result<(), Rejection> {
    if (1..=max).contains(&number) {
        Ok(())
    } else {
        Err(rejected(RecipeRejection::OutOfBounds { max }))
    }
}

impl Machine {
    /// Executes a recipe command.
    pub(crate) fn recipe(&mut self, recipe: Recipe, ctx: &mut ApplyContext<'_>) -> Outcome {
        match recipe {
            Recipe::MakeLatch { latch, count } => self.make_latch(latch, count, ctx),
            Recipe::CountDown { latch, key } => self.count_down(&latch, key, ctx),
            Recipe::Promise { latch, key, session } => self.promise(&latch, key, &session),
            Recipe::DeleteLatch { latch } => Ok(self.delete_latch(&latch, ctx)),
            Recipe::Arrive(arrive) => self.arrive(arrive, ctx),
            Recipe::LeaveBarrier(leave_barrier) => self.leave_barrier(&leave_barrier, ctx),
            Recipe::CancelArrival(cancel) => self.cancel_arrival(&cancel, ctx),
            Recipe::ChangeCounter(count) => self.change_counter(count, ctx),
        }
    }

    /// Rejects a new recipe beyond `recipes_max`.
    fn check_room_for_recipe(&self) -> Result<(), Rejection> {
        let max = self.limits.recipes_max;
        if self.recipes.len() as u64 >= u64::from(max) {
            return Err(limit_reached(Bound::Recipes, max));
        }
        Ok(())
    }

    /// Rejects a promise or an arrival of a session beyond [`Recipe::ENTRIES_PER_SESSION_MAX`].
    fn check_room_for_participation(&self, session: SessionId) -> Result<(), Rejection> {
        if self.recipes.participation_count(session) as u64
            >= u64::from(Recipe::ENTRIES_PER_SESSION_MAX)
        {
            return Err(limit_reached(Bound::RecipeEntries, Recipe::ENTRIES_PER_SESSION_MAX));
        }
        Ok(())
    }

    /// Ends the promises and arrivals of a session. Its promises count down, barriers at which it waits break, and it
    /// leaves its double barriers. All its arrivals are removed before the next round of any double barrier starts, so
    /// it enters none.
    pub(crate) fn end_in_recipes(
        &mut self,
        id: SessionId,
        end: SessionEnd,
        ctx: &mut ApplyContext<'_>,
    ) {
        let participations = self.recipes.participations.get(&id).cloned().unwrap_or_default();
        for (participation, ticket) in &participations {
            match participation {
                Participation::Promise(latch, key) => self.count_promise_down(latch, key, ctx),
                Participation::Arrival(BarrierKind::Barrier, name, _) => {
                    self.break_barrier(name, id, BreachCause::SessionEnded(end), ctx);
                }
                Participation::Arrival(BarrierKind::Double, name, owner) => {
                    self.remove_member(name, id, owner, *ticket, ctx);
                }
            }
        }
        for participation in participations.keys() {
            if let Participation::Arrival(BarrierKind::Double, name, _) = participation {
                self.settle_double(name, ctx);
            }
        }
    }
}
