//! Barriers and double barriers: a call arrives or leaves with one command, and then waits.
//!
//! `apply` on this node wakes the parked call; meanwhile the node renews the caller's session. The wait ends when the
//! barrier opens or breaks, at its deadline, at a shutdown, or at a disconnect. At the deadline a command cancels the
//! arrival, unless the barrier opened first. The machine keeps the outcome under the ticket of the arrival.

use std::time::{Duration, Instant};

use futures_util::FutureExt;
use holdfast_machine::ArrivalState;
use holdfast_types::{
    Arrive, ArriveReply, Arrived, BarrierKind, CancelArrival, Command, LeaveBarrier,
    LeaveBarrierReply, Outcome, Owner, Recipe, RecipeEvent, RecipeName, RecipeRejection,
    RecipeReply, Rejection, Revision, SessionName, Tripped,
};

use super::parked::{ParkedRecipeCall, RecipeTopic};
use crate::request::{Failure, NotYet, Response, session_ended};
use crate::service::Service;
use crate::waiting::{AbandonedEntryGuard, Wait, WaitEvent, WaiterPermit, WakeUp};

/// A caller's arrival at a barrier.
#[derive(Clone, Debug)]
pub(super) struct BarrierArrival {
    barrier_kind: BarrierKind,
    name: RecipeName,
    session: SessionName,
    owner: Owner,
    arrived: Arrived,
}

impl BarrierArrival {
    /// Returns the command that cancels the arrival, unless the member has repeated it.
    pub(super) fn cancel_command(&self) -> Command {
        Command::Recipe(Recipe::CancelArrival(CancelArrival {
            barrier_kind: self.barrier_kind,
            name: self.name.clone(),
            session: self.session.clone(),
            owner: self.owner.clone(),
            requested_in: self.arrived.requested_in,
            ticket: self.arrived.ticket,
        }))
    }
}

/// The times of one wait.
#[derive(Clone, Copy)]
struct ArrivalTimes {
    began: Instant,
    until: Instant,
}

impl Service {
    /// Arrives at a barrier, or enters a double barrier, and waits for the other members.
    ///
    /// # Errors
    /// [`Failure::NotYet`] if members are missing when the wait ends; a rejection if the barrier breaks; otherwise the
    /// errors of any write.
    pub async fn arrive(&self, arrive: Arrive) -> Result<Response<Tripped>, Failure> {
        let wait = arrive.wait_ms.map_or(Duration::ZERO, Duration::from_millis);
        let permit = self.admit(wait)?;
        let began = Instant::now();
        let wait = ArrivalTimes { began, until: began + wait };
        let Arrive { barrier_kind, name, open, owner, .. } = arrive.clone();
        let session = open.session;
        let arrived = self.propose_recipe(Recipe::Arrive(arrive), RecipeReply::into_arrive).await?;
        match (arrived.value, permit) {
            (ArriveReply::Tripped(tripped), _) => Ok(Response::new(tripped, arrived.revision)),
            (ArriveReply::Arrived(arrived), Some(permit)) => {
                let place = BarrierArrival { barrier_kind, name, session, owner, arrived };
                self.wait_at_barrier(wait, place, permit).await
            }
            (ArriveReply::Arrived(_), None) => Err(Failure::UnexpectedReply),
        }
    }

    async fn wait_at_barrier(
        &self,
        wait: ArrivalTimes,
        place: BarrierArrival,
        permit: WaiterPermit,
    ) -> Result<Response<Tripped>, Failure> {
        let generation =
            Some(place.arrived.generation).filter(|_| place.barrier_kind == BarrierKind::Barrier);
        let topic = RecipeTopic::BarrierKind(place.barrier_kind, place.name.clone());
        let parked = self.observer().recipe_waiters.park(topic, generation);
        let abandoned = AbandonedEntryGuard::new(
            &self.as_node(),
            place.cancel_command(),
            None,
            wait.until,
            permit,
        );
        let result = self.wait_parked_at_barrier(wait, &place, parked).await;
        abandoned.settle(&result);
        result
    }

