//! A queued acquire: waits on this node for its grant.
//!
//! The wait ends with the grant, the loss of the queue entry, its deadline, a shutdown or a disconnect (`waiting`). At
//! the deadline the node proposes a cancel; if the grant was committed first, the grant is the answer.

use std::time::Instant;

use futures_util::FutureExt;
use holdfast_types::{
    Cancel, Command, EntryState, Grant, LockSet, LossCause, Owner, Queued, Rejection, Reply,
    Revision, SessionName, SessionRejection, Ticket,
};
use tracing::Instrument as _;

use crate::leases::renewal::ConfirmedLease;
use crate::locks::read::WAITERS_SHOWN;
use crate::request::{Failure, Response};
use crate::service::Service;
use crate::service_call::{Renewed, SessionToRenew};
use crate::waiting::{
    AbandonedEntryGuard, Parked, QueueEvent, Wait, WaitEvent, WaiterPermit, WakeUp,
    close_session_within,
};

pub(crate) struct QueuedAcquire {
    pub(crate) arrived: Instant,
    pub(crate) confirmed: ConfirmedLease,
    /// When the wait ends.
    pub(crate) until: Instant,
    pub(crate) locks: LockSet,
    pub(crate) session: SessionName,
    pub(crate) owner: Owner,
    /// Whether the session was opened for this call.
    pub(crate) anonymous: bool,
    /// The entry in the queue of one of the locks.
    pub(crate) queued: Queued,
}

/// The state of a queue entry on this node.
enum PlaceState {
    Granted(Grant),
    Waiting,
    Gone,
}

impl QueuedAcquire {
    /// Returns the grants, their revision, and the last renewal of the session.
    pub(crate) async fn wait(
        mut self,
        service: &Service,
        permit: WaiterPermit,
    ) -> Result<(Vec<Grant>, Revision, ConfirmedLease), Failure> {
        let parked = service.observer().lock_waiters.park(self.queued.ticket);
        let anonymous = self.anonymous.then(|| self.session.clone());
        let place = AbandonedEntryGuard::new(
            &service.as_node(),
            self.cancel_command(),
            anonymous,
            self.until,
            permit,
        );
        let span =
            holdfast_trace::span!("parked", lock = %self.queued.lock, ahead = self.queued.ahead);
        let result = self.wait_parked(service, parked).instrument(span).await;
        place.settle(&result);
        result.map(|(grants, revision)| (grants, revision, self.confirmed))
    }

    async fn wait_parked(
        &mut self,
        service: &Service,
        mut parked: Parked<Ticket, QueueEvent>,
    ) -> Result<(Vec<Grant>, Revision), Failure> {
        let (session, ttl) = (self.session.clone(), self.queued.ttl.as_duration());
        let mut wait = Wait::until(service, self.until);
        if !session.is_durable() {
            wait = wait.renewing(session, Some(self.queued.session), ttl);
        }
        loop {
            match self.state(service) {
                PlaceState::Granted(grant) => {
                    return self.granted_late(service, grant).boxed().await;
                }
                PlaceState::Waiting => {}
                PlaceState::Gone => return Err(self.gone(service)),
            }
            match wait.next(parked.woken()).await {
                WaitEvent::Woken(WakeUp::Event(QueueEvent::Granted(grant))) => {
                    if self.is_answered_by(&grant) {
                        return self.granted_late(service, grant).boxed().await;
                    }
                }
                WaitEvent::Woken(WakeUp::Event(QueueEvent::Left(cause))) => {
                    return Err(self.left(service, cause));
                }
                WaitEvent::Woken(WakeUp::Look) => {}
                WaitEvent::Renewed { began, renewed } if !service.raft().cannot_catch_up() => {
                    self.confirmed = ConfirmedLease { since: began, ttl: renewed.ttl };
                }
                WaitEvent::SessionEnded(rejection) => return Err(Failure::Rejected(rejection)),
                WaitEvent::Denied(rejection) => {
                    // With the new token, the caller repeats the attempt and keeps its place. If it does not, the
                    // leader cancels the wait (`waiting/orphans.rs`).
                    if self.anonymous || !service.has_newer_token() {
                        self.leave(service).boxed().await;
                    }
                    return Err(Failure::Rejected(rejection));
                }
                WaitEvent::Deadline => return self.cancel(service).boxed().await,
                WaitEvent::Draining | WaitEvent::Renewed { .. } => {
                    return self.turn_away(service).boxed().await;
                }
            }
        }
    }

