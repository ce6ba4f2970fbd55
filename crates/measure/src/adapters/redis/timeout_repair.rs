//! `SETNX` and `PEXPIRE` with a random owner; a waiter sets an expiry on a key without one.
//!
//! The repair after a crash between the two commands is a race: the key may belong to a client before its second
//! command, or to a client that wanted no expiry. The release uses `WATCH` instead of a script, so each client needs
//! its own connection.

use std::time::{Duration, Instant};

use redis::{Pipeline, cmd};

use super::{RedisConnection, connect, released};
use crate::limitation::Limitation::{
    ExpiresUnderHolder, ForeignExpiry, LostOnFailover, NoToken, OneServer, Polls, Unfair,
};
use crate::lock::{Adapter, HeldLock, LoadUsage, LockError, LockKind, LockSettings, nonce};
use crate::polling::Polling;

pub const LOCK: LockKind = LockKind {
    name: "redis-timeout-repair",
    limitations: &[
        ForeignExpiry,
        ExpiresUnderHolder,
        NoToken,
        Polls,
        Unfair,
        LostOnFailover,
        OneServer,
    ],
    connect: |target| connect(target, TimeoutRepair::new),
};

/// The reply of `PTTL` for a key without an expiry.
const NO_END: i64 = -1;
/// The maximum number of transactions of one release in which the key has changed.
const RELEASE_TRIES: usize = 10;

#[derive(Debug)]
pub struct TimeoutRepair {
    connection: RedisConnection,
    settings: LockSettings,
    owner: String,
}

impl TimeoutRepair {
    pub fn new(connection: RedisConnection, settings: LockSettings) -> Self {
        Self { connection, settings, owner: nonce() }
    }

    /// Runs only the first step; returns `true` if the key was free.
    pub async fn set(&self, lock: &str) -> Result<bool, LockError> {
        self.connection.query(cmd("SETNX").arg(lock).arg(&self.owner)).await
    }

    async fn expire(&self, lock: &str) -> Result<(), LockError> {
        self.connection.query(cmd("PEXPIRE").arg(lock).arg(self.settings.ttl_ms())).await
    }
}

impl Adapter for TimeoutRepair {
    async fn acquire(&mut self, lock: &str, timeout: Duration) -> Result<HeldLock, LockError> {
        let polling = Polling::new(timeout, self.settings.pause);
        loop {
            let since = Instant::now();
            if self.set(lock).await? {
                self.expire(lock).await?;
                let held = HeldLock::new(lock, &*self.owner);
                return Ok(held.for_ttl(since, self.settings.ttl));
            }
            let remaining_ms: i64 = self.connection.query(cmd("PTTL").arg(lock)).await?;
            if remaining_ms == NO_END {
                self.expire(lock).await?;
            }
            polling.pause(&self.connection.counter).await?;
        }
    }

    async fn release(&mut self, held: HeldLock) -> Result<(), LockError> {
        released(release_watched(&self.connection, &held.lock, &held.owner).await?)
    }

    fn usage(&self) -> LoadUsage {
        self.connection.usage()
    }
}

/// Watches the key if this owner has it; returns `true` if it does.
pub async fn watch(
    connection: &RedisConnection,
    key: &str,
    owner: &str,
) -> Result<bool, LockError> {
    connection.query::<()>(cmd("WATCH").arg(key)).await?;
    let found: Option<String> = connection.query(cmd("GET").arg(key)).await?;
    let is_owner = found.as_deref() == Some(owner);
    if !is_owner {
        connection.query::<()>(&cmd("UNWATCH")).await?;
    }
    Ok(is_owner)
}

/// Deletes the watched key; returns `false` if it has changed since [`watch`].
pub async fn delete_watched(connection: &RedisConnection, key: &str) -> Result<bool, LockError> {
    let mut pipeline = Pipeline::new();
    pipeline.atomic().cmd("DEL").arg(key);
    let done: Option<(u64,)> = connection.transaction(&pipeline).await?;
    Ok(done.is_some())
}

/// Runs the whole release; returns `true` if this owner had the key.
///
/// # Errors
/// [`LockError::Rejected`] if the key changed in every transaction.
pub async fn release_watched(
    connection: &RedisConnection,
    key: &str,
    owner: &str,
) -> Result<bool, LockError> {
    for _ in 0..RELEASE_TRIES {
        if !watch(connection, key, owner).await? {
            return Ok(false);
        }
        if delete_watched(connection, key).await? {
            return Ok(true);
        }
    }
    Err(LockError::Rejected(format!("the key changed in {RELEASE_TRIES} transactions")))
}
