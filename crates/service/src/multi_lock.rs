//! Multi-locks: taking several locks at once, waiting for all of them, and giving them back.
//!
//! All locks of one call share a ticket and are granted in one command, so the call waits in one of the queues like a call
//! for one lock (`acquire.rs`), and then reads all of them.

use std::time::Duration;

use holdfast_types::{
    AcquireAll, AcquireAllReply, Command, Grant, LockName, Queued, ReleaseAll, Reply, StandingAll,
};

use crate::acquire::{AcquireClock, Granted};
use crate::context::{RequestContext, Response};
use crate::failure::Failure;
use crate::queued::QueuedAcquire;
use crate::service::Service;
use crate::waiting::{UnansweredSession, wait_of};

/// The caller holds all the locks that it asked for.
#[derive(Clone, Debug)]
pub struct GrantedMany {
    /// By the locks' names.
    pub grants: Vec<Grant>,
    /// From the request's arrival to this answer.
    pub waited: Duration,
    /// What is certainly left of the lease, as in [`Granted`].
    pub expires_in: Duration,
}

impl Service {
    /// Takes several locks at once, or renews the caller's holds of them. Dropping the future is a disconnect, as in
    /// [`Service::acquire`].
    ///
    /// # Errors
    /// [`Failure`] says why not, and whether anything was done.
    pub async fn acquire_many(
        &self,
        context: &RequestContext,
        mut acquire: AcquireAll,
    ) -> Result<Response<GrantedMany>, Failure> {
        let wait = wait_of(acquire.wait, acquire.wait_ms);
        let permit = self.admit(wait)?;
        let clock = AcquireClock::start(wait);
        // A lock that is named twice stays so, and is rejected.
        acquire.locks.sort();
        let (locks, open, owner) =
            (acquire.locks.clone(), acquire.open.clone(), acquire.owner.clone());
        let unanswered = UnansweredSession::new(self, &open);
        let proposed =
            self.propose_for(Command::AcquireAll(acquire), Reply::into_acquire_all).await;
        if !matches!(proposed, Err(Failure::OutcomeUnknown)) {
            unanswered.settle();
        }
        let Response { value, revision, .. } =
            proposed.inspect_err(|failure| self.count_busy(failure))?;
        let (request, session) = (&context.request_id, open.session);
        match (value, permit) {
            (AcquireAllReply::Granted(grants), _) => {
                tracing::debug!(request, %session, locks = locks.len(), "granted a multi-lock");
                self.metrics().granted.inc();
                let first = grants.first().cloned().ok_or(Failure::UnexpectedReply)?;
                Ok(clock.granted(first, revision).map(|granted| granted.with(grants)))
            }
            (AcquireAllReply::Queued(places), Some(permit)) => {
                tracing::debug!(request, %session, locks = locks.len(), "queued for a multi-lock");
                let (lock, queued) = first_busy(places).ok_or(Failure::UnexpectedReply)?;
                let (ticket, anonymous) = (queued.ticket, open.anonymous);
                let queued = QueuedAcquire {
                    clock,
                    lock,
                    session: session.clone(),
                    owner: owner.clone(),
                    anonymous,
                    queued,
                };
                let one = queued.wait(self, permit).await?;
                // If one of the locks was lost since, the caller asks again.
                match self.raft().read(|machine| machine.standing_all(&locks, &session, &owner)) {
                    Some(StandingAll::Holding(grants))
                        if grants.iter().all(|grant| grant.ticket == ticket) =>
                    {
                        Ok(one.map(|granted| granted.with(grants)))
                    }
                    Some(_) | None => Err(Failure::OutcomeUnknown),
                }
            }
            (AcquireAllReply::Queued(_), None) => Err(Failure::UnexpectedReply),
        }
    }

    /// Gives several locks back at once, or leaves their queues; returns how many places were given up.
    ///
    /// # Errors
    /// Those of any write.
    pub async fn release_many(&self, mut release: ReleaseAll) -> Result<Response<u32>, Failure> {
        release.locks.sort();
        self.propose_for(Command::ReleaseAll(release), Reply::into_released_all).await
    }
}

impl Granted {
    /// The grant of one lock as that of all of them.
    fn with(self, grants: Vec<Grant>) -> GrantedMany {
        let Self { grant: _, waited, expires_in } = self;
        GrantedMany { grants, waited, expires_in }
    }
}

/// The lock that the others wait for, if one can be told: the first that somebody holds, or that is in cooldown.
fn first_busy(places: Vec<(LockName, Queued)>) -> Option<(LockName, Queued)> {
    let taken = places.iter().position(|(_, q)| q.holder.is_some() || q.cooldown.is_some());
    places.into_iter().nth(taken.unwrap_or(0))
}