    fn state(&self, service: &Service) -> PlaceState {
        let ticket = self.queued.ticket;
        let locks = self.queued.lock.clone().into();
        let (entry, revision) = service.raft().read(|machine| {
            (
                machine.entry_state(&locks, &self.session, &self.owner, Some(ticket)),
                machine.revision(),
            )
        });
        match entry {
            // This node has not applied the acquire yet. A holder that waits for an upgrade has an older hold here.
            Some(_) | None if revision < self.queued.requested_in => PlaceState::Waiting,
            Some(EntryState::Waiting(queued)) if queued.iter().all(|q| q.ticket == ticket) => {
                PlaceState::Waiting
            }
            Some(EntryState::Holding(grants)) if grants.iter().all(|g| self.is_answered_by(g)) => {
                grants.into_iter().next().map_or(PlaceState::Gone, PlaceState::Granted)
            }
            Some(_) | None => PlaceState::Gone,
        }
    }

    /// Whether a grant is for this acquire: an upgrade has the ticket of the hold that it converts.
    fn is_answered_by(&self, grant: &Grant) -> bool {
        grant.ticket == self.queued.ticket && grant.granted_in >= self.queued.requested_in
    }

    /// Returns a grant after a wait. If no time is certainly left of the lease since the last confirmed renewal, the
    /// session is renewed first.
    async fn granted_late(
        &mut self,
        service: &Service,
        grant: Grant,
    ) -> Result<(Vec<Grant>, Revision), Failure> {
        let is_durable = self.session.is_durable();
        if !is_durable && self.confirmed.left().is_zero() {
            let since = Instant::now();
            let queue_entry = Some((grant.lock.clone(), self.owner.clone(), grant.ticket));
            let (session, id) = (self.session.clone(), Some(self.queued.session));
            let of = SessionToRenew { session, id, queue_entry };
            let Renewed { entry, ttl, .. } = match service.renew(of, service.deadline()).await {
                Ok(renewed) => renewed,
                Err(Failure::Rejected(rejection)) => return Err(Failure::Rejected(rejection)),
                Err(_) => return Err(Failure::OutcomeUnknown),
            };
            match entry.and_then(EntryState::into_single_grant) {
                Some(held) if held.ticket == grant.ticket => {}
                Some(_) | None => return Err(self.gone(service)),
            }
            self.confirmed = ConfirmedLease { since, ttl };
        }
        let revision = grant.granted_in;
        tracing::debug!(lock = %grant.lock, session = %grant.session, token = grant.token.0, "granted after a wait");
        Ok((self.all_grants(service, grant)?, revision))
    }

    /// Returns the grants of all locks. If one lock was lost since, the outcome is unknown, and the caller must repeat
    /// the acquire.
    fn all_grants(&self, service: &Service, grant: Grant) -> Result<Vec<Grant>, Failure> {
        if self.locks.single().is_some() {
            return Ok(vec![grant]);
        }
        let entry = service.raft().read(|machine| {
            let ticket = Some(grant.ticket);
            machine.entry_state(&self.locks, &self.session, &self.owner, ticket)
        });
        match entry {
            Some(EntryState::Holding(grants))
                if grants.iter().all(|held| held.ticket == grant.ticket) =>
            {
                Ok(grants)
            }
            Some(_) | None => Err(Failure::OutcomeUnknown),
        }
    }

