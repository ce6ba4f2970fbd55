//! A script that lets the same request acquire again and refreshes its TTL.
//!
//! The key holds the request's id without a hold count: the first release ends all re-entries.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use redis::Script;

use super::{RedisConnection, connect, delete_if_owner, released};
use crate::limitation::Limitation::{
    ExpiresUnderHolder, LostOnFailover, NoToken, OneServer, Polls, UncountedReentry, Unfair,
};
use crate::lock::{Adapter, HeldLock, LoadUsage, LockError, LockKind, LockSettings, nonce};
use crate::polling::Polling;

pub const LOCK: LockKind = LockKind {
    name: "redis-reentrant-lua",
    limitations: &[
        UncountedReentry,
        ExpiresUnderHolder,
        NoToken,
        Polls,
        Unfair,
        LostOnFailover,
        OneServer,
    ],
    connect: |target| connect(target, Reentrant::new),
};

static ACQUIRE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local owner = redis.call('GET', KEYS[1])
         if owner and owner ~= ARGV[1] then return 0 end
         redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
         return 1",
    )
});

#[derive(Debug)]
pub struct Reentrant {
    connection: RedisConnection,
    settings: LockSettings,
    request: String,
}

impl Reentrant {
    pub fn new(connection: RedisConnection, settings: LockSettings) -> Self {
        Self { connection, settings, request: nonce() }
    }
}

impl Adapter for Reentrant {
    async fn acquire(&mut self, lock: &str, timeout: Duration) -> Result<HeldLock, LockError> {
        let polling = Polling::new(timeout, self.settings.pause);
        loop {
            let since = Instant::now();
            let mut acquire = ACQUIRE.key(lock);
            acquire.arg(&self.request).arg(self.settings.ttl_ms());
            if self.connection.script(&acquire).await? {
                let held = HeldLock::new(lock, &*self.request);
                return Ok(held.for_ttl(since, self.settings.ttl));
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
