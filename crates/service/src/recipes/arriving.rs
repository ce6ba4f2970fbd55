//! Arriving at a barrier, or entering a double barrier: one command, and then a wait.
//!
//! The call is parked on this node and woken by its own apply; meanwhile the node renews the caller's session. The wait
//! ends when the barrier opens or breaks, with its deadline (a command: if the barrier opened before it, that is the
//! answer), with a shutdown, or with the caller hanging up. Every arrival has a request id, made here if the caller gave
//! none, so that the machine remembers how it ended.

use std::time::Instant;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use holdfast_machine::Arrival;
use holdfast_types::{
    Arrive, Arrived, Gate, GiveUp, OpenSession, Outcome, Owner, Passed, Recipe, RecipeEvent,
    RecipeName, RecipeRejection, RecipeReply, Rejection, Reply, RequestId, Revision, SessionName,
};
use tokio::time::MissedTickBehavior;

use super::departing::Departing;
use super::parked::{Parked, Topic, Woken};
use super::{ArriveRequest, NotYet, RecipeAnswer};
use crate::answer::{Answer, Failure, Response};
use crate::service::{Service, respond};
use crate::waiters::Seat;

/// A caller's place, as long as the call lives.
#[derive(Clone, Debug)]
pub(super) struct Place {
    gate: Gate,
    name: RecipeName,
    session: SessionName,
    owner: Owner,
    request: Option<RequestId>,
    arrived: Arrived,
}

impl Place {
    /// The command that ends the wait, unless the same member has asked again since.
    pub(super) fn give_up(&self) -> Recipe {
        Recipe::GiveUp(GiveUp {
            gate: self.gate,
            name: self.name.clone(),
            session: self.session.clone(),
            owner: self.owner.clone(),
            asked: self.arrived.asked,
            request: self.request.clone(),
        })
    }
}

/// One wait.
#[derive(Clone, Copy)]
struct Attempt {
    began: Instant,
    until: Instant,
}

impl Service {
    pub(super) async fn arrive(&self, request: ArriveRequest) -> Result<Response, Failure> {
        let began = Instant::now();
        let attempt = Attempt { began, until: began + request.wait };
        let seat = self.seat_for(request.wait)?;
        let arrive = command(request)?;
        let Arrive { gate, name, open, owner, request, .. } = arrive.clone();
        let session = open.session;
        let (reply, revision) = self.propose_recipe(Recipe::Arrive(arrive)).await?;
        match (reply, seat) {
            (RecipeReply::Passed(passed), _) => Ok(answer(passed, revision)),
            (RecipeReply::Arrived(arrived), Some(seat)) => {
                let place = Place { gate, name, session, owner, request, arrived };
                self.gather(attempt, place, seat).await
            }
            (_, _) => Err(Failure::OutcomeUnknown),
        }
    }

    async fn gather(
        &self,
        attempt: Attempt,
        place: Place,
        seat: Seat,
    ) -> Result<Response, Failure> {
        let generation = Some(place.arrived.generation).filter(|_| place.gate == Gate::Barrier);
        let topic = Topic::Gate(place.gate, place.name.clone());
        let parked = self.gatherers().park(topic, generation);
        let departing = Departing::of(self.clone(), place.clone(), seat, attempt.until);
        let result = self.gather_parked(attempt, &place, parked).await;
        if matches!(result, Ok(_) | Err(Failure::Rejected(_) | Failure::NotYet { .. })) {
            departing.settle();
        }
        result
    }

    async fn gather_parked(
        &self,
        attempt: Attempt,
        place: &Place,
        mut parked: Parked,
    ) -> Result<Response, Failure> {
        let third = place.arrived.ttl.as_duration() / 3;
        let mut renewals = tokio::time::interval_at(tokio::time::Instant::now() + third, third);
        renewals.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let until = tokio::time::sleep_until(attempt.until.into());
        tokio::pin!(until);
        let mut renewal: Option<BoxFuture<'_, Result<(), Failure>>> = None;
        loop {
            if let Some(end) = self.look_at(place, &parked) {
                return end;
            }
            tokio::select! {
                woken = parked.woken() => if let Woken::Over(event) = woken {
                    return self.over(place, event);
                },
                () = &mut until => return self.stop_gathering(attempt, place, &parked).await,
                () = self.draining().cancelled() => return Err(Failure::ShuttingDown),
                _ = renewals.tick(), if renewal.is_none() => {
                    renewal = Some(self.renew_gathering(place).boxed());
                }
                renewed = poll(&mut renewal), if renewal.is_some() => {
                    renewal = None;
                    renewed?;
                }
            }
        }
    }

