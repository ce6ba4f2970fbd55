//! Reads of the recipes. Results are copies at the machine's revision.

use std::ops::Bound;

use holdfast_types::{
    BarrierKind, BarrierView, CounterView, LatchView, Outcome, Owner, Page, RecipeKind, RecipeName,
    RecipeReply, RecipeState, RecipeView, Reply, Revision, SessionId, SessionName, Tripped,
};
use imbl::OrdMap;

use super::arrivals::count;
use super::barriers::BarrierRound;
use super::{Participation, Recipes};
use crate::Machine;
use crate::reads::SCAN_MAX;
use crate::session::store::KnownSession;

/// The state of an arrival.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArrivalState {
    /// It still waits.
    Waiting,
    /// It has its final answer.
    Answered(Outcome),
    /// It does not exist, and its answer is not remembered.
    Gone,
}

/// Selects the recipes of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecipeFilter {
    /// The prefix of the names.
    pub prefix: String,
    /// Only recipes of this kind.
    pub kind: Option<RecipeKind>,
}

/// The recipe that the `next` of a page of recipes names; `None` for any other text.
pub fn recipe_of_next(next: &str) -> Option<(RecipeKind, RecipeName)> {
    let (kind, name) = next.split_once('/')?;
    let kind = RecipeKind::ALL.into_iter().find(|of| of.as_str() == kind)?;
    Some((kind, RecipeName::new(name).ok()?))
}

impl Machine {
    /// Returns a page of recipes after one, by kind and name. `next` has the kind and the name of its last recipe, as
    /// `counter/visits`. The page has fewer than `limit` recipes, with `next`, if it read [`SCAN_MAX`] names.
    pub fn recipes(
        &self,
        filter: &RecipeFilter,
        after: Option<&(RecipeKind, RecipeName)>,
        limit: usize,
        is_visible: impl Fn(&RecipeName) -> bool,
    ) -> Page<RecipeView> {
        let kinds =
            RecipeKind::ALL.into_iter().filter(|kind| filter.kind.is_none_or(|of| of == *kind));
        let found = kinds.flat_map(|kind| self.recipes.listed(kind, &filter.prefix, after));
        let (mut items, mut last, mut next) = (Vec::new(), None, None);
        for (read, (name, state)) in found.enumerate() {
            if items.len() >= limit || read >= SCAN_MAX {
                next = last;
                break;
            }
            last = Some(format!("{}/{name}", state.kind().as_str()));
            if is_visible(name) {
                items.push(RecipeView { name: name.clone(), state });
            }
        }
        Page { items, next, revision: self.revision }
    }

    /// Returns a latch; `None` if it does not exist.
    pub fn latch(&self, latch: &RecipeName) -> Option<LatchView> {
        self.recipes.latches.get(latch).map(|latch| latch.view())
    }

    /// Returns a counter. A counter that was never changed is 0.
    pub fn counter(&self, counter: &RecipeName) -> CounterView {
        self.recipes.counters.get(counter).copied().unwrap_or_default()
    }

    /// Returns a barrier or a double barrier, with at most [`crate::LISTED_ENTRIES_MAX`] waiting members and as many
    /// inside.
    pub fn barrier(&self, barrier_kind: BarrierKind, name: &RecipeName) -> BarrierView {
        match barrier_kind {
            BarrierKind::Barrier => self.recipes.barriers.get(name).map(|barrier| BarrierView {
                parties: barrier.parties,
                generation: Some(barrier.generation()),
                arrived: self.listed(barrier.members.values().map(|member| member.session)),
                ..BarrierView::default()
            }),
            BarrierKind::Double => self.recipes.doubles.get(name).map(|double| {
                let entered = double.round.iter().flat_map(|round| &round.entered);
                let inside = entered.filter(|entered| !entered.left).map(|e| e.session);
                BarrierView {
                    parties: double.parties,
                    generation: None,
                    arrived: self.listed(double.waiting.values().map(|member| member.session)),
                    round: double.round.as_ref().map(|round| round.generation),
                    inside: self.listed(inside),
                }
            }),
        }
        .unwrap_or_default()
    }

