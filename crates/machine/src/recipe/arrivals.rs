//! Commands of barriers and double barriers: arrive, leave, and cancel a wait.
//!
//! A retried arrival is the same arrival. While it waits, this holds because an owner has at most one arrival; later,
//! because the session remembers the answer under the request number. A command does all checks before its first change.

use std::sync::Arc;

use holdfast_types::{
    Arrive, Arrived, BarrierKind, Bound, BreachCause, CallScope, CancelArrival, LeaveBarrier,
    LeaveBarrierReply, Outcome, Owner, Recipe, RecipeName, RecipeRejection, RecipeReply, Rejection,
    Reply, RequestNumber, Revision, SessionId, SessionRejection, Ticket, Tripped, Ttl,
};
use serde::{Deserialize, Serialize};

use super::{Participation, check_range, rejected};
use crate::Machine;
use crate::context::{ApplyContext, limit_reached};
use crate::session::memo::{AnsweredCall, scope_of};
use crate::session::store::KnownSession;

/// An arrived member.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct BarrierMember {
    pub(crate) session: SessionId,
    pub(crate) owner: Owner,
    /// The number under which the session remembers the final answer.
    pub(crate) request: Option<RequestNumber>,
    /// The revision of the latest call of this arrival.
    pub(crate) requested_in: Revision,
    /// The maximum wait of that call in milliseconds.
    pub(crate) wait_ms: u64,
}

impl BarrierMember {
    pub(crate) fn participation(
        &self,
        barrier_kind: BarrierKind,
        name: &RecipeName,
    ) -> Participation {
        Participation::Arrival(barrier_kind, name.clone(), self.owner.clone())
    }
}

/// The state of a barrier before another arrival.
#[derive(Clone, Copy, Debug)]
pub(super) struct BarrierProgress {
    pub(super) parties: u32,
    pub(super) arrived: u32,
    /// True if the next arrival trips the barrier.
    pub(super) is_last: bool,
    /// True if the barrier exists.
    pub(super) exists: bool,
}

