//! The oldest recipe: `SETNX`, then `EXPIRE`, and `DEL` at the end.
//!
//! Between the two steps the lock has no expiry, and `DEL` does not compare an owner.

use std::time::{Duration, Instant};

use redis::cmd;

use super::{RedisConnection, connect, released};
use crate::limitation::Limitation::{
    ExpiresUnderHolder, ForeignRelease, LeftForever, LostOnFailover, NoToken, OneServer, Polls,
    Unfair,
};
use crate::lock::{Adapter, HeldLock, LoadUsage, LockError, LockKind, LockSettings};
use crate::polling::Polling;

pub const LOCK: LockKind = LockKind {
    name: "redis-setnx-expire",
    limitations: &[
        LeftForever,
        ForeignRelease,
        ExpiresUnderHolder,
        NoToken,
        Polls,
        Unfair,
        LostOnFailover,
        OneServer,
    ],
    connect: |target| connect(target, SetnxExpire::new),
};

#[derive(Debug)]
pub struct SetnxExpire {
    connection: RedisConnection,
    settings: LockSettings,
}

impl SetnxExpire {
    pub fn new(connection: RedisConnection, settings: LockSettings) -> Self {
        Self { connection, settings }
    }

    /// Runs only the first step; returns `true` if the key was free.
    pub async fn set(&self, lock: &str) -> Result<bool, LockError> {
        self.connection.query(cmd("SETNX").arg(lock).arg(1)).await
    }
}

impl Adapter for SetnxExpire {
    async fn acquire(&mut self, lock: &str, timeout: Duration) -> Result<HeldLock, LockError> {
        let polling = Polling::new(timeout, self.settings.pause);
        loop {
            let since = Instant::now();
            if self.set(lock).await? {
                // `EXPIRE` takes whole seconds, at least one: `EXPIRE 0` deletes the key.
                let seconds = self.settings.ttl_ms().div_ceil(1000);
                self.connection.query::<()>(cmd("EXPIRE").arg(lock).arg(seconds)).await?;
                let held = HeldLock::new(lock, "");
                return Ok(held.for_ttl(since, Duration::from_secs(seconds)));
            }
            polling.pause(&self.connection.counter).await?;
        }
    }

    async fn release(&mut self, held: HeldLock) -> Result<(), LockError> {
        released(self.connection.query(cmd("DEL").arg(&held.lock)).await?)
    }

    fn usage(&self) -> LoadUsage {
        self.connection.usage()
    }
}