    /// The failure of an entry that was removed without a grant.
    fn left(&self, service: &Service, cause: LossCause) -> Failure {
        let session = self.session.clone();
        match cause {
            LossCause::SessionExpired => {
                Failure::Rejected(Rejection::Session(SessionRejection::Expired { session }))
            }
            LossCause::SessionClosed => {
                Failure::Rejected(Rejection::Session(SessionRejection::Unknown { session }))
            }
            LossCause::Deleted
            | LossCause::MaxHold
            | LossCause::Revoked
            | LossCause::ForceReleased
            | LossCause::HandedOver
            | LossCause::LimitLowered => self.not_granted(service, Some(cause)),
            LossCause::Released => self.timed_out(service),
        }
    }

    /// The failure of a removed entry when this node has not seen the event with the cause.
    fn gone(&self, service: &Service) -> Failure {
        match service.view(&self.session) {
            Ok(_) => self.timed_out(service),
            Err(ended) => ended,
        }
    }

    fn timed_out(&self, service: &Service) -> Failure {
        service.metrics().timed_out.inc();
        self.not_granted(service, None)
    }

    fn not_granted(&self, service: &Service, removed: Option<LossCause>) -> Failure {
        let lock = service.raft().read(|machine| {
            service.without_hidden(machine, machine.lock(&self.queued.lock, WAITERS_SHOWN))
        });
        Failure::WaitTimeout { lock: Box::new(lock), waited: self.arrived.elapsed(), removed }
    }

    /// Ends the wait with a log entry, so the log order decides whether the grant came first. If the proposal has no
    /// answer, the caller may still be queued or hold the lock.
    async fn cancel(&self, service: &Service) -> Result<(Vec<Grant>, Revision), Failure> {
        match service.as_node().propose(self.cancel_command(), Some).await {
            Ok(Response {
                value: Reply::Acquired(EntryState::Holding(grants)), revision, ..
            }) => {
                let grant = grants.into_iter().next().ok_or(Failure::UnexpectedReply)?;
                if !self.is_answered_by(&grant) {
                    // The hold before an upgrade that was withdrawn meanwhile.
                    return Err(self.timed_out(service));
                }
                // The grant came first in the log. This node may not have applied it.
                service.catch_up(revision).await.map_err(|_| Failure::OutcomeUnknown)?;
                Ok((self.all_grants(service, grant)?, revision))
            }
            Ok(_) => Err(self.timed_out(service)),
            Err(Failure::Rejected(rejection)) => Err(Failure::Rejected(rejection)),
            Err(_) => Err(Failure::OutcomeUnknown),
        }
    }

    /// Leaves the queue for a caller that may not wait any more. A hold that was granted first ends with its session,
    /// which the caller cannot renew.
    async fn leave(&self, service: &Service) {
        let node = service.as_node();
        if self.anonymous {
            close_session_within(node, self.session.clone(), None).await;
        } else if let Err(failure) = node.propose(self.cancel_command(), Some).await {
            tracing::debug!(%failure, "cannot cancel the entry of a denied caller");
        }
    }

    /// Ends the wait because this node is shutting down, or will not see the grant because its disk is full. A caller with
    /// a named session keeps its entry and calls another node.
    async fn turn_away(&self, service: &Service) -> Result<(Vec<Grant>, Revision), Failure> {
        let failure = if service.is_draining() {
            Failure::ShuttingDown
        } else {
            Failure::Behind { disk_full: true }
        };
        if !self.anonymous {
            return Err(failure);
        }
        match self.cancel(service).await {
            Err(Failure::WaitTimeout { .. }) => Err(failure),
            other => other,
        }
    }

    /// Cancels the entry, unless the owner has repeated its acquire since.
    fn cancel_command(&self) -> Command {
        Command::Cancel(Cancel {
            lock: self.queued.lock.clone(),
            session: self.session.clone(),
            owner: self.owner.clone(),
            ticket: self.queued.ticket,
            requested_in: self.queued.requested_in,
        })
    }
}