    async fn wait_parked_at_barrier(
        &self,
        wait: ArrivalTimes,
        place: &BarrierArrival,
        mut parked: ParkedRecipeCall,
    ) -> Result<Response<Tripped>, Failure> {
        let (session, ttl) = (place.session.clone(), place.arrived.ttl.as_duration());
        let mut parked_wait = Wait::until(self, wait.until).renewing(session, None, ttl);
        loop {
            if let Some(end) = self.applied_result(place, &parked) {
                return end;
            }
            match parked_wait.next(parked.woken()).await {
                WaitEvent::Woken(WakeUp::Event(event)) => return self.result_after(place, event),
                WaitEvent::Woken(WakeUp::Look) | WaitEvent::Renewed { .. } => {}
                WaitEvent::SessionEnded(rejection) => return Err(Failure::Rejected(rejection)),
                WaitEvent::Denied(rejection) => {
                    // The arrival is withdrawn, or the barrier opened first.
                    drop(self.cancel_arrival(wait, place, &parked).boxed().await);
                    return Err(Failure::Rejected(rejection));
                }
                WaitEvent::Deadline => {
                    return self.cancel_arrival(wait, place, &parked).boxed().await;
                }
                WaitEvent::Draining => return Err(Failure::ShuttingDown),
            }
        }
    }

    /// Returns the result, if this node has applied it, possibly before the call was parked. `None` continues the wait.
    fn applied_result(
        &self,
        place: &BarrierArrival,
        parked: &ParkedRecipeCall,
    ) -> Option<Result<Response<Tripped>, Failure>> {
        if let Some(event) = parked.event() {
            return Some(self.result_after(place, event));
        }
        let (found, revision) = self.arrival(place);
        match found {
            ArrivalState::Answered(outcome) => Some(tripped(outcome, revision)),
            ArrivalState::Waiting => None,
            // This node has not applied the arrival yet.
            ArrivalState::Gone if revision < place.arrived.requested_in => None,
            ArrivalState::Gone => Some(Err(self.without_outcome(place))),
        }
    }

    fn arrival(&self, place: &BarrierArrival) -> (ArrivalState, Revision) {
        let BarrierArrival { barrier_kind, name, session, owner, arrived } = place;
        let ticket = Revision(arrived.ticket.0);
        self.raft().read(|machine| {
            let member = (session, owner);
            (machine.arrival(*barrier_kind, name, member, ticket), machine.revision())
        })
    }

    /// Returns the failure of an arrival without an outcome: the session has ended, or another call cancelled the
    /// arrival.
    fn without_outcome(&self, place: &BarrierArrival) -> Failure {
        match self.view(&place.session) {
            Ok(_) => Failure::OutcomeUnknown,
            Err(ended) => ended,
        }
    }

    /// Returns the result after an event that ended the generation.
    fn result_after(
        &self,
        place: &BarrierArrival,
        event: RecipeEvent,
    ) -> Result<Response<Tripped>, Failure> {
        if let RecipeEvent::Broken { breach, .. } = event {
            return match self.view(&place.session) {
                Ok(_) => Err(Failure::Rejected(Rejection::Recipe(RecipeRejection::Broken(breach)))),
                Err(ended) => Err(ended),
            };
        }
        let (found, revision) = self.arrival(place);
        match found {
            ArrivalState::Answered(outcome) => tripped(outcome, revision),
            // The barrier opened for the caller, but the machine no longer has the result.
            ArrivalState::Waiting | ArrivalState::Gone => Err(self.without_outcome(place)),
        }
    }

