//! The key holds the moment at which the lock ends, by the clock of the client that set it.
//!
//! Owns the recipe of `SETNX` and `GETSET`: whoever finds the moment passed, by its own clock, sets a new one, and has
//! the lock if what it replaced is what it had read. A loser's `GETSET` moves the winner's end, and clocks that differ
//! make two holders. The release looks at the clock, not at an owner: there is none.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use redis::cmd;

use super::{Door, Settings};
use crate::lock::UsageCounter;
use crate::poll::Polled;
use crate::{Hold, Limitation, LockError, LockFuture, Pause};

/// A client of this lock.
#[derive(Debug)]
pub struct GetSet {
    door: Door,
    settings: Settings,
}

impl GetSet {
    pub(crate) const LIMITATIONS: &[Limitation] = &[
        Limitation::ClientClocks,
        Limitation::ForeignRelease,
        Limitation::ExpiresUnderHolder,
        Limitation::NoFence,
        Limitation::Polls,
        Limitation::Unfair,
        Limitation::LostOnFailover,
        Limitation::OneServer,
    ];

    /// A client at this door, with the clock of `settings`.
    pub fn new(door: Door, settings: Settings) -> Self {
        Self { door, settings }
    }

    /// Milliseconds since 1970 by this client's clock.
    fn clock_ms(&self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        i64::try_from(since.as_millis())
            .unwrap_or(i64::MAX)
            .saturating_add(self.settings.clock_off_ms)
    }

    async fn take(&self, lock: &str, end: i64) -> Result<bool, LockError> {
        if self.door.ask(cmd("SETNX").arg(lock).arg(end)).await? {
            return Ok(true);
        }
        let read: Option<i64> = self.door.ask(cmd("GET").arg(lock)).await?;
        match read {
            Some(passed) if passed < self.clock_ms() => {
                let replaced: Option<i64> = self.door.ask(cmd("GETSET").arg(lock).arg(end)).await?;
                Ok(replaced == Some(passed))
            }
            Some(_) | None => Ok(false),
        }
    }
}

impl Polled for GetSet {
    fn attempt<'a>(&'a mut self, lock: &'a str) -> LockFuture<'a, Option<Hold>> {
        Box::pin(async move {
            let ttl_ms = i64::try_from(self.settings.ttl_ms()).unwrap_or(i64::MAX);
            let (since, end) = (Instant::now(), self.clock_ms().saturating_add(ttl_ms));
            let taken = self.take(lock, end).await?;
            let hold = || Hold::new(lock, end.to_string()).for_ttl(since, self.settings.ttl);
            Ok(taken.then(hold))
        })
    }

    fn give_back(&mut self, hold: Hold) -> LockFuture<'_, ()> {
        Box::pin(async move {
            let end: i64 = hold.proof.parse().unwrap_or(0);
            if self.clock_ms() >= end {
                return Err(LockError::Lost("its time has passed".to_owned()));
            }
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
