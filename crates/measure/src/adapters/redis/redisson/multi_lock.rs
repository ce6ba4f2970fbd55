//! Redisson's multi-lock: several locks acquired one after the other, all or none in the end.
//!
//! The acquire is not atomic: other clients see some of the locks held. Two clients with the same locks in different
//! orders block each other until a timeout.

use std::time::Duration;

use super::RedissonLock;
use crate::lock::{Adapter, HeldLock, LockError};
use crate::wait::Deadline;

/// A client for each of several locks, on one Redis or on many.
#[derive(Debug)]
pub struct RedissonMultiLock {
    locks: Vec<(RedissonLock, String)>,
}

impl RedissonMultiLock {
    /// Creates a client for these locks, in this order.
    pub fn new(locks: Vec<(RedissonLock, String)>) -> Self {
        Self { locks }
    }

    /// Acquires all locks or none.
    ///
    /// # Errors
    /// The error of the first lock that was not acquired, after the release of the others.
    pub async fn acquire(&mut self, timeout: Duration) -> Result<Vec<HeldLock>, LockError> {
        let (deadline, mut held) = (Deadline::after(timeout), Vec::new());
        for (client, lock) in &mut self.locks {
            match client.acquire(lock, deadline.remaining()).await {
                Ok(one) => held.push(one),
                Err(error) => {
                    // An unreleased lock expires.
                    drop(self.release(held).await);
                    return Err(error);
                }
            }
        }
        Ok(held)
    }

    /// Releases all locks, also after an error.
    ///
    /// # Errors
    /// The last error.
    pub async fn release(&mut self, held: Vec<HeldLock>) -> Result<(), LockError> {
        let mut released = Ok(());
        for ((client, _), one) in self.locks.iter_mut().zip(held) {
            released = client.release(one).await.and(released);
        }
        released
    }
}
