//! An acquire under way, for a caller who wants to hear how it goes.
//!
//! Owns the order of what such a caller is told: where it stands, whenever that changes, and then once how it ended.
//! Dropping it means the same as hanging up in the middle of the call. Bounds: the seat of the call.

use std::fmt;

use futures_util::future::BoxFuture;
use tokio::sync::oneshot;

use crate::answer::{Failure, Response};
use crate::hold::ConnectionHold;
use crate::line::{Following, QueuePosition};
use crate::request::{AcquireRequest, Call};
use crate::service::Service;
use crate::waiters::Seat;

/// What a caller is told.
#[derive(Debug)]
pub enum Progress {
    /// It waits, and stands here.
    Queued(Box<QueuePosition>),
    /// It holds the lock, or does not and is no longer in the queue unless the failure says so.
    Done(Box<Result<Response, Failure>>),
}

/// See the module.
pub struct Acquiring {
    service: Service,
    call: BoxFuture<'static, Result<Response, Failure>>,
    queued: Option<oneshot::Receiver<Following>>,
    following: Option<Following>,
    /// Kept for a hold that lives as long as its connection.
    seat: Option<Seat>,
}

impl Service {
    /// Begins to take a lock. With `for_connection`, the hold is to live as long as the connection, and the request
    /// names no session.
    ///
    /// # Errors
    /// [`Failure::TooManyWaiters`] and [`Failure::ShuttingDown`], before anything is done.
    pub fn begin_acquire(
        &self,
        call: Call,
        request: AcquireRequest,
        for_connection: bool,
    ) -> Result<Acquiring, Failure> {
        if self.is_draining() {
            return Err(Failure::ShuttingDown);
        }
        let seat = for_connection.then(|| self.waiters().seat()).transpose();
        let seat = seat.map_err(|limit| Failure::TooManyWaiters { limit })?;
        let (told, queued) = oneshot::channel();
        let service = self.clone();
        let call = async move { service.acquire_told(call, request, told).await };
        let (call, queued) = (Box::pin(call), Some(queued));
        Ok(Acquiring { service: self.clone(), call, queued, following: None, seat })
    }
}

impl Acquiring {
    /// The next thing to tell; nothing after [`Progress::Done`]. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Progress {
        loop {
            tokio::select! {
                biased;
                done = &mut self.call => return Progress::Done(Box::new(done)),
                following = arrival(&mut self.queued), if self.queued.is_some() => {
                    self.queued = None;
                    self.following = following;
                }
                position = next_position(&mut self.following), if self.following.is_some() => {
                    return Progress::Queued(Box::new(position));
                }
            }
        }
    }

    /// Keeps a lock that was granted to a session of the server's making, as long as this is kept. None if the answer
    /// is no grant, or the acquire was not begun so.
    pub fn into_hold(self, granted: &Response) -> Option<ConnectionHold> {
        ConnectionHold::new(self.service, granted, self.seat?)
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

impl fmt::Debug for Acquiring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acquiring").field("following", &self.following).finish_non_exhaustive()
    }
}
