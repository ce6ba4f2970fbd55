//! Redisson's latch: a count, and a channel with a message at zero.
//!
//! A repeated count-down after a lost reply counts twice.

use std::sync::LazyLock;
use std::time::Duration;

use redis::{Script, cmd};

use super::{Subscriber, channel};
use crate::LockError;
use crate::adapters::redis::RedisConnection;

/// KEYS: latch, channel.
static COUNT_DOWN: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local left = redis.call('DECR', KEYS[1])
         if left > 0 then return left end
         redis.call('DEL', KEYS[1])
         if left == 0 then redis.call('PUBLISH', KEYS[2], 'open') end
         return 0",
    )
});

#[derive(Debug)]
pub struct RedissonLatch {
    connection: RedisConnection,
    name: String,
}

impl RedissonLatch {
    pub fn new(connection: RedisConnection, name: &str) -> Self {
        Self { connection, name: name.to_owned() }
    }

    /// Sets the count of a missing latch; returns `true` if it was missing.
    pub async fn set(&self, count: u32) -> Result<bool, LockError> {
        self.connection.query(cmd("SETNX").arg(&self.name).arg(count)).await
    }

    /// Counts down and returns the remaining count.
    pub async fn count_down(&self) -> Result<u32, LockError> {
        let mut count_down = COUNT_DOWN.prepare_invoke();
        self.connection.script(count_down.key(&self.name).key(channel(&self.name))).await
    }

    /// Waits until the count is zero.
    ///
    /// # Errors
    /// [`LockError::Busy`] if the count is not zero in time.
    pub async fn wait(&self, timeout: Duration) -> Result<(), LockError> {
        let mut subscriber = Subscriber::new(&self.connection, channel(&self.name), timeout);
        loop {
            let left: Option<u32> = self.connection.query(cmd("GET").arg(&self.name)).await?;
            if left.unwrap_or(0) == 0 {
                return Ok(());
            }
            subscriber.wait(Duration::MAX).await?;
        }
    }
}
