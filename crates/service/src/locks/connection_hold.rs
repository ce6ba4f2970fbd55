//! A hold that lasts as long as a connection.
//!
//! The node renews the hold's session and closes it as soon as the connection ends. If no quorum has confirmed a
//! renewal for a whole TTL, the hold counts as lost, because another client may get the lock.
//!
//! Bound: each hold keeps a waiter permit until its session is closed.

use std::fmt;
use std::time::{Duration, Instant};

use holdfast_types::{EntryState, Grant, LossCause, Rejection, SessionRejection, Ticket};

use crate::failure::Failure;
use crate::locks::acquire::Granted;
use crate::service::Service;
use crate::waiting::{
    Parked, QueueEvent, Wait, WaitEvent, WaiterPermit, WakeUp, close_session_within,
};

/// How long a draining node tries to close the session.
const DRAIN_CLOSE_TIMEOUT: Duration = Duration::from_secs(3);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldEnd {
    /// The hold ended in the log.
    Lost(LossCause),
    /// No quorum has confirmed a renewal for a whole TTL: the hold may be lost.
    Unconfirmed,
    /// The caller's access token was deleted or has expired, and the node releases the lock.
    Denied,
    /// The node is shutting down and releases the lock.
    ShuttingDown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldEvent {
    /// A quorum has confirmed a renewal.
    Renewed {
        /// The guaranteed remaining time of the lease.
        expires_in: Duration,
    },
    Over(HoldEnd),
}

/// A lock held for a connection. Dropping it releases the lock.
pub struct ConnectionHold {
    service: Service,
    grant: Grant,
    parked: Parked<Ticket, QueueEvent>,
    /// The deadline is the end of the confirmed lease.
    wait: Wait,
    permit: Option<WaiterPermit>,
}

impl ConnectionHold {
    pub(crate) fn new(service: Service, granted: &Granted, permit: WaiterPermit) -> Self {
        let grant = granted.grant.clone();
        let parked = service.observer().lock_waiters.park(grant.ticket);
        let wait = Wait::until(&service, Instant::now() + granted.expires_in)
            .renewing(grant.session.clone(), grant.ttl.as_duration())
            .asking_about(grant.lock.clone(), grant.owner.clone(), grant.ticket);
        Self { service, grant, parked, wait, permit: Some(permit) }
    }

    /// Returns the next event; the end is repeated. Dropping the future loses no event.
    pub async fn next(&mut self) -> HoldEvent {
        if let Some(end) = self.applied_end() {
            return HoldEvent::Over(end);
        }
        loop {
            match self.wait.next(self.parked.woken()).await {
                WaitEvent::Woken(WakeUp::Event(QueueEvent::Left(cause))) => {
                    return HoldEvent::Over(HoldEnd::Lost(cause));
                }
                WaitEvent::Woken(WakeUp::Event(QueueEvent::Granted(_))) => {}
                WaitEvent::Woken(WakeUp::Look) => {
                    if let Some(end) = self.applied_end() {
                        return HoldEvent::Over(end);
                    }
                }
                WaitEvent::Renewed { began, renewed } => {
                    let held = renewed.entry.and_then(EntryState::into_single_grant);
                    if held.is_some_and(|held| held.token == self.grant.token) {
                        return self.renewed(began);
                    }
                    // The hold has ended. The event of this node's `apply` has the cause.
                }
                WaitEvent::SessionEnded(Rejection::Session(SessionRejection::Expired {
                    ..
                })) => {
                    return HoldEvent::Over(HoldEnd::Lost(LossCause::SessionExpired));
                }
                WaitEvent::SessionEnded(_) => {
                    return HoldEvent::Over(HoldEnd::Lost(LossCause::SessionClosed));
                }
                WaitEvent::Denied(_) => return HoldEvent::Over(HoldEnd::Denied),
                WaitEvent::Deadline => return HoldEvent::Over(HoldEnd::Unconfirmed),
                WaitEvent::Draining => return HoldEvent::Over(HoldEnd::ShuttingDown),
            }
        }
    }

    fn renewed(&mut self, began: Instant) -> HoldEvent {
        let ttl = self.grant.ttl.as_duration();
        self.wait.extend_to(began + ttl);
        HoldEvent::Renewed { expires_in: ttl.saturating_sub(began.elapsed()) }
    }

    /// Returns the end of the hold, if this node has applied it.
    fn applied_end(&self) -> Option<HoldEnd> {
        let Grant { lock, session, owner, ticket, token, granted_in, .. } = &self.grant;
        let locks = lock.clone().into();
        let (entry, revision) = self.service.raft().read(|machine| {
            (machine.entry_state(&locks, session, owner, Some(*ticket)), machine.revision())
        });
        match entry.and_then(EntryState::into_single_grant) {
            Some(held) if held.token == *token => None,
            // This node has not applied the grant yet.
            Some(_) | None if revision < *granted_in => None,
            Some(_) | None => Some(HoldEnd::Lost(match self.service.view(session) {
                Err(Failure::Rejected(Rejection::Session(SessionRejection::Expired {
                    ..
                }))) => LossCause::SessionExpired,
                Ok(_) => LossCause::Released,
                Err(_) => LossCause::SessionClosed,
            })),
        }
    }
}

impl Drop for ConnectionHold {
    fn drop(&mut self) {
        let (service, session) = (self.service.as_node(), self.grant.session.clone());
        let permit = self.permit.take();
        tokio::spawn(async move {
            let hurry = service.is_draining().then_some(DRAIN_CLOSE_TIMEOUT);
            close_session_within(service, session, hurry).await;
            drop(permit);
        });
    }
}

impl fmt::Debug for ConnectionHold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionHold").field("grant", &self.grant).finish_non_exhaustive()
    }
}
