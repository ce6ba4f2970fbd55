//! `SETNX` and `PEXPIRE` with a random owner; whoever finds a key without an end gives it one, and goes on trying.
//!
//! Owns the repair of what a crash between the two commands leaves behind, with its race: the key may belong to
//! somebody who has not come to the second command yet, or who wanted no end. Released by `WATCH`.

use std::time::Instant;

use redis::cmd;

use super::watch::release_watched;
use super::{Door, Settings};
use crate::lock::UsageCounter;
use crate::poll::Polled;
use crate::{Hold, Limitation, LockError, LockFuture, Pause, nonce};

/// `PTTL` of a key without an end.
const NO_END: i64 = -1;

/// A client of this lock.
#[derive(Debug)]
pub struct TimeoutRepair {
    door: Door,
    settings: Settings,
    owner: String,
}

impl TimeoutRepair {
    pub(crate) const LIMITATIONS: &[Limitation] = &[
        Limitation::ForeignExpiry,
        Limitation::ExpiresUnderHolder,
        Limitation::NoFence,
        Limitation::Polls,
        Limitation::Unfair,
        Limitation::LostOnFailover,
        Limitation::OneServer,
    ];

    /// A client at this door.
    ///
    /// # Errors
    /// [`LockError::Refused`] if the system gives no random numbers.
    pub fn new(door: Door, settings: Settings) -> Result<Self, LockError> {
        Ok(Self { door, settings, owner: nonce()? })
    }

    /// The first step alone; whether the key was free.
    ///
    /// # Errors
    /// As for any command.
    pub async fn set(&self, lock: &str) -> Result<bool, LockError> {
        self.door.ask(cmd("SETNX").arg(lock).arg(&self.owner)).await
    }

    async fn expire(&self, lock: &str) -> Result<(), LockError> {
        self.door.ask(cmd("PEXPIRE").arg(lock).arg(self.settings.ttl_ms())).await
    }

    /// Gives a key without an end one, whoever owns it.
    async fn repair(&self, lock: &str) -> Result<(), LockError> {
        let left: i64 = self.door.ask(cmd("PTTL").arg(lock)).await?;
        if left == NO_END { self.expire(lock).await } else { Ok(()) }
    }
}

impl Polled for TimeoutRepair {
    fn attempt<'a>(&'a mut self, lock: &'a str) -> LockFuture<'a, Option<Hold>> {
        Box::pin(async move {
            let since = Instant::now();
            if !self.set(lock).await? {
                self.repair(lock).await?;
                return Ok(None);
            }
            self.expire(lock).await?;
            Ok(Some(Hold::new(lock, &*self.owner).for_ttl(since, self.settings.ttl)))
        })
    }

    fn give_back(&mut self, hold: Hold) -> LockFuture<'_, ()> {
        Box::pin(async move {
            let ours = release_watched(&self.door, &hold.lock, &hold.proof).await?;
            ours.then_some(())
                .ok_or_else(|| LockError::Lost("the key is gone or somebody else's".to_owned()))
        })
    }

    fn pause(&self) -> Pause {
        self.settings.pause
    }

    fn counter(&self) -> &UsageCounter {
        &self.door.counter
    }
}
