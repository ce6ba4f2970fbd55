//! Redisson's fair lock: a list of waiters, and a deadline after which each counts as dead.
//!
//! Each waiter has its own channel, so a release wakes one waiter. If that waiter is dead, no other waiter wakes, and
//! the next waiter waits until the dead waiter's deadline. Deadlines come from the clients' clocks, as in Redisson.

use std::sync::LazyLock;
use std::time::Duration;

use redis::Script;

use super::{RedissonAttempt, Subscriber, channel, left, remaining};
use crate::adapters::redis::{RedisConnection, connect};
use crate::limitation::Limitation::{
    DeadWaiterDelays, ExpiresUnderHolder, LostOnFailover, NoToken, OneServer,
};
use crate::lock::{Adapter, HeldLock, LoadUsage, LockError, LockKind, LockSettings, nonce};

pub const LOCK: LockKind = LockKind {
    name: "redisson-fair",
    limitations: &[DeadWaiterDelays, ExpiresUnderHolder, NoToken, LostOnFailover, OneServer],
    connect: |target| connect(target, RedissonFair::new),
};

/// The delay that a dead waiter causes for the waiters behind it.
const DEAD_AFTER: Duration = Duration::from_secs(5);

/// KEYS: lock, queue, deadlines. ARGV: owner, ttl, now, time after which a waiter counts as dead.
static ACQUIRE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local now = tonumber(ARGV[3])
         local first = redis.call('LINDEX', KEYS[2], 0)
         while first do
           local moment = redis.call('ZSCORE', KEYS[3], first)
           if moment and tonumber(moment) > now then break end
           redis.call('ZREM', KEYS[3], first)
           redis.call('LPOP', KEYS[2])
           first = redis.call('LINDEX', KEYS[2], 0)
         end
         local free = redis.call('EXISTS', KEYS[1]) == 0 and (not first or first == ARGV[1])
         if free or redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then
           redis.call('LREM', KEYS[2], 1, ARGV[1])
           redis.call('ZREM', KEYS[3], ARGV[1])
           redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
           redis.call('PEXPIRE', KEYS[1], ARGV[2])
           return false
         end
         local rest = math.max(redis.call('PTTL', KEYS[1]), 0)
         if first and first ~= ARGV[1] then
           rest = math.max(rest, tonumber(redis.call('ZSCORE', KEYS[3], first)) - now)
         end
         if redis.call('ZADD', KEYS[3], 'NX', now + rest + tonumber(ARGV[4]), ARGV[1]) == 1 then
           redis.call('RPUSH', KEYS[2], ARGV[1])
         end
         return rest",
    )
});

/// KEYS: lock, queue. ARGV: owner, ttl, prefix of the waiters' channels.
static RELEASE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return false end
         if redis.call('HINCRBY', KEYS[1], ARGV[1], -1) > 0 then
           redis.call('PEXPIRE', KEYS[1], ARGV[2])
           return 0
         end
         redis.call('DEL', KEYS[1])
         local first = redis.call('LINDEX', KEYS[2], 0)
         if first then redis.call('PUBLISH', ARGV[3] .. first, 'free') end
         return 1",
    )
});

/// KEYS: queue, deadlines. ARGV: owner.
static LEAVE_QUEUE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "redis.call('LREM', KEYS[1], 1, ARGV[1]) return redis.call('ZREM', KEYS[2], ARGV[1])",
    )
});

#[derive(Debug)]
pub struct RedissonFair {
    connection: RedisConnection,
    settings: LockSettings,
    owner: String,
    dead_after: Duration,
}

impl RedissonFair {
    pub fn new(connection: RedisConnection, settings: LockSettings) -> Self {
        Self { connection, settings, owner: nonce(), dead_after: DEAD_AFTER }
    }

    #[must_use]
    pub fn dead_after(self, dead_after: Duration) -> Self {
        Self { dead_after, ..self }
    }

    async fn attempt(&self, lock: &str) -> Result<RedissonAttempt, LockError> {
        let dead_after_ms = u64::try_from(self.dead_after.as_millis()).unwrap_or(u64::MAX);
        let mut acquire = ACQUIRE.prepare_invoke();
        acquire.key(lock).key(queue(lock)).key(deadlines(lock)).arg(&self.owner);
        acquire.arg(self.settings.ttl_ms()).arg(self.settings.now_ms()).arg(dead_after_ms);
        let taken: Option<i64> = self.connection.script(&acquire).await?;
        Ok(match taken {
            None => RedissonAttempt::Held(HeldLock::new(lock, &*self.owner)),
            Some(millis) => RedissonAttempt::Taken(remaining(millis)),
        })
    }

    async fn leave_queue(&self, lock: &str) -> Result<(), LockError> {
        let mut leave = LEAVE_QUEUE.prepare_invoke();
        self.connection.script(leave.key(queue(lock)).key(deadlines(lock)).arg(&self.owner)).await
    }
}

pub(crate) fn queue(lock: &str) -> String {
    format!("holdfast-measure-queue:{{{lock}}}")
}

fn deadlines(lock: &str) -> String {
    format!("holdfast-measure-deadlines:{{{lock}}}")
}

impl Adapter for RedissonFair {
    async fn acquire(&mut self, lock: &str, timeout: Duration) -> Result<HeldLock, LockError> {
        let channel = format!("{}:{}", channel(lock), self.owner);
        let mut subscriber = Subscriber::new(&self.connection, channel, timeout);
        loop {
            let expiry = match self.attempt(lock).await? {
                RedissonAttempt::Held(held) => return Ok(held),
                RedissonAttempt::Taken(expiry) => expiry,
            };
            if let Err(error) = subscriber.wait(expiry).await {
                self.leave_queue(lock).await?;
                return Err(error);
            }
        }
    }

    async fn release(&mut self, held: HeldLock) -> Result<(), LockError> {
        let mut release = RELEASE.prepare_invoke();
        release.key(&held.lock).key(queue(&held.lock)).arg(&self.owner);
        release.arg(self.settings.ttl_ms()).arg(format!("{}:", channel(&held.lock)));
        left(self.connection.script(&release).await?)
    }

    fn usage(&self) -> LoadUsage {
        self.connection.usage()
    }
}
