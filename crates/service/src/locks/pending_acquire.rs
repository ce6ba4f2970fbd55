//! An acquire whose caller follows its progress: queue positions first, then the result. An acquire that only enqueues
//! returns its position: no call waits on a node, and the session keeps the place. Dropping a [`PendingAcquire`] disconnects the
//! caller in the middle of the call.
//!
//! A [`ConnectionHold`] lasts as long as the connection of that caller. The node renews its session, and closes it when the
//! connection ends. If no quorum has confirmed a renewal for a whole TTL, the hold counts as lost, because another client may get
//! the lock. Bound: one waiter permit, from the call until the session of the hold is closed.

use std::fmt;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use holdfast_types::{
    Acquire, Command, EntryState, Grant, LossCause, Rejection, Reply, Revision, SessionRejection,
    Ticket,
};
use tokio::sync::oneshot;
use tracing::Instrument as _;

use crate::leases::renewal::ConfirmedLease;
use crate::locks::acquire::{Granted, acquire_span};
use crate::locks::queue_positions::{PositionWatcher, QueuePosition};
use crate::request::{Failure, Response};
use crate::service::Service;
use crate::waiting::{
    Parked, QueueEvent, Wait, WaitEvent, WaiterPermit, WakeUp, close_session_within,
};

/// A grant between the acquire and the read of its position makes a second acquire return that grant.
const TRIES: u32 = 3;

#[derive(Debug)]
pub enum AcquireProgress {
    /// The caller waits at this position.
    Queued(Box<QueuePosition>),
    /// The result. After a failure the caller is not in the queue, unless the failure states otherwise.
    Done(Box<Result<Response<Granted>, Failure>>),
}

pub struct PendingAcquire {
    service: Service,
    call: BoxFuture<'static, Result<Response<Granted>, Failure>>,
    queued: Option<oneshot::Receiver<PositionWatcher>>,
    watcher: Option<PositionWatcher>,
    /// Kept for the hold of a connection.
    permit: Option<WaiterPermit>,
}

impl Service {
    /// Begins an acquire. With `for_connection`, the hold will last as long as the connection, and the session of the
    /// acquire is anonymous.
    ///
    /// # Errors
    /// [`Failure::TooManyWaiters`] and [`Failure::ShuttingDown`], before anything is done.
    pub fn begin_acquire(
        &self,
        acquire: Acquire,
        for_connection: bool,
    ) -> Result<PendingAcquire, Failure> {
        if self.is_draining() {
            return Err(Failure::ShuttingDown);
        }
        let permit = for_connection.then(|| self.observer().waiter_permits.take()).transpose()?;
        let (report_queued, queued) = oneshot::channel();
        let service = self.clone();
        let span = acquire_span(&acquire);
        let call = async move { service.acquire_for(acquire, Some(report_queued)).await };
        let (call, queued) = (Box::pin(call.instrument(span)), Some(queued));
        Ok(PendingAcquire { service: self.clone(), call, queued, watcher: None, permit })
    }

    /// Acquires a lock, or adds the caller to its queue. A waiter stays there until its grant, its release, the end of its
    /// wait, or the end of its session.
    ///
    /// # Errors
    /// The errors of any write; [`Failure::OutcomeUnknown`] also if the caller leaves the queue meanwhile.
    pub async fn enqueue(&self, acquire: Acquire) -> Result<AcquireProgress, Failure> {
        if self.raft().cannot_catch_up() {
            return Err(Failure::Behind { disk_full: true });
        }
        for _ in 0..TRIES {
            let arrived = Instant::now();
            let command = Command::Acquire(acquire.clone());
            let proposed = self.propose(command, Reply::into_entry_state).await;
            let state = proposed.inspect_err(|failure| self.count_busy(failure))?;
            let queued = match state.value {
                EntryState::Waiting(queued) => queued.into_iter().next(),
                EntryState::Holding(grants) => {
                    self.metrics().granted.inc();
                    let granted = Granted::now(grants, state.revision, arrived);
                    return Ok(AcquireProgress::Done(Box::new(granted)));
                }
            };
            let queued = queued.ok_or(Failure::UnexpectedReply)?;
            let (session, owner) = (acquire.open.session.clone(), acquire.owner.clone());
            // Without its entry, this node cannot tell the place. The call sent again, maybe to another node, returns it.
            let queued_in = Revision(queued.ticket.0);
            self.catch_up(queued_in).await.map_err(|_| Failure::OutcomeUnknown)?;
            let watcher = self.watch_position(&queued.lock, queued.ticket, session, owner);
            if let Some(position) = watcher.now().await {
                return Ok(AcquireProgress::Queued(Box::new(position)));
            }
        }
        Err(Failure::OutcomeUnknown)
    }
}

impl PendingAcquire {
    /// Returns the next progress; do not call it after [`AcquireProgress::Done`]. Dropping the future loses no
    /// progress.
    pub async fn next(&mut self) -> AcquireProgress {
        loop {
            tokio::select! {
                biased;
                done = &mut self.call => return AcquireProgress::Done(Box::new(done)),
                watcher = arrival(&mut self.queued), if self.queued.is_some() => {
                    self.queued = None;
                    self.watcher = watcher;
                }
                position = next_position(&mut self.watcher), if self.watcher.is_some() => {
                    return AcquireProgress::Queued(Box::new(position));
                }
            }
        }
    }

    /// Turns the grant into the hold of a connection. `None` without `for_connection`.
    pub fn into_hold(self, granted: &Granted) -> Option<ConnectionHold> {
        Some(ConnectionHold::new(self.service, granted, self.permit?))
    }
}

async fn arrival(
    queued: &mut Option<oneshot::Receiver<PositionWatcher>>,
) -> Option<PositionWatcher> {
    match queued {
        Some(queued) => queued.await.ok(),
        None => std::future::pending().await,
    }
}

async fn next_position(watcher: &mut Option<PositionWatcher>) -> QueuePosition {
    match watcher {
        Some(watcher) => watcher.next().await,
        None => std::future::pending().await,
    }
}

impl fmt::Debug for PendingAcquire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingAcquire").field("watcher", &self.watcher).finish_non_exhaustive()
    }
}

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
    fn new(service: Service, granted: &Granted, permit: WaiterPermit) -> Self {
        let grant = granted.grant.clone();
        let parked = service.observer().lock_waiters.park(grant.ticket);
        let wait = Wait::until(&service, Instant::now() + granted.expires_in)
            .renewing(grant.session.clone(), None, grant.ttl.as_duration())
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
                    let confirmed = ConfirmedLease { since: began, ttl: renewed.ttl };
                    let held = renewed.entry.and_then(EntryState::into_single_grant);
                    if held.is_some_and(|held| held.token == self.grant.token) {
                        self.wait.extend_to(confirmed.until());
                        return HoldEvent::Renewed { expires_in: confirmed.left() };
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
