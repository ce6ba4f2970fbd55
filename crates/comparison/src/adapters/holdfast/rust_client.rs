//! Our lock through the Rust client: a session that is renewed, and a guard that knows its own deadline.
//!
//! Owns the guard of the present hold.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use holdfast_client::{Client, Error, Guard};

use crate::lock::UsageCounter;
use crate::{Hold, LockClient, LockError, LockFuture, LockUsage};

/// A client of this lock. Renewals in the background are not in its usage.
#[derive(Debug)]
pub struct Sdk {
    client: Client,
    guard: Option<Guard>,
    counter: UsageCounter,
}

impl Sdk {
    /// A client of these nodes, the first one first.
    ///
    /// # Errors
    /// [`LockError::Refused`] if the addresses are none.
    pub fn new(nodes: &[SocketAddr], ttl: Duration) -> Result<Self, LockError> {
        let nodes = nodes.iter().map(ToString::to_string);
        let client = Client::builder(nodes).ttl(ttl).build();
        let client = client.map_err(|error| LockError::Refused(error.to_string()))?;
        Ok(Self { client, guard: None, counter: UsageCounter::default() })
    }

    /// The guard of the present hold: it knows whether the lock is lost.
    pub fn guard(&self) -> Option<&Guard> {
        self.guard.as_ref()
    }
}

impl LockClient for Sdk {
    fn acquire<'a>(&'a mut self, lock: &'a str, patience: Duration) -> LockFuture<'a, Hold> {
        Box::pin(async move {
            self.counter.round_trip();
            let lock_to_take = self.client.lock(lock);
            let taken = if patience.is_zero() {
                lock_to_take.try_acquire().await
            } else {
                lock_to_take.wait(patience).acquire().await
            };
            let guard = taken.map_err(|error| trouble(&error))?;
            let hold = Hold::new(lock, "").fenced(guard.token().0);
            let hold = hold.for_ttl(Instant::now(), guard.remaining());
            self.guard = Some(guard);
            Ok(hold)
        })
    }

    fn release(&mut self, _hold: Hold) -> LockFuture<'_, ()> {
        Box::pin(async move {
            let Some(guard) = self.guard.take() else {
                return Err(LockError::Lost("there is no guard".to_owned()));
            };
            self.counter.round_trip();
            guard.release().await.map_err(|error| trouble(&error))
        })
    }

    fn usage(&self) -> LockUsage {
        self.counter.usage()
    }
}

fn trouble(error: &Error) -> LockError {
    let said = error.to_string();
    match error {
        Error::Busy(_) => LockError::Busy,
        Error::Lost(_) => LockError::Lost(said),
        Error::Retry(_) | Error::Unknown(_) => LockError::Unreachable(said),
        Error::Refused(_) | Error::Foreign(_) | Error::Argument(_) => LockError::Refused(said),
    }
}
