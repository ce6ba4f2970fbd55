//! Locks that are tried again and again until they are free.
//!
//! Owns the loop and its pauses. Refuses to know what an attempt does. A pause is drawn at random between two bounds,
//! so that waiters do not march in step.

use std::time::Duration;

use crate::deadline::random;
use crate::lock::UsageCounter;
use crate::{Deadline, Hold, LockClient, LockError, LockFuture, LockUsage};

/// The pause between two attempts: at least, and at most.
#[derive(Clone, Copy, Debug)]
pub struct Pause {
    /// The shortest.
    pub min: Duration,
    /// The longest.
    pub max: Duration,
}

impl Default for Pause {
    /// From 2 to 20 ms: quicker than what is common, so that a comparison does not measure the pause alone.
    fn default() -> Self {
        Self { min: Duration::from_millis(2), max: Duration::from_millis(20) }
    }
}

impl Pause {
    /// One pause, not longer than `patience`.
    ///
    /// # Errors
    /// [`LockError::Refused`] if the system gives no random numbers.
    pub async fn sleep(self, patience: Deadline) -> Result<(), LockError> {
        let range =
            u64::try_from(self.max.saturating_sub(self.min).as_micros()).unwrap_or(u64::MAX);
        let extra = Duration::from_micros(random()? % range.saturating_add(1));
        tokio::time::sleep((self.min + extra).min(patience.left())).await;
        Ok(())
    }
}

/// A lock that knows one attempt, and no way to wait.
pub(crate) trait Polled: Send {
    /// One attempt; none if somebody else has it.
    fn attempt<'a>(&'a mut self, lock: &'a str) -> LockFuture<'a, Option<Hold>>;
    /// Gives it back.
    fn give_back(&mut self, hold: Hold) -> LockFuture<'_, ()>;
    /// Its pause.
    fn pause(&self) -> Pause;
    /// What was done so far.
    fn counter(&self) -> &UsageCounter;
}

impl<P: Polled> LockClient for P {
    fn acquire<'a>(&'a mut self, lock: &'a str, patience: Duration) -> LockFuture<'a, Hold> {
        Box::pin(async move {
            let patience = Deadline::after(patience);
            loop {
                match self.attempt(lock).await {
                    Ok(Some(hold)) => return Ok(hold),
                    Ok(None) | Err(LockError::Busy) => {}
                    Err(trouble) => return Err(trouble),
                }
                if patience.is_past() {
                    return Err(LockError::Busy);
                }
                self.counter().poll();
                self.pause().sleep(patience).await?;
            }
        })
    }

    fn release(&mut self, hold: Hold) -> LockFuture<'_, ()> {
        self.give_back(hold)
    }

    fn usage(&self) -> LockUsage {
        self.counter().usage()
    }
}