    /// Ends the wait through the log, which decides whether the barrier opened first.
    async fn cancel_arrival(
        &self,
        wait: ArrivalTimes,
        place: &BarrierArrival,
        parked: &ParkedRecipeCall,
    ) -> Result<Response<Tripped>, Failure> {
        let cancel = place.cancel_command();
        let Response { value: reply, revision, .. } =
            match self.as_node().propose(cancel, Some).await {
                Ok(done) => done,
                Err(Failure::Rejected(rejection)) => return Err(Failure::Rejected(rejection)),
                Err(_) => return Err(Failure::OutcomeUnknown),
            };
        if let Some(tripped) = reply.into_recipe().and_then(RecipeReply::into_tripped) {
            return Ok(Response::new(tripped, revision));
        }
        if let Some(RecipeEvent::Opened { .. }) = parked.event() {
            return Err(self.without_outcome(place));
        }
        self.view(&place.session)?;
        let Arrived { arrived, parties, .. } = place.arrived;
        let (what, waited) = (NotYet::Arrivals { arrived, parties }, wait.began.elapsed());
        Err(Failure::NotYet { what, waited })
    }

    /// Leaves a barrier, which breaks the barrier. Or leaves a double barrier, and then waits until the other members
    /// have left. Returns whether the caller was inside.
    ///
    /// # Errors
    /// [`Failure::NotYet`] if other members are inside when the wait ends; the caller has left. Otherwise the errors of
    /// any write.
    pub async fn leave_barrier(
        &self,
        leave: LeaveBarrier,
        wait: Duration,
    ) -> Result<Response<bool>, Failure> {
        let began = Instant::now();
        let _permit = self.admit(wait)?;
        let (barrier_kind, name) = (leave.barrier_kind, leave.name.clone());
        let session = leave.session.clone();
        let mut parked = self
            .observer()
            .recipe_waiters
            .park(RecipeTopic::BarrierKind(BarrierKind::Double, name.clone()), None);
        let left = self
            .propose_recipe(Recipe::LeaveBarrier(leave), RecipeReply::into_leave_barrier)
            .await?;
        let Response { value: LeaveBarrierReply { leaving, changed }, revision, .. } = left;
        let (Some((round, _)), BarrierKind::Double) = (leaving, barrier_kind) else {
            return Ok(Response::new(changed, revision));
        };
        self.catch_up(revision).await.map_err(|_| Failure::OutcomeUnknown)?;
        let (id, ttl) = self
            .raft()
            .read(|machine| {
                machine.session_id(&session).ok_or_else(|| session_ended(machine, &session))
            })
            .map_err(Failure::Rejected)?;
        let wait = Wait::until(self, began + wait);
        let mut wait = wait.renewing(session, Some(id), ttl.as_duration());
        let mut is_current = false;
        loop {
            let (now, seen) =
                self.raft().read(|machine| (machine.round(&name), machine.revision()));
            let Some((_, inside)) = now.filter(|(current, _)| *current == round) else {
                return Ok(Response::new(changed, seen));
            };
            match wait.next(parked.woken()).await {
                WaitEvent::Woken(_) | WaitEvent::Renewed { .. } => {}
                // A lagging node must not report members that have left.
                WaitEvent::Deadline if !is_current => {
                    self.read_barrier().await?;
                    is_current = true;
                }
                WaitEvent::Deadline => {
                    let what = NotYet::Inside { round, inside };
                    return Err(Failure::NotYet { what, waited: began.elapsed() });
                }
                WaitEvent::SessionEnded(rejection) | WaitEvent::Denied(rejection) => {
                    return Err(Failure::Rejected(rejection));
                }
                WaitEvent::Draining => return Err(Failure::ShuttingDown),
            }
        }
    }
}

fn tripped(outcome: Outcome, revision: Revision) -> Result<Response<Tripped>, Failure> {
    let reply = outcome.map_err(Failure::Rejected)?;
    let tripped = reply.into_recipe().and_then(RecipeReply::into_tripped);
    Ok(Response::new(tripped.ok_or(Failure::UnexpectedReply)?, revision))
}