/// Converts a length, which is far below 2^32.
pub(super) fn count(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

impl Machine {
    pub(super) fn arrive(&mut self, arrive: Arrive, ctx: &mut ApplyContext<'_>) -> Outcome {
        check_range(arrive.parties, Recipe::PARTIES_MAX)?;
        if let Some(id) = self.session_for(&arrive.open)? {
            return self.arrive_in_session(id, arrive, ctx);
        }
        let ended = self.sessions.tombstone(&arrive.open.session);
        let newest = ended.map_or(RequestNumber(0), |ended| ended.requests_over);
        if arrive.request.is_some_and(|request| request <= newest) {
            return Err(SessionRejection::RequestOver { newest }.into());
        }
        self.arrive_new(None, arrive, ctx)
    }

    fn arrive_in_session(
        &mut self,
        id: SessionId,
        arrive: Arrive,
        ctx: &mut ApplyContext<'_>,
    ) -> Outcome {
        let Arrive { barrier_kind, name, owner, request, .. } = &arrive;
        let participation = Participation::Arrival(*barrier_kind, name.clone(), owner.clone());
        let ticket = self.recipes.participation(id, &participation);
        let numbered =
            request.map(|request| (request, scope_of_arrival(*barrier_kind, name, owner)));
        let member = ticket.and_then(|ticket| self.barrier_member(*barrier_kind, name, ticket));
        let waiting = member.and_then(|member| member.request);
        if let Some((request, scope)) = numbered {
            match self.recalled_request(id, request, scope) {
                Ok(Some(first)) => return first,
                // The session may have forgotten later numbers.
                Err(_) if waiting == Some(request) => {}
                Err(over) => return Err(over),
                Ok(None) => {
                    if let Some(newest) = waiting.filter(|waiting| request < *waiting) {
                        return Err(SessionRejection::RequestOver { newest }.into());
                    }
                }
            }
        }
        let outcome = match ticket {
            Some(ticket) => self.arrive_again(id, ticket, arrive, ctx),
            None => self.arrive_new(Some(id), arrive, ctx),
        };
        // An arrival that still waits has no final answer.
        if let (Some((request, scope)), Err(_)) = (numbered, &outcome)
            && waiting != Some(request)
        {
            self.remember(id, AnsweredCall::Request(request, scope), outcome.clone());
        }
        outcome
    }

    /// Remembers the final answer to an arrival: for the call that waits for it, and for copies of a numbered call.
    pub(super) fn answer_arrival(
        &mut self,
        barrier_kind: BarrierKind,
        name: &RecipeName,
        ticket: Revision,
        member: &BarrierMember,
        outcome: &Outcome,
    ) {
        let scope = scope_of_arrival(barrier_kind, name, &member.owner);
        let request = member.request.map(|request| (request, scope));
        let call = AnsweredCall::Arrival { ticket, request };
        self.remember(member.session, call, outcome.clone());
    }

    /// Ends the number of an arrival that was withdrawn: no later copy of the call arrives.
    pub(super) fn end_request(
        &mut self,
        barrier_kind: BarrierKind,
        name: &RecipeName,
        session: SessionId,
        owner: &Owner,
        request: Option<RequestNumber>,
    ) {
        let Some(request) = request else { return };
        let over = Err(SessionRejection::RequestOver { newest: request }.into());
        let scope = scope_of_arrival(barrier_kind, name, owner);
        self.remember(session, AnsweredCall::Request(request, scope), over);
    }

    /// Returns the final answer to the arrival with a ticket, if the session remembers it.
    pub(super) fn answer_to_arrival(
        &self,
        session: SessionId,
        ticket: Revision,
    ) -> Option<Outcome> {
        let memo = &self.sessions.get(session)?.memo;
        memo.recall_arrival(ticket).map(|answer| answer.outcome.clone())
    }

    /// Handles a repeated call of an arrived member: the arrival keeps its ticket, and the session's lease is renewed.
    fn arrive_again(
        &mut self,
        session: SessionId,
        ticket: Revision,
        arrive: Arrive,
        ctx: &mut ApplyContext<'_>,
    ) -> Outcome {
        let Arrive { barrier_kind, name, parties, open, owner, request, wait_ms } = arrive;
        let progress = self.progress(barrier_kind, &name, parties);
        check_parties(progress, parties)?;
        if let Some(passed) = self.inside(barrier_kind, &name, ticket) {
            self.renew_lease_by_name(session, &open, None, ctx);
            let outcome = Ok(Reply::Recipe(RecipeReply::Tripped(passed)));
            if let Some(request) = request {
                let scope = scope_of_arrival(barrier_kind, &name, &owner);
                let call = AnsweredCall::Request(request, scope);
                self.remember(session, call, outcome.clone());
            }
            return outcome;
        }
        // Another call may wait for this arrival, so a no-wait call must not change it.
        let Some(wait_ms) = wait_ms else { return Err(not_yet_rejection(progress)) };
        self.renew_lease_by_name(session, &open, None, ctx);
        let changed = self.amend_member(barrier_kind, &name, ticket, |member| {
            member.requested_in = ctx.revision;
            member.wait_ms = wait_ms;
            member.request = request.or(member.request);
        });
        if let Some((before, after)) = changed {
            self.recipes.waits.leave(&before);
            self.recipes.waits.enter(barrier_kind, &name, ticket, &after);
            // The newer call stands for the arrival: a late copy of the older one does not arrive again.
            let replaced = before.request.filter(|_| before.request != after.request);
            self.end_request(barrier_kind, &name, session, &owner, replaced);
        }
        Ok(self.arrived(barrier_kind, &name, session, ticket, ctx.revision))
    }

    fn arrive_new(
        &mut self,
        session: Option<SessionId>,
        arrive: Arrive,
        ctx: &mut ApplyContext<'_>,
    ) -> Outcome {
        let progress = self.progress(arrive.barrier_kind, &arrive.name, arrive.parties);
        check_parties(progress, arrive.parties)?;
        if arrive.wait_ms.is_none() && !progress.is_last {
            return Err(not_yet_rejection(progress));
        }
        if !progress.exists {
            self.check_room_for_recipe()?;
        }
        if progress.arrived >= Recipe::WAITING_ARRIVALS_MAX {
            return Err(limit_reached(Bound::RecipeEntries, Recipe::WAITING_ARRIVALS_MAX));
        }
        match session {
            Some(session) => self.check_room_for_participation(session)?,
            None => self.check_room_for_session()?,
        }
        let Arrive { barrier_kind, name, parties, open, owner, request, wait_ms } = arrive;
        let session = self.renew_or_open_session(session, &open, None, ctx);
        let wait_ms = wait_ms.unwrap_or(0);
        let (requested_in, ticket) = (ctx.revision, ctx.revision);
        let member = BarrierMember { session, owner, request, requested_in, wait_ms };
        self.recipes.add(session, member.participation(barrier_kind, &name), ticket);
        self.recipes.waits.enter(barrier_kind, &name, ticket, &member);
        let passed = match barrier_kind {
            BarrierKind::Barrier => self.join_barrier(&name, parties, member, ctx),
            BarrierKind::Double => self.join_double(&name, parties, member, ctx),
        };
        match passed {
            Some(passed) => Ok(Reply::Recipe(RecipeReply::Tripped(passed))),
            None => Ok(self.arrived(barrier_kind, &name, session, ticket, requested_in)),
        }
    }

    /// Returns the state of a barrier; for a missing one, the state that the first arrival sees.
    fn progress(
        &self,
        barrier_kind: BarrierKind,
        name: &RecipeName,
        parties: u32,
    ) -> BarrierProgress {
        let known = match barrier_kind {
            BarrierKind::Barrier => {
                self.recipes.barriers.get(name).map(|barrier| barrier.progress())
            }
            BarrierKind::Double => self.recipes.doubles.get(name).map(|double| double.progress()),
        };
        let alone = BarrierProgress { parties, arrived: 0, is_last: parties == 1, exists: false };
        known.unwrap_or(alone)
    }

    /// Returns the answer to an arrival that is inside a double barrier.
    fn inside(
        &self,
        barrier_kind: BarrierKind,
        name: &RecipeName,
        ticket: Revision,
    ) -> Option<Tripped> {
        match barrier_kind {
            BarrierKind::Barrier => None,
            BarrierKind::Double => self.recipes.doubles.get(name)?.passed(ticket),
        }
    }

    /// Changes a waiting member. Returns its state before and after.
    fn amend_member(
        &mut self,
        barrier_kind: BarrierKind,
        name: &RecipeName,
        ticket: Revision,
        change: impl FnOnce(&mut BarrierMember),
    ) -> Option<(BarrierMember, BarrierMember)> {
        let recipes = &mut self.recipes;
        let member = match barrier_kind {
            BarrierKind::Barrier => {
                Arc::make_mut(recipes.barriers.get_mut(name)?).members.get_mut(&ticket)?
            }
            BarrierKind::Double => {
                Arc::make_mut(recipes.doubles.get_mut(name)?).waiting.get_mut(&ticket)?
            }
        };
        let before = member.clone();
        change(member);
        Some((before, member.clone()))
    }

    fn arrived(
        &self,
        barrier_kind: BarrierKind,
        name: &RecipeName,
        session: SessionId,
        ticket: Revision,
        requested_in: Revision,
    ) -> Reply {
        let progress = self.progress(barrier_kind, name, 0);
        let generation = match barrier_kind {
            BarrierKind::Barrier => {
                self.recipes.barriers.get(name).map(|barrier| barrier.generation())
            }
            BarrierKind::Double => None,
        };
        Reply::Recipe(RecipeReply::Arrived(Arrived {
            ticket: Ticket(ticket.0),
            requested_in,
            generation: generation.unwrap_or(Revision(0)),
            arrived: progress.arrived,
            parties: progress.parties,
            session,
            ttl: self.sessions.get(session).map_or(Ttl::DEFAULT, |session| session.ttl.present),
        }))
    }

    pub(super) fn leave_barrier(
        &mut self,
        leave_barrier: &LeaveBarrier,
        ctx: &mut ApplyContext<'_>,
    ) -> Outcome {
        let LeaveBarrier { barrier_kind, name, session, owner, generation, request } =
            leave_barrier;
        let id = self.open_session_named(session)?;
        let participation = self
            .recipes
            .participation(id, &Participation::Arrival(*barrier_kind, name.clone(), owner.clone()));
        let present = self.present_generation(*barrier_kind, name, participation);
        let is_other_generation = generation.is_some() && present != *generation;
        let is_other_arrival = request.is_some()
            && participation.is_none_or(|ticket| {
                self.barrier_member(*barrier_kind, name, ticket)
                    .is_none_or(|member| member.request != *request)
            });
        if is_other_arrival {
            self.end_request(*barrier_kind, name, id, owner, *request);
        }
        if is_other_generation || is_other_arrival {
            let none = LeaveBarrierReply { leaving: None, changed: false };
            return Ok(Reply::Recipe(RecipeReply::LeftBarrier(none)));
        }
        let changed = participation.is_some();
        let leaving = match (barrier_kind, participation) {
            (BarrierKind::Barrier, Some(_)) => {
                self.break_barrier(name, id, BreachCause::Left, ctx);
                None
            }
            (BarrierKind::Barrier, None) => None,
            (BarrierKind::Double, participation) => {
                self.leave_double(name, id, owner, participation, ctx)
            }
        };
        Ok(Reply::Recipe(RecipeReply::LeftBarrier(LeaveBarrierReply { leaving, changed })))
    }

    /// Returns the generation of a barrier. Of a double barrier, the round that a member is in or has left; `None` for
    /// a member that waits.
    fn present_generation(
        &self,
        barrier_kind: BarrierKind,
        name: &RecipeName,
        participation: Option<Revision>,
    ) -> Option<Revision> {
        match barrier_kind {
            BarrierKind::Barrier => {
                self.recipes.barriers.get(name).map(|barrier| barrier.generation())
            }
            BarrierKind::Double => {
                let double = self.recipes.doubles.get(name)?;
                let waits =
                    participation.is_some_and(|ticket| double.waiting.contains_key(&ticket));
                double.round.as_ref().filter(|_| !waits).map(|round| round.generation)
            }
        }
    }

    /// Ends a wait, unless the arrival has its answer or the member has repeated its call.
    pub(super) fn cancel_arrival(
        &mut self,
        cancel: &CancelArrival,
        ctx: &mut ApplyContext<'_>,
    ) -> Outcome {
        let CancelArrival { barrier_kind, name, session, owner, requested_in, ticket } = cancel;
        let gone = Ok(Reply::Recipe(RecipeReply::ArrivalCancelled));
        let Some(KnownSession::Open(id)) = self.sessions.named(session) else { return gone };
        if let Some(first) = self.answer_to_arrival(id, Revision(ticket.0)) {
            return first;
        }
        let participation = Participation::Arrival(*barrier_kind, name.clone(), owner.clone());
        let Some(ticket) = self.recipes.participation(id, &participation) else { return gone };
        if let Some(passed) = self.inside(*barrier_kind, name, ticket) {
            return Ok(Reply::Recipe(RecipeReply::Tripped(passed)));
        }
        let now =
            self.barrier_member(*barrier_kind, name, ticket).map(|member| member.requested_in);
        if now != Some(*requested_in) {
            return Ok(self.arrived(*barrier_kind, name, id, ticket, now.unwrap_or(*requested_in)));
        }
        match barrier_kind {
            BarrierKind::Barrier => self.break_barrier(name, id, BreachCause::TimedOut, ctx),
            BarrierKind::Double => {
                self.remove_member(name, id, owner, ticket, ctx);
                self.settle_double(name, ctx);
            }
        }
        gone
    }

    /// Returns a waiting member.
    pub(super) fn barrier_member(
        &self,
        barrier_kind: BarrierKind,
        name: &RecipeName,
        ticket: Revision,
    ) -> Option<&BarrierMember> {
        match barrier_kind {
            BarrierKind::Barrier => self.recipes.barriers.get(name)?.members.get(&ticket),
            BarrierKind::Double => self.recipes.doubles.get(name)?.waiting.get(&ticket),
        }
    }
}

/// The fingerprint of an arrival. Copies of one call may have different waits.
fn scope_of_arrival(barrier_kind: BarrierKind, name: &RecipeName, owner: &Owner) -> CallScope {
    let kind = match barrier_kind {
        BarrierKind::Barrier => "barrier",
        BarrierKind::Double => "double",
    };
    scope_of(&[kind, name.as_str(), owner.as_str()])
}

fn check_parties(progress: BarrierProgress, parties: u32) -> Result<(), Rejection> {
    if progress.parties == parties {
        return Ok(());
    }
    Err(rejected(RecipeRejection::PartiesMismatch { parties: progress.parties }))
}

fn not_yet_rejection(progress: BarrierProgress) -> Rejection {
    let BarrierProgress { arrived, parties, .. } = progress;
    rejected(RecipeRejection::NotYet { arrived, parties })
}
