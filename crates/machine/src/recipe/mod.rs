//! Recipes beside locks: latches, barriers, double barriers and counters, with the index of the places of each session.
//!
//! Bounds: `recipes_max` of all kinds together, and the constants of [`Recipe`]: counts, parties, waiting members,
//! promises, and places of one session. A barrier exists only while it has members; latches and counters stay until
//! they are deleted.

mod barrier;
mod counter;
mod double;
mod gate;
mod invariants;
mod latch;
pub(crate) mod parts;
mod reads;
mod waits;

use std::sync::Arc;

use holdfast_types::{
    BarrierKind, Bound, BreachCause, CounterView, Outcome, Owner, Recipe, RecipeName,
    RecipeRejection, Rejection, RequestId, Revision, SessionEnd, SessionId,
};
use imbl::OrdMap;

use crate::Machine;
use crate::context::{ApplyContext, limit_reached};
use crate::session::memo::scoped;

pub(crate) use parts::{RecipeKind, RecipePart};
pub use reads::Arrival;
pub use waits::ArrivalWait;

pub(crate) use barrier::Barrier;
pub(crate) use double::Double;
pub(crate) use latch::Latch;
use waits::Waits;

/// What a session has somewhere: what its end concerns.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    /// A promise to count a latch down.
    Promise(RecipeName, RequestId),
    /// A place at a barrier, or at or in a double barrier.
    BarrierKind(BarrierKind, RecipeName, Owner),
}

/// A session's places, each with a revision: of an arrival its ticket, of a promise that of its latch.
type Places = OrdMap<Place, Revision>;

/// All recipes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Recipes {
    pub(crate) latches: OrdMap<RecipeName, Arc<Latch>>,
    pub(crate) barriers: OrdMap<RecipeName, Arc<Barrier>>,
    pub(crate) doubles: OrdMap<RecipeName, Arc<Double>>,
    pub(crate) counters: OrdMap<RecipeName, CounterView>,
    /// Invariant: the promises and the members of the others, and no empty entry.
    places: OrdMap<SessionId, Places>,
    /// Invariant: the arrivals that wait, by their last asking.
    waits: Waits,
}

impl Recipes {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.latches.len() + self.barriers.len() + self.doubles.len() + self.counters.len()
    }

    /// How many places a session has.
    fn places_of(&self, session: SessionId) -> usize {
        self.places.get(&session).map_or(0, Places::len)
    }

    fn place(&self, session: SessionId, place: &Place) -> Option<Revision> {
        self.places.get(&session)?.get(place).copied()
    }

    /// Notes a place. False if it was known.
    fn note(&mut self, session: SessionId, place: Place, at: Revision) -> bool {
        let mut places = self.places.get(&session).cloned().unwrap_or_default();
        let new = places.insert(place, at).is_none();
        self.places.insert(session, places);
        new
    }

    fn forget(&mut self, session: SessionId, place: &Place) {
        let Some(places) = self.places.get_mut(&session) else { return };
        places.remove(place);
        if places.is_empty() {
            self.places.remove(&session);
        }
    }
}

/// "The recipe says no."
fn refused(rejection: RecipeRejection) -> Rejection {
    Rejection::Recipe(rejection)
}

/// The id under which the answer to an arrival is remembered.
fn scoped_arrival(
    gate: BarrierKind,
    name: &RecipeName,
    owner: &Owner,
    request: Option<&RequestId>,
) -> Option<RequestId> {
    let kind = match gate {
        BarrierKind::Barrier => "barrier",
        BarrierKind::Double => "double",
    };
    scoped(&[kind, name.as_str(), owner.as_str()], request)
}

/// Rejects a number that is 0 or beyond its bound.
fn within(number: u32, max: u32) -> Result<(), Rejection> {
    if (1..=max).contains(&number) {
        Ok(())
    } else {
        Err(refused(RecipeRejection::OutOfBounds { max }))
    }
}

impl Machine {
    /// The switchboard of the recipes.
    pub(crate) fn recipe(&mut self, recipe: Recipe, ctx: &mut ApplyContext<'_>) -> Outcome {
        match recipe {
            Recipe::MakeLatch { latch, count } => self.make_latch(latch, count, ctx),
            Recipe::CountDown { latch, key } => self.count_down(&latch, key, ctx),
            Recipe::Promise { latch, key, session } => self.promise(&latch, key, session),
            Recipe::DeleteLatch { latch } => Ok(self.delete_latch(&latch, ctx)),
            Recipe::Arrive(arrive) => self.arrive(arrive, ctx),
            Recipe::LeaveBarrier(depart) => self.depart(&depart, ctx),
            Recipe::CancelArrival(give_up) => self.stop_waiting(&give_up, ctx),
            Recipe::ChangeCounter(count) => self.count(count, ctx),
        }
    }

    /// Rejects one recipe too many.
    fn check_room_for_recipe(&self) -> Result<(), Rejection> {
        let max = self.limits.recipes_max;
        if self.recipes.len() as u64 >= u64::from(max) {
            return Err(limit_reached(Bound::Recipes, max));
        }
        Ok(())
    }

    /// Rejects one place of a session too many.
    fn check_room_for_place(&self, session: SessionId) -> Result<(), Rejection> {
        if self.recipes.places_of(session) as u64 >= u64::from(Recipe::PLACES_MAX) {
            return Err(limit_reached(Bound::RecipePlaces, Recipe::PLACES_MAX));
        }
        Ok(())
    }

    /// A session ends: what it promised is counted, what it waited in breaks, what it was inside of it has left. First
    /// all its places go, so that none of them lets it in anywhere, then others are let in.
    pub(crate) fn end_in_recipes(
        &mut self,
        id: SessionId,
        end: SessionEnd,
        ctx: &mut ApplyContext<'_>,
    ) {
        let places = self.recipes.places.get(&id).cloned().unwrap_or_default();
        for (place, ticket) in &places {
            match place {
                Place::Promise(latch, key) => self.keep_promise(latch, key, ctx),
                Place::BarrierKind(BarrierKind::Barrier, name, _) => {
                    self.break_barrier(name, id, BreachCause::SessionEnded(end), ctx);
                }
                Place::BarrierKind(BarrierKind::Double, name, owner) => {
                    self.vacate(name, id, owner, *ticket, ctx);
                }
            }
        }
        for place in places.keys() {
            if let Place::BarrierKind(BarrierKind::Double, name, _) = place {
                self.settle_double(name, ctx);
            }
        }
    }
}
