//! Redisson's read/write lock: one hash with a field for its mode and one for each holder.
//!
//! The adapter acquires exclusively; [`RedissonReadWrite::read`] acquires in shared mode. All holders share one TTL,
//! and a stream of readers starves a writer.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use redis::Script;

use super::{RedissonAttempt, Subscriber, channel, left, remaining};
use crate::adapters::redis::{RedisConnection, connect};
use crate::limitation::Limitation::{
    ExpiresUnderHolder, LostOnFailover, NoToken, OneServer, Unfair, WakesAll,
};
use crate::lock::{Adapter, HeldLock, LoadUsage, LockError, LockKind, LockSettings, nonce};

pub const LOCK: LockKind = LockKind {
    name: "redisson-write",
    limitations: &[ExpiresUnderHolder, WakesAll, NoToken, Unfair, LostOnFailover, OneServer],
    connect: |target| connect(target, RedissonReadWrite::new),
};

/// KEYS: lock. ARGV: holder, ttl, mode.
static ACQUIRE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local mode = redis.call('HGET', KEYS[1], 'mode')
         local ours = redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1
         local shared = mode == 'read' and ARGV[3] == 'read'
         if mode and not shared and not (ours and mode == ARGV[3]) then
           return redis.call('PTTL', KEYS[1])
         end
         redis.call('HSET', KEYS[1], 'mode', ARGV[3])
         redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
         redis.call('PEXPIRE', KEYS[1], ARGV[2])
         return false",
    )
});

/// KEYS: lock, channel. ARGV: holder. Deletes a hash that has only its mode.
static RELEASE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return false end
         if redis.call('HINCRBY', KEYS[1], ARGV[1], -1) == 0 then redis.call('HDEL', KEYS[1], ARGV[1]) end
         if redis.call('HLEN', KEYS[1]) > 1 then return 0 end
         redis.call('DEL', KEYS[1])
         redis.call('PUBLISH', KEYS[2], 'free')
         return 1",
    )
});

#[derive(Debug)]
pub struct RedissonReadWrite {
    connection: RedisConnection,
    settings: LockSettings,
    owner: String,
}

impl RedissonReadWrite {
    pub fn new(connection: RedisConnection, settings: LockSettings) -> Self {
        Self { connection, settings, owner: nonce() }
    }

    /// Acquires the lock in shared mode, without waiting.
    ///
    /// # Errors
    /// [`LockError::Busy`] if a writer holds the lock.
    pub async fn read(&mut self, lock: &str) -> Result<HeldLock, LockError> {
        match self.attempt(lock, "read").await? {
            RedissonAttempt::Held(held) => Ok(held),
            RedissonAttempt::Taken(_) => Err(LockError::Busy),
        }
    }

    async fn attempt(&self, lock: &str, mode: &str) -> Result<RedissonAttempt, LockError> {
        let (since, holder) = (Instant::now(), format!("{}:{mode}", self.owner));
        let mut acquire = ACQUIRE.key(lock);
        acquire.arg(&holder).arg(self.settings.ttl_ms()).arg(mode);
        let taken: Option<i64> = self.connection.script(&acquire).await?;
        Ok(match taken {
            None => {
                RedissonAttempt::Held(HeldLock::new(lock, holder).for_ttl(since, self.settings.ttl))
            }
            Some(millis) => RedissonAttempt::Taken(remaining(millis)),
        })
    }
}

impl Adapter for RedissonReadWrite {
    async fn acquire(&mut self, lock: &str, timeout: Duration) -> Result<HeldLock, LockError> {
        let mut subscriber = Subscriber::new(&self.connection, channel(lock), timeout);
        loop {
            match self.attempt(lock, "write").await? {
                RedissonAttempt::Held(held) => return Ok(held),
                RedissonAttempt::Taken(expiry) => subscriber.wait(expiry).await?,
            }
        }
    }

    async fn release(&mut self, held: HeldLock) -> Result<(), LockError> {
        let mut release = RELEASE.prepare_invoke();
        release.key(&held.lock).key(channel(&held.lock)).arg(&held.owner);
        left(self.connection.script(&release).await?)
    }

    fn usage(&self) -> LoadUsage {
        self.connection.usage()
    }
}
