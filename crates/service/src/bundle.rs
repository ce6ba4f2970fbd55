//! Taking several locks at once, waiting for all of them, and giving them back.
//!
//! Owns that a caller who asked for several has one answer. All members stand under one ticket and are granted in one
//! command, so that the call waits at one of them like a call for one lock (`acquire.rs`), and then looks at all. Refuses
//! to know how they are granted.

use holdfast_types::{
    AcquireAll, Attempt, Command, Grant, LockName, OpenSession, Owner, Queued, ReleaseAll, Reply,
    Revision, SessionName, StandingAll, Ticket,
};

use crate::acquire::{AcquireCall, Place, server_made_name};
use crate::answer::{Answer, Failure, Response};
use crate::departure::Orphan;
use crate::request::{AcquireAllRequest, Call};
use crate::service::{Service, respond};

impl Service {
    pub(crate) async fn acquire_all(
        &self,
        call: Call,
        request: AcquireAllRequest,
    ) -> Result<Response, Failure> {
        let attempt = AcquireCall::begin(request.wait);
        let seat = self.admit(request.wait)?;
        let all = command(request, seat.is_some())?;
        let (locks, open, owner) = (all.locks.clone(), all.open.clone(), all.owner.clone());
        let orphan = Orphan::of(self.clone(), &open);
        let proposed = self.propose(Command::AcquireAll(all)).await;
        if !matches!(proposed, Err(Failure::OutcomeUnknown)) {
            orphan.settle();
        }
        let (outcome, revision) = proposed?;
        let session = open.session;
        match (outcome, seat) {
            (Ok(Reply::GrantedAll(grants)), _) => {
                tracing::debug!(request = call.request_id, %session, locks = locks.len(), "granted all");
                self.metrics().granted.inc();
                granted(&attempt, grants, revision)
            }
            (Ok(Reply::QueuedAll(places)), Some(seat)) => {
                tracing::debug!(request = call.request_id, %session, locks = locks.len(), "queued for all");
                let (lock, queued) = in_the_way(places).ok_or(Failure::OutcomeUnknown)?;
                let (ticket, anonymous) = (queued.ticket, open.anonymous);
                let (session, owner) = (session.clone(), owner.clone());
                let place = Place {
                    lock,
                    session: session.clone(),
                    owner: owner.clone(),
                    anonymous,
                    queued,
                };
                let one = self.wait(attempt, place, seat).await?;
                self.all_of(&one, ticket, &locks, (&session, &owner))
            }
            (Err(rejection), _) => {
                self.count_busy(&rejection);
                Err(Failure::Rejected(rejection))
            }
            (Ok(_), _) => Err(Failure::OutcomeUnknown),
        }
    }

    /// The answer about one member as one about all of them. If one was lost since, the caller asks again.
    fn all_of(
        &self,
        one: &Response,
        ticket: Ticket,
        locks: &[LockName],
        (session, owner): (&SessionName, &Owner),
    ) -> Result<Response, Failure> {
        let Answer::Granted { waited, expires_in, .. } = &one.reply else {
            return Err(Failure::OutcomeUnknown);
        };
        match self.raft().read(|machine| machine.standing_all(locks, session, owner)) {
            Some(StandingAll::Holding(grants)) if grants.iter().all(|g| g.ticket == ticket) => {
                let (waited, expires_in) = (*waited, *expires_in);
                Ok(respond(Answer::GrantedAll { grants, waited, expires_in }, one.revision))
            }
            Some(_) | None => Err(Failure::OutcomeUnknown),
        }
    }

    pub(crate) async fn release_all(
        &self,
        locks: Vec<LockName>,
        session: SessionName,
        owner: Option<Owner>,
        attempt: Option<Attempt>,
    ) -> Result<Response, Failure> {
        let (locks, owner) = (sorted(locks), owner.unwrap_or_else(Owner::unnamed));
        let release = ReleaseAll { locks, session, owner, attempt };
        let (outcome, revision) = self.propose(Command::ReleaseAll(release)).await?;
        match outcome {
            Ok(Reply::ReleasedAll { changed }) => {
                Ok(respond(Answer::ReleasedAll { changed }, revision))
            }
            Ok(_) => Err(Failure::OutcomeUnknown),
            Err(rejection) => Err(Failure::Rejected(rejection)),
        }
    }
}

/// A grant of all, without a wait.
fn granted(
    attempt: &AcquireCall,
    grants: Vec<Grant>,
    revision: Revision,
) -> Result<Response, Failure> {
    let first = grants.first().cloned().ok_or(Failure::OutcomeUnknown)?;
    let Answer::Granted { waited, expires_in, .. } = attempt.answer(first, revision).reply else {
        return Err(Failure::OutcomeUnknown);
    };
    Ok(respond(Answer::GrantedAll { grants, waited, expires_in }, revision))
}

/// The member that the others wait for, if one can be told: the first that is held by somebody, or closed.
fn in_the_way(places: Vec<(LockName, Queued)>) -> Option<(LockName, Queued)> {
    let taken = places.iter().position(|(_, q)| q.holder.is_some() || q.closed.is_some());
    places.into_iter().nth(taken.unwrap_or(0))
}

fn command(request: AcquireAllRequest, wait: bool) -> Result<AcquireAll, Failure> {
    let AcquireAllRequest {
        locks,
        session,
        owner,
        attempt,
        ttl,
        wait: longest,
        labels,
        mode,
        max_hold,
    } = request;
    let anonymous = session.is_none();
    let session = match session {
        Some(session) => session,
        None => server_made_name()?,
    };
    Ok(AcquireAll {
        locks: sorted(locks),
        open: OpenSession { session, ttl, anonymous, labels, password: None },
        owner: owner.unwrap_or_else(Owner::unnamed),
        wait,
        wait_ms: wait.then(|| holdfast_types::millis(longest)),
        mode: mode.unwrap_or_default(),
        max_hold_ms: max_hold.map(holdfast_types::millis),
        attempt,
    })
}

/// Sorted. One that is named twice stays so, and is refused.
fn sorted(mut locks: Vec<LockName>) -> Vec<LockName> {
    locks.sort();
    locks
}
