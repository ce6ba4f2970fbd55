//! Reads of the recipes. Results are copies at the machine's revision.

use holdfast_types::{
    BarrierKind, BarrierView, CounterView, LatchView, Outcome, Owner, RecipeName, RecipeReply,
    Reply, Revision, SessionId, SessionName, Tripped,
};

use super::Participation;
use crate::Machine;
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

impl Machine {
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
