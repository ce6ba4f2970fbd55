//! A plain list as a queue: a client appends its id, and holds the lock while its id is the first in the list.
//!
//! Nothing ends the place of a dead client: if it waits or holds, all clients behind it wait forever.

use std::time::Duration;

use redis::cmd;

use super::{RedisConnection, connect, released};
use crate::limitation::Limitation::{DeadWaiterBlocks, LostOnFailover, NoToken, OneServer, Polls};
use crate::lock::{Adapter, HeldLock, LoadUsage, LockError, LockKind, LockSettings, nonce};
use crate::polling::Polling;

pub const LOCK: LockKind = LockKind {
    name: "redis-list",
    limitations: &[DeadWaiterBlocks, NoToken, Polls, LostOnFailover, OneServer],
    connect: |target| connect(target, RedisList::new),
};

#[derive(Debug)]
pub struct RedisList {
    connection: RedisConnection,
    settings: LockSettings,
}

impl RedisList {
    pub fn new(connection: RedisConnection, settings: LockSettings) -> Self {
        Self { connection, settings }
    }

    /// Removes an id; returns `true` if it was in the list.
    async fn leave(&self, lock: &str, id: &str) -> Result<bool, LockError> {
        self.connection.query(cmd("LREM").arg(lock).arg(1).arg(id)).await
    }
}

impl Adapter for RedisList {
    async fn acquire(&mut self, lock: &str, timeout: Duration) -> Result<HeldLock, LockError> {
        let (polling, id) = (Polling::new(timeout, self.settings.pause), nonce());
        self.connection.query::<()>(cmd("RPUSH").arg(lock).arg(&id)).await?;
        loop {
            let first: Option<String> =
                self.connection.query(cmd("LINDEX").arg(lock).arg(0)).await?;
            if first.as_ref() == Some(&id) {
                return Ok(HeldLock::new(lock, id));
            }
            if let Err(error) = polling.pause(&self.connection.counter).await {
                self.leave(lock, &id).await?;
                return Err(error);
            }
        }
    }

    async fn release(&mut self, held: HeldLock) -> Result<(), LockError> {
        released(self.leave(&held.lock, &held.owner).await?)
    }

    fn usage(&self) -> LoadUsage {
        self.connection.usage()
    }
}
