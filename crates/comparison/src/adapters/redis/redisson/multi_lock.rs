//! Redisson's multi-lock: several locks, one after the other, all or none in the end.
//!
//! Owns the order and the giving back. Not in one step: others see some of them taken, and two that take the same in
//! another order stand in each other's way until the patience of one ends.

use std::time::Duration;

use super::Redisson;
use crate::{Deadline, Hold, LockClient, LockError};

/// A client for each of several locks, on one Redis or on many.
#[derive(Debug)]
pub struct MultiLock {
    members: Vec<(Redisson, String)>,
}

impl MultiLock {
    /// These locks, in this order.
    pub fn new(members: Vec<(Redisson, String)>) -> Self {
        Self { members }
    }

    /// Takes all of them, or none.
    ///
    /// # Errors
    /// Of the first that could not be taken, after the others were given back.
    pub async fn acquire(&mut self, patience: Duration) -> Result<Vec<Hold>, LockError> {
        let (patience, mut holds) = (Deadline::after(patience), Vec::new());
        for (client, lock) in &mut self.members {
            match client.acquire(lock, patience.left()).await {
                Ok(hold) => holds.push(hold),
                Err(trouble) => {
                    // What stands in the way is told; what cannot be given back ends by itself.
                    drop(self.release(holds).await);
                    return Err(trouble);
                }
            }
        }
        Ok(holds)
    }

    /// Gives all of them back, whatever becomes of the others.
    ///
    /// # Errors
    /// The last of those that went wrong.
    pub async fn release(&mut self, holds: Vec<Hold>) -> Result<(), LockError> {
        let mut released = Ok(());
        for ((client, _), hold) in self.members.iter_mut().zip(holds) {
            released = client.release(hold).await.and(released);
        }
        released
    }
}
