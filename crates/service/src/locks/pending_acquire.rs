//! An acquire whose caller follows its progress: queue positions first, then the result. An acquire that only enqueues
//! returns its position: no call waits on a node, and the session keeps the place.
//!
//! Dropping a [`PendingAcquire`] disconnects the caller in the middle of the call. Bound: the call's waiter permit.

use std::fmt;
use std::time::Instant;

use futures_util::future::BoxFuture;
use holdfast_types::{Acquire, Command, EntryState, Reply, Revision};
use tokio::sync::oneshot;
use tracing::Instrument as _;

use crate::context::Response;
use crate::failure::Failure;
use crate::locks::acquire::{Granted, acquire_span};
use crate::locks::connection_hold::ConnectionHold;
use crate::locks::queue_positions::{PositionWatcher, QueuePosition};
use crate::service::Service;
use crate::waiting::WaiterPermit;

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
                    let granted = Granted::of(grants, state.revision, arrived, arrived);
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
