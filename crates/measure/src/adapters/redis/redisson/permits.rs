//! Redisson's expirable permits: each has its own id and end time.
//!
//! An acquire first collects the expired permits by the caller's clock, as Redisson does: a fast clock collects
//! permits in use.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use redis::Script;

use super::{RedissonAttempt, Subscriber, channel, remaining};
use crate::adapters::redis::{RedisConnection, connect};
use crate::limitation::Limitation::{
    ClientClocks, ExpiresUnderHolder, LostOnFailover, NoToken, OneServer, Unfair, WakesAll,
};
use crate::lock::{Adapter, HeldLock, LoadUsage, LockError, LockKind, LockSettings, nonce};

pub const LOCK: LockKind = LockKind {
    name: "redisson-permits",
    limitations: &[
        ClientClocks,
        ExpiresUnderHolder,
        WakesAll,
        NoToken,
        Unfair,
        LostOnFailover,
        OneServer,
    ],
    connect: |target| {
        connect(target, |connection, settings| RedissonPermits::new(connection, settings, 1))
    },
};

/// KEYS: end times of the acquired permits. ARGV: id, now, ttl, limit. Returns the time until the next end.
static ACQUIRE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', ARGV[2])
         if redis.call('ZCARD', KEYS[1]) < tonumber(ARGV[4]) then
           redis.call('ZADD', KEYS[1], tonumber(ARGV[2]) + tonumber(ARGV[3]), ARGV[1])
           return false
         end
         return tonumber(redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2]) - tonumber(ARGV[2])",
    )
});

/// KEYS: end times, channel. ARGV: id.
static RELEASE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "if redis.call('ZREM', KEYS[1], ARGV[1]) == 0 then return 0 end
         redis.call('PUBLISH', KEYS[2], 'free')
         return 1",
    )
});

#[derive(Debug)]
pub struct RedissonPermits {
    connection: RedisConnection,
    settings: LockSettings,
    permits: u32,
}

impl RedissonPermits {
    /// A client of a semaphore with `permits` permits.
    pub fn new(connection: RedisConnection, settings: LockSettings, permits: u32) -> Self {
        Self { connection, settings, permits }
    }

    async fn attempt(&self, lock: &str) -> Result<RedissonAttempt, LockError> {
        let (id, since) = (nonce(), Instant::now());
        let mut acquire = ACQUIRE.key(lock);
        acquire.arg(&id).arg(self.settings.now_ms()).arg(self.settings.ttl_ms()).arg(self.permits);
        let taken: Option<i64> = self.connection.script(&acquire).await?;
        Ok(match taken {
            None => {
                RedissonAttempt::Held(HeldLock::new(lock, id).for_ttl(since, self.settings.ttl))
            }
            Some(millis) => RedissonAttempt::Taken(remaining(millis)),
        })
    }
}

impl Adapter for RedissonPermits {
    async fn acquire(&mut self, lock: &str, timeout: Duration) -> Result<HeldLock, LockError> {
        let mut subscriber = Subscriber::new(&self.connection, channel(lock), timeout);
        loop {
            match self.attempt(lock).await? {
                RedissonAttempt::Held(held) => return Ok(held),
                RedissonAttempt::Taken(expiry) => subscriber.wait(expiry).await?,
            }
        }
    }

    async fn release(&mut self, held: HeldLock) -> Result<(), LockError> {
        let mut release = RELEASE.prepare_invoke();
        release.key(&held.lock).key(channel(&held.lock)).arg(&held.owner);
        let was_held: bool = self.connection.script(&release).await?;
        was_held.then_some(()).ok_or_else(|| LockError::Lost("the permit has expired".to_owned()))
    }

    fn usage(&self) -> LoadUsage {
        self.connection.usage()
    }
}
