//! The model's ends of arrivals: leaving, and the end of a wait.

use holdfast_types::*;

use super::{Called, Model, Participant, replied, scope};

impl Model {
    /// No later copy of a withdrawn arrival arrives.
    pub(super) fn end_number(&mut self, party: &Participant, request: Option<u64>) {
        let Some(request) = request else { return };
        let over = Err(SessionRejection::RequestOver { newest: RequestNumber(request) }.into());
        let scope = scope(party.barrier_kind, &party.name, &party.owner);
        self.remember(party.session, Called::Number(request, scope), (&over, self.revision));
    }

    pub(super) fn leave_barrier(&mut self, leave_barrier: LeaveBarrier) -> Outcome {
        let LeaveBarrier { barrier_kind, name, session, owner, generation, request } =
            leave_barrier;
        let Some(id) = self.live(&session) else { return self.gone(session) };
        let mine = self.participant_of(barrier_kind, &name, id, &owner);
        let waits = mine.as_ref().is_some_and(|mine| mine.inside.is_none());
        let round = self.round(&name).first().and_then(|party| party.inside);
        let present = match barrier_kind {
            BarrierKind::Barrier => Some(self.generation(barrier_kind, &name).0),
            BarrierKind::Double if waits => None,
            BarrierKind::Double => round.map(|(number, _)| number),
        };
        let is_meant = generation.is_none_or(|generation| Some(generation.0) == present);
        let number = mine.as_ref().filter(|_| waits).and_then(|mine| mine.request);
        let is_named = request.is_none_or(|request| number == Some(request.0));
        if let Some(RequestNumber(request)) = request.filter(|_| !is_named) {
            let over = Err(SessionRejection::RequestOver { newest: RequestNumber(request) }.into());
            let call = Called::Number(request, scope(barrier_kind, &name, &owner));
            self.remember(id, call, (&over, self.revision));
        }
        if !(is_meant && is_named) {
            let none = LeaveBarrierReply { leaving: None, changed: false };
            return replied(RecipeReply::LeftBarrier(none));
        }
        let changed = mine.is_some();
        if barrier_kind == BarrierKind::Barrier {
            if changed {
                self.break_all(&name, id, BreachCause::Left);
            }
            return replied(RecipeReply::LeftBarrier(LeaveBarrierReply { leaving: None, changed }));
        }
        if let Some(mine) = &mine {
            self.leave(mine);
            self.trip_if_complete(barrier_kind, &name);
        }
        let round = self.round(&name);
        let inside = round.iter().filter(|party| !party.left).count() as u32;
        let has_left =
            round.iter().any(|party| party.session == id && party.owner == owner && party.left);
        let has_left = has_left && mine.is_none_or(|mine| mine.inside.is_some());
        let number =
            round.first().and_then(|party| party.inside).map(|(number, _)| Revision(number));
        let leaving = number.filter(|_| has_left).map(|number| (number, inside));
        replied(RecipeReply::LeftBarrier(LeaveBarrierReply { leaving, changed }))
    }

    pub(super) fn cancel_arrival(&mut self, cancel_arrival: CancelArrival) -> Outcome {
        let CancelArrival { barrier_kind, name, session, owner, requested_in, ticket } =
            cancel_arrival;
        let Some(id) = self.live(&session) else { return replied(RecipeReply::ArrivalCancelled) };
        if let Some(first) = self.recall_arrival(id, ticket.0) {
            return first;
        }
        let Some(mine) = self.participant_of(barrier_kind, &name, id, &owner) else {
            return replied(RecipeReply::ArrivalCancelled);
        };
        if let Some((round, index)) = mine.inside {
            let (generation, parties) = (Revision(round), mine.parties);
            return replied(RecipeReply::Tripped(Tripped { generation, index, parties }));
        }
        if mine.requested_in != requested_in.0 {
            return self.arrived(barrier_kind, &name, id, mine.ticket, mine.requested_in);
        }
        if barrier_kind == BarrierKind::Barrier {
            self.break_all(&name, id, BreachCause::TimedOut);
        } else {
            self.leave(&mine);
        }
        replied(RecipeReply::ArrivalCancelled)
    }
}
