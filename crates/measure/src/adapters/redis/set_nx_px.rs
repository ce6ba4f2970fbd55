//! `SET key random NX PX ttl`, and a script that deletes the key only if it still has the random value: the recipe
//! that Redis recommends for one server.

use std::time::{Duration, Instant};

use redis::cmd;

use super::{RedisConnection, connect, delete_if_owner, released};
use crate::limitation::Limitation::{
    ExpiresUnderHolder, LostOnFailover, NoToken, OneServer, Polls, Unfair,
};
use crate::lock::{Adapter, HeldLock, LoadUsage, LockError, LockKind, LockSettings, nonce};
use crate::polling::Polling;

pub const LOCK: LockKind = LockKind {
    name: "redis-set-nx-px",
    limitations: &[ExpiresUnderHolder, NoToken, Polls, Unfair, LostOnFailover, OneServer],
    connect: |target| connect(target, SetNxPx::new),
};

#[derive(Debug)]
pub struct SetNxPx {
    connection: RedisConnection,
    settings: LockSettings,
}

impl SetNxPx {
    pub fn new(connection: RedisConnection, settings: LockSettings) -> Self {
        Self { connection, settings }
    }
}

impl Adapter for SetNxPx {
    async fn acquire(&mut self, lock: &str, timeout: Duration) -> Result<HeldLock, LockError> {
        let polling = Polling::new(timeout, self.settings.pause);
        loop {
            let (owner, since) = (nonce(), Instant::now());
            let mut set = cmd("SET");
            set.arg(lock).arg(&owner).arg("NX").arg("PX").arg(self.settings.ttl_ms());
            if self.connection.query(&set).await? {
                return Ok(HeldLock::new(lock, owner).for_ttl(since, self.settings.ttl));
            }
            polling.pause(&self.connection.counter).await?;
        }
    }

    async fn release(&mut self, held: HeldLock) -> Result<(), LockError> {
        released(delete_if_owner(&self.connection, &held.lock, &held.owner).await?)
    }

    fn usage(&self) -> LoadUsage {
        self.connection.usage()
    }
}
