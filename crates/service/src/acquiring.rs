//! An acquire under way, for a caller who wants to hear how it goes.
//!
//! Owns the order of what such a caller is told: where it stands, whenever that changes, and then once how it ended.
//! Dropping it means the same as hanging up in the middle of the call. Bounds: the seat of the call.

use std::fmt;

use futures_util::future::BoxFuture;
use holdfast_types::Acquire;
use tokio::sync::oneshot;

use crate::acquire::Granted;
use crate::context::{RequestContext, Response};
use crate::failure::Failure;
use crate::hold::ConnectionHold;
use crate::line::{Following, QueuePosition};
use crate::service::Service;
use crate::waiting::WaiterPermit;

/// What a caller is told.
#[derive(Debug)]
pub enum AcquireProgress {
    /// It waits, and stands here.
    Queued(Box<QueuePosition>),
    /// It holds the lock, or does not and is no longer in the queue unless the failure says so.
    Done(Box<Result<Response<Granted>, Failure>>),
}

/// See the module.
pub struct PendingAcquire {
    service: Service,
    call: BoxFuture<'static, Result<Response<Granted>, Failure>>,
    queued: Option<oneshot::Receiver<Following>>,
    following: Option<Following>,
    /// Kept for a hold that lives as long as its connection.
    permit: Option<WaiterPermit>,
}

impl Service {
    /// Begins to take a lock. With `for_connection`, the hold is to live as long as the connection, and the session of
    /// the acquire is anonymous.
    ///
    /// # Errors
    /// [`Failure::TooManyWaiters`] and [`Failure::ShuttingDown`], before anything is done.
    pub fn begin_acquire(
        &self,
        context: RequestContext,
        acquire: Acquire,
        for_connection: bool,
    ) -> Result<PendingAcquire, Failure> {
        if self.is_draining() {
            return Err(Failure::ShuttingDown);
        }
        let permit = for_connection.then(|| self.waiter_permits().take()).transpose()?;
        let (told, queued) = oneshot::channel();
        let service = self.clone();
        let call = async move { service.acquire_for(&context, acquire, Some(told)).await };
        let (call, queued) = (Box::pin(call), Some(queued));
        Ok(PendingAcquire { service: self.clone(), call, queued, following: None, permit })
    }
}

impl PendingAcquire {
    /// The next thing to tell; nothing after [`AcquireProgress::Done`]. Dropping the future loses nothing.
    pub async fn next(&mut self) -> AcquireProgress {
        loop {
            tokio::select! {
                biased;
                done = &mut self.call => return AcquireProgress::Done(Box::new(done)),
                following = arrival(&mut self.queued), if self.queued.is_some() => {
                    self.queued = None;
                    self.following = following;
                }
                position = next_position(&mut self.following), if self.following.is_some() => {
                    return AcquireProgress::Queued(Box::new(position));
                }
            }
        }
    }

    /// Keeps a lock that was granted to an anonymous session, as long as this is kept. `None` unless the acquire was
    /// begun with `for_connection`.
    pub fn into_hold(self, granted: &Granted) -> Option<ConnectionHold> {
        Some(ConnectionHold::new(self.service, granted, self.permit?))
    }
}

async fn arrival(queued: &mut Option<oneshot::Receiver<Following>>) -> Option<Following> {
    match queued {
        Some(queued) => queued.await.ok(),
        None => std::future::pending().await,
    }
}

async fn next_position(following: &mut Option<Following>) -> QueuePosition {
    match following {
        Some(following) => following.next().await,
        None => std::future::pending().await,
    }
}

impl fmt::Debug for PendingAcquire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingAcquire").field("following", &self.following).finish_non_exhaustive()
    }
}
