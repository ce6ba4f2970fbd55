//! Redisson's lock: a hold count for each owner, a message at the release, and renewal by a watchdog.
//!
//! The owner is this client; Redisson's owner is a client and one of its threads.

use std::sync::LazyLock;
use std::time::Duration;

use redis::Script;

use super::{RedissonAttempt, Subscriber, Watchdog, channel, left, remaining};
use crate::adapters::redis::{RedisConnection, connect};
use crate::limitation::Limitation::{
    ExpiresUnderHolder, LostOnFailover, NoToken, OneServer, OutlivesItsWork, Unfair, WakesAll,
};
use crate::lock::{Adapter, HeldLock, LoadUsage, LockError, LockKind, LockSettings, nonce};

pub const LOCK: LockKind = LockKind {
    name: "redisson-lock",
    limitations: &[
        OutlivesItsWork,
        ExpiresUnderHolder,
        WakesAll,
        NoToken,
        Unfair,
        LostOnFailover,
        OneServer,
    ],
    connect: |target| connect(target, RedissonLock::new),
};

static ACQUIRE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "if redis.call('EXISTS', KEYS[1]) == 1 and redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
           return redis.call('PTTL', KEYS[1])
         end
         redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
         redis.call('PEXPIRE', KEYS[1], ARGV[2])
         return false",
    )
});

/// Returns nothing if the lock was not held, 0 if the hold count is above zero, 1 if the lock is now free.
static RELEASE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return false end
         if redis.call('HINCRBY', KEYS[1], ARGV[1], -1) > 0 then
           redis.call('PEXPIRE', KEYS[1], ARGV[2])
           return 0
         end
         redis.call('DEL', KEYS[1])
         redis.call('PUBLISH', KEYS[2], 'free')
         return 1",
    )
});

#[derive(Debug)]
pub struct RedissonLock {
    connection: RedisConnection,
    settings: LockSettings,
    owner: String,
    watchdog: Option<Watchdog>,
}

impl RedissonLock {
    pub fn new(connection: RedisConnection, settings: LockSettings) -> Self {
        Self { connection, settings, owner: nonce(), watchdog: None }
    }

    /// The watchdog of the held lock.
    pub fn watchdog(&self) -> Option<&Watchdog> {
        self.watchdog.as_ref()
    }

    /// Stops the renewals and keeps the lock, like a paused process.
    pub fn freeze(&mut self) {
        self.watchdog = None;
    }

    async fn attempt(&mut self, lock: &str) -> Result<RedissonAttempt, LockError> {
        let mut acquire = ACQUIRE.key(lock);
        acquire.arg(&self.owner).arg(self.settings.ttl_ms());
        let taken: Option<i64> = self.connection.script(&acquire).await?;
        if let Some(millis) = taken {
            return Ok(RedissonAttempt::Taken(remaining(millis)));
        }
        if self.watchdog.is_none() {
            let (connection, owner) = (self.connection.clone(), self.owner.clone());
            let watchdog = Watchdog::start(connection, lock.into(), owner, self.settings.ttl);
            self.watchdog = Some(watchdog);
        }
        Ok(RedissonAttempt::Held(HeldLock::new(lock, &*self.owner)))
    }
}

impl Adapter for RedissonLock {
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
        release.key(&held.lock).key(channel(&held.lock));
        release.arg(&self.owner).arg(self.settings.ttl_ms());
        let reply: Option<i64> = self.connection.script(&release).await?;
        if reply != Some(0) {
            self.watchdog = None;
        }
        left(reply)
    }

    fn usage(&self) -> LoadUsage {
        self.connection.usage()
    }
}
