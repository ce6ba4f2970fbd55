//! The key holds the end time of the lock, by the clock of the client that set it.
//!
//! A client that reads a past end time, by its own clock, sets a new one with `GETSET`. It holds the lock if `GETSET`
//! returns the end time that it has read. A losing `GETSET` changes the winner's end time, and different clocks make
//! two holders. The release compares the clock, because the key has no owner.

use std::time::{Duration, Instant};

use redis::cmd;

use super::{RedisConnection, connect};
use crate::limitation::Limitation::{
    ClientClocks, ExpiresUnderHolder, ForeignRelease, LostOnFailover, NoToken, OneServer, Polls,
    Unfair,
};
use crate::lock::{Adapter, HeldLock, LoadUsage, LockError, LockKind, LockSettings};
use crate::polling::Polling;

pub const LOCK: LockKind = LockKind {
    name: "redis-getset",
    limitations: &[
        ClientClocks,
        ForeignRelease,
        ExpiresUnderHolder,
        NoToken,
        Polls,
        Unfair,
        LostOnFailover,
        OneServer,
    ],
    connect: |target| connect(target, GetSet::new),
};

#[derive(Debug)]
pub struct GetSet {
    connection: RedisConnection,
    settings: LockSettings,
}

impl GetSet {
    pub fn new(connection: RedisConnection, settings: LockSettings) -> Self {
        Self { connection, settings }
    }

    async fn attempt(&self, lock: &str, end_ms: i64) -> Result<bool, LockError> {
        if self.connection.query(cmd("SETNX").arg(lock).arg(end_ms)).await? {
            return Ok(true);
        }
        let found: Option<i64> = self.connection.query(cmd("GET").arg(lock)).await?;
        let Some(expired) = found.filter(|end| *end < self.settings.now_ms()) else {
            return Ok(false);
        };
        let replaced: Option<i64> =
            self.connection.query(cmd("GETSET").arg(lock).arg(end_ms)).await?;
        Ok(replaced == Some(expired))
    }
}

impl Adapter for GetSet {
    async fn acquire(&mut self, lock: &str, timeout: Duration) -> Result<HeldLock, LockError> {
        let polling = Polling::new(timeout, self.settings.pause);
        loop {
            let ttl_ms = i64::try_from(self.settings.ttl_ms()).unwrap_or(i64::MAX);
            let (since, end_ms) = (Instant::now(), self.settings.now_ms().saturating_add(ttl_ms));
            if self.attempt(lock, end_ms).await? {
                let held = HeldLock::new(lock, end_ms.to_string());
                return Ok(held.for_ttl(since, self.settings.ttl));
            }
            polling.pause(&self.connection.counter).await?;
        }
    }

    async fn release(&mut self, held: HeldLock) -> Result<(), LockError> {
        if self.settings.now_ms() >= held.owner.parse().unwrap_or(0) {
            return Err(LockError::Lost("its time has passed".to_owned()));
        }
        let deleted: bool = self.connection.query(cmd("DEL").arg(&held.lock)).await?;
        super::released(deleted)
    }

    fn usage(&self) -> LoadUsage {
        self.connection.usage()
    }
}