    /// The state as this node has it; the end may have come before the caller was parked. None goes on waiting.
    fn look_at(&self, place: &Place, parked: &Parked) -> Option<Result<Response, Failure>> {
        if let Some(event) = parked.over() {
            return Some(self.over(place, event));
        }
        let Place { gate, name, session, owner, request, arrived } = place;
        let ticket = Revision(arrived.ticket.0);
        let (found, revision) = self.raft().read(|machine| {
            let who = (session, owner);
            (machine.arrival(*gate, name, who, ticket, request.as_ref()), machine.revision())
        });
        match found {
            Arrival::Answered(outcome) => Some(told(outcome, revision)),
            Arrival::Waiting => None,
            // This node has not applied the arrival yet.
            Arrival::Gone if revision < arrived.asked => None,
            Arrival::Gone => Some(Err(self.forgotten(place))),
        }
    }

    /// The place is gone, and how is no longer known: because the session has ended, or was given up by another call.
    fn forgotten(&self, place: &Place) -> Failure {
        match self.view(&place.session) {
            Ok(_) => Failure::OutcomeUnknown,
            Err(ended) => ended,
        }
    }

    /// The generation ended; the caller's place in it is known from the order of tickets at the time.
    fn over(&self, place: &Place, event: RecipeEvent) -> Result<Response, Failure> {
        let Place { gate, name, session, owner, request, arrived } = place;
        if let RecipeEvent::Broken { breach, .. } = event {
            return match self.view(session) {
                Ok(_) => Err(Failure::Rejected(Rejection::Recipe(RecipeRejection::Broken(breach)))),
                Err(ended) => Err(ended),
            };
        }
        let ticket = Revision(arrived.ticket.0);
        let (found, revision) = self.raft().read(|machine| {
            let who = (session, owner);
            (machine.arrival(*gate, name, who, ticket, request.as_ref()), machine.revision())
        });
        match found {
            Arrival::Answered(outcome) => told(outcome, revision),
            // It opened for the caller, but whatever was remembered of it is forgotten.
            Arrival::Waiting | Arrival::Gone => Err(self.forgotten(place)),
        }
    }

    async fn renew_gathering(&self, place: &Place) -> Result<(), Failure> {
        match self.renew(&place.session, None, self.deadline()).await {
            Err(Failure::Rejected(rejection)) => Err(Failure::Rejected(rejection)),
            // No leader just now: the place is safe, because nobody can expire the session either.
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// The wait is over; the log says whether the barrier opened first.
    async fn stop_gathering(
        &self,
        attempt: Attempt,
        place: &Place,
        parked: &Parked,
    ) -> Result<Response, Failure> {
        let proposed = self.propose_recipe(place.give_up()).await;
        let (reply, revision) = match proposed {
            Ok(done) => done,
            Err(Failure::Rejected(rejection)) => return Err(Failure::Rejected(rejection)),
            Err(_) => return Err(Failure::OutcomeUnknown),
        };
        if let RecipeReply::Passed(passed) = reply {
            return Ok(answer(passed, revision));
        }
        if let Some(RecipeEvent::Opened { .. }) = parked.over() {
            return Err(self.forgotten(place));
        }
        self.view(&place.session)?;
        let Arrived { arrived, parties, .. } = place.arrived;
        let (what, waited) = (NotYet::Arrivals { arrived, parties }, attempt.began.elapsed());
        Err(Failure::NotYet { what, waited })
    }
}

fn answer(passed: Passed, revision: Revision) -> Response {
    respond(Answer::Recipe(RecipeAnswer::Passed(passed)), revision)
}

fn told(outcome: Outcome, revision: Revision) -> Result<Response, Failure> {
    match outcome {
        Ok(Reply::Recipe(RecipeReply::Passed(passed))) => Ok(answer(passed, revision)),
        Ok(_) => Err(Failure::OutcomeUnknown),
        Err(rejection) => Err(Failure::Rejected(rejection)),
    }
}

fn command(request: ArriveRequest) -> Result<Arrive, Failure> {
    let ArriveRequest { gate, name, parties, session, owner, request, ttl, wait, labels } = request;
    let request = match request {
        Some(request) => request,
        None => made_request()?,
    };
    let wait_ms = Some(wait).filter(|wait| !wait.is_zero()).map(holdfast_types::millis);
    let open = OpenSession { session, ttl, anonymous: false, labels, password: None };
    let (owner, request) = (owner.unwrap_or_else(Owner::unnamed), Some(request));
    Ok(Arrive { gate, name, parties, open, owner, request, wait_ms })
}

/// A request id nobody has: 128 random bits.
fn made_request() -> Result<RequestId, Failure> {
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes).map_err(|error| Failure::Failed(error.to_string()))?;
    let id = format!("r-{:032x}", u128::from_le_bytes(bytes));
    RequestId::new(id).map_err(|error| Failure::Failed(error.to_string()))
}

/// Waits for the renewal under way.
async fn poll<T>(renewal: &mut Option<BoxFuture<'_, T>>) -> T {
    match renewal {
        Some(renewal) => renewal.await,
        None => std::future::pending().await,
    }
}
