//! A table of locks: a unique name, an owner, and when it ends by the server's clock.
//!
//! Owns the insert, the taking over of what has ended, and the delete. Whoever waits asks again and again.

use std::time::Instant;

use super::{Door, Settings, Value};
use crate::lock::UsageCounter;
use crate::poll::Polled;
use crate::{Hold, Limitation, LockError, LockFuture, Pause, nonce};

/// How often a delete is tried that is the victim of a deadlock.
const TRIES: usize = 5;

/// A client of this lock.
#[derive(Debug)]
pub struct LockTable {
    door: Door,
    settings: Settings,
    owner: String,
}

impl LockTable {
    pub(crate) const LIMITATIONS: &[Limitation] = &[
        Limitation::ExpiresUnderHolder,
        Limitation::NoFence,
        Limitation::Polls,
        Limitation::Unfair,
        Limitation::OneServer,
    ];

    /// A client at this door.
    ///
    /// # Errors
    /// [`LockError::Refused`] if the system gives no random numbers.
    pub fn new(door: Door, settings: Settings) -> Result<Self, LockError> {
        Ok(Self { door, settings, owner: nonce()? })
    }

    fn ttl_ms(&self) -> Value {
        Value::Number(i64::try_from(self.settings.ttl.as_millis()).unwrap_or(i64::MAX))
    }

    async fn insert(&mut self, lock: &str) -> Result<bool, LockError> {
        let (words, owner) = (self.door.database.words(), Value::from(self.owner.as_str()));
        let values = vec![lock.into(), owner.clone(), self.ttl_ms()];
        if self.door.ask(words.insert_lock, values).await?.affected == 1 {
            return Ok(true);
        }
        let Some(take_over) = words.take_over_lock else { return Ok(false) };
        let values = vec![owner, self.ttl_ms(), lock.into()];
        Ok(self.door.ask(take_over, values).await?.affected == 1)
    }

    async fn delete(&mut self, hold: &Hold) -> Result<u64, LockError> {
        let statement = self.door.database.words().delete_lock;
        let mut tried = Err(LockError::Busy);
        for _ in 0..TRIES {
            let values = vec![hold.lock.as_str().into(), hold.proof.as_str().into()];
            tried = self.door.ask(statement, values).await.map(|said| said.affected);
            if tried != Err(LockError::Busy) {
                break;
            }
        }
        tried
    }
}

impl Polled for LockTable {
    fn attempt<'a>(&'a mut self, lock: &'a str) -> LockFuture<'a, Option<Hold>> {
        Box::pin(async move {
            let since = Instant::now();
            let inserted = self.insert(lock).await?;
            let hold = || Hold::new(lock, &*self.owner).for_ttl(since, self.settings.ttl);
            Ok(inserted.then(hold))
        })
    }

    fn give_back(&mut self, hold: Hold) -> LockFuture<'_, ()> {
        Box::pin(async move {
            if self.delete(&hold).await? == 1 {
                return Ok(());
            }
            Err(LockError::Lost("the row is gone or somebody else's".to_owned()))
        })
    }

    fn pause(&self) -> Pause {
        self.settings.pause
    }

    fn counter(&self) -> &UsageCounter {
        &self.door.counter
    }
}