    /// Returns the current round of a double barrier, and the number of its members that have not left.
    pub fn round(&self, name: &RecipeName) -> Option<(Revision, u32)> {
        let round = self.recipes.doubles.get(name)?.round.as_ref()?;
        Some((round.generation, round.inside()))
    }

    fn listed(&self, sessions: impl Iterator<Item = SessionId>) -> Vec<SessionName> {
        let name = |id| self.session_name(id).unwrap_or_else(|| SessionName::of(id));
        sessions.take(crate::LISTED_ENTRIES_MAX).map(name).collect()
    }

    /// Returns the state of the arrival with this ticket.
    pub fn arrival(
        &self,
        barrier_kind: BarrierKind,
        name: &RecipeName,
        (session, owner): (&SessionName, &Owner),
        ticket: Revision,
    ) -> ArrivalState {
        let Some(KnownSession::Open(id)) = self.sessions.named(session) else {
            return ArrivalState::Gone;
        };
        if let Some(first) = self.answer_to_arrival(id, ticket) {
            return ArrivalState::Answered(first);
        }
        let participation = Participation::Arrival(barrier_kind, name.clone(), owner.clone());
        if self.recipes.participation(id, &participation) != Some(ticket) {
            return ArrivalState::Gone;
        }
        let double = self.recipes.doubles.get(name).filter(|_| barrier_kind == BarrierKind::Double);
        let passed: Option<Tripped> = double.and_then(|double| double.passed(ticket));
        match passed {
            Some(passed) => ArrivalState::Answered(Ok(Reply::Recipe(RecipeReply::Tripped(passed)))),
            None => ArrivalState::Waiting,
        }
    }
}

impl Recipes {
    /// The recipes of a kind whose names have the prefix, after one.
    fn listed<'a>(
        &'a self,
        kind: RecipeKind,
        prefix: &'a str,
        after: Option<&'a (RecipeKind, RecipeName)>,
    ) -> Box<dyn Iterator<Item = (&'a RecipeName, RecipeState)> + 'a> {
        let from = match after {
            Some((last, _)) if kind < *last => return Box::new(std::iter::empty()),
            Some((last, name)) if kind == *last && name.as_str() >= prefix => {
                Bound::Excluded(name.as_str())
            }
            Some(_) | None => Bound::Included(prefix),
        };
        match kind {
            RecipeKind::Latch => {
                Box::new(range(&self.latches, from, prefix).map(|(name, latch)| {
                    (name, RecipeState::Latch { count: latch.count, left: latch.left() })
                }))
            }
            RecipeKind::Barrier => {
                Box::new(range(&self.barriers, from, prefix).map(|(name, of)| {
                    let arrived = count(of.members.len());
                    (name, RecipeState::Barrier { parties: of.parties, arrived })
                }))
            }
            RecipeKind::DoubleBarrier => {
                Box::new(range(&self.doubles, from, prefix).map(|(name, of)| {
                    let inside = of.round.as_ref().map_or(0, BarrierRound::inside);
                    let arrived = count(of.waiting.len());
                    (name, RecipeState::DoubleBarrier { parties: of.parties, arrived, inside })
                }))
            }
            RecipeKind::Counter => Box::new(
                range(&self.counters, from, prefix)
                    .map(|(name, of)| (name, RecipeState::Counter { value: of.value })),
            ),
        }
    }
}

fn range<'a, V: Clone>(
    recipes: &'a OrdMap<RecipeName, V>,
    from: Bound<&'a str>,
    prefix: &'a str,
) -> impl Iterator<Item = (&'a RecipeName, &'a V)> {
    let rest = recipes.range::<_, str>((from, Bound::Unbounded));
    rest.take_while(move |(name, _)| name.as_str().starts_with(prefix))
}
