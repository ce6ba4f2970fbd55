//! Redisson's semaphore: a number of free permits, without a record of their holders.
//!
//! The permits of a dead holder are lost forever, and clients can release more permits than they acquired.

use std::sync::LazyLock;
use std::time::Duration;

use redis::{Script, cmd};

use super::{Subscriber, channel};
use crate::adapters::redis::{RedisConnection, connect};
use crate::limitation::Limitation::{
    LeftForever, LostOnFailover, NoToken, OneServer, OverRelease, Unfair, WakesAll,
};
use crate::lock::{Adapter, HeldLock, LoadUsage, LockError, LockKind};

pub const LOCK: LockKind = LockKind {
    name: "redisson-semaphore",
    limitations: &[LeftForever, OverRelease, WakesAll, NoToken, Unfair, LostOnFailover, OneServer],
    connect: |target| connect(target, |connection, _| RedissonSemaphore::new(connection, 1)),
};

/// The pause before the next attempt; a permit has no expiry.
const ATTEMPT_AGAIN: Duration = Duration::from_mins(1);

/// KEYS: permits. ARGV: count.
static ACQUIRE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "if tonumber(redis.call('GET', KEYS[1]) or 0) < tonumber(ARGV[1]) then return 0 end
         redis.call('DECRBY', KEYS[1], ARGV[1])
         return 1",
    )
});

/// KEYS: permits, channel. ARGV: count.
static RELEASE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local free = redis.call('INCRBY', KEYS[1], ARGV[1])
         redis.call('PUBLISH', KEYS[2], free)
         return free",
    )
});

#[derive(Debug)]
pub struct RedissonSemaphore {
    connection: RedisConnection,
    permits: u32,
}

impl RedissonSemaphore {
    /// Creates a client. Its first acquire creates a missing semaphore with `permits` permits.
    pub fn new(connection: RedisConnection, permits: u32) -> Self {
        Self { connection, permits }
    }

    /// Acquires `count` permits, without waiting.
    ///
    /// # Errors
    /// [`LockError::Busy`] if fewer are free.
    pub async fn acquire_permits(&self, name: &str, count: u32) -> Result<(), LockError> {
        self.connection.query::<()>(cmd("SETNX").arg(name).arg(self.permits)).await?;
        let acquired: bool = self.connection.script(ACQUIRE.key(name).arg(count)).await?;
        acquired.then_some(()).ok_or(LockError::Busy)
    }

    /// Releases `count` permits of any holder; returns the number of free permits.
    pub async fn release_permits(&self, name: &str, count: u32) -> Result<i64, LockError> {
        let mut release = RELEASE.prepare_invoke();
        self.connection.script(release.key(name).key(channel(name)).arg(count)).await
    }
}

impl Adapter for RedissonSemaphore {
    async fn acquire(&mut self, lock: &str, timeout: Duration) -> Result<HeldLock, LockError> {
        let mut subscriber = Subscriber::new(&self.connection, channel(lock), timeout);
        loop {
            match self.acquire_permits(lock, 1).await {
                Err(LockError::Busy) => subscriber.wait(ATTEMPT_AGAIN).await?,
                acquired => return acquired.map(|()| HeldLock::new(lock, "")),
            }
        }
    }

    async fn release(&mut self, held: HeldLock) -> Result<(), LockError> {
        self.release_permits(&held.lock, 1).await.map(drop)
    }

    fn usage(&self) -> LoadUsage {
        self.connection.usage()
    }
}
