//! The oldest recipe: `SETNX`, then `EXPIRE`, and `DEL` at the end.
//!
//! Owns both steps, apart, as its users had them: between them the lock has no end. Its `DEL` asks nobody whose key
//! it is.

use std::time::{Duration, Instant};

use redis::cmd;

use super::{Door, Settings};
use crate::lock::UsageCounter;
use crate::poll::Polled;
use crate::{Hold, Limitation, LockError, LockFuture, Pause};

/// A client of this lock.
#[derive(Debug)]
pub struct SetnxExpire {
    door: Door,
    settings: Settings,
}

impl SetnxExpire {
    pub(crate) const LIMITATIONS: &[Limitation] = &[
        Limitation::LeftForEver,
        Limitation::ForeignRelease,
        Limitation::ExpiresUnderHolder,
        Limitation::NoFence,
        Limitation::Polls,
        Limitation::Unfair,
        Limitation::LostOnFailover,
        Limitation::OneServer,
    ];

    /// A client at this door.
    pub fn new(door: Door, settings: Settings) -> Self {
        Self { door, settings }
    }

    /// The first step alone; whether the key was free.
    ///
    /// # Errors
    /// As for any command.
    pub async fn set(&self, lock: &str) -> Result<bool, LockError> {
        self.door.ask(cmd("SETNX").arg(lock).arg(1)).await
    }

    /// The second step alone: without it the key stays for ever. In whole seconds, and one at least: `EXPIRE 0` deletes.
    ///
    /// # Errors
    /// As for any command.
    pub async fn expire(&self, lock: &str) -> Result<(), LockError> {
        let seconds = self.ttl().as_secs();
        self.door.ask(cmd("EXPIRE").arg(lock).arg(seconds)).await
    }

    fn ttl(&self) -> Duration {
        Duration::from_secs(
            self.settings.ttl.as_millis().div_ceil(1000).max(1).try_into().unwrap_or(u64::MAX),
        )
    }
}

impl Polled for SetnxExpire {
    fn attempt<'a>(&'a mut self, lock: &'a str) -> LockFuture<'a, Option<Hold>> {
        Box::pin(async move {
            let since = Instant::now();
            if !self.set(lock).await? {
                return Ok(None);
            }
            self.expire(lock).await?;
            Ok(Some(Hold::new(lock, "").for_ttl(since, self.ttl())))
        })
    }

    fn give_back(&mut self, hold: Hold) -> LockFuture<'_, ()> {
        Box::pin(async move {
            let deleted: u64 = self.door.ask(cmd("DEL").arg(&hold.lock)).await?;
            if deleted == 1 { Ok(()) } else { Err(LockError::Lost("there was no key".to_owned())) }
        })
    }

    fn pause(&self) -> Pause {
        self.settings.pause
    }

    fn counter(&self) -> &UsageCounter {
        &self.door.counter
    }
}
