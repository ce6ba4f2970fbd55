//! Redisson's latch: a number that is counted down, and a channel that says when it is zero.
//!
//! Owns the scripts. A count-down that is sent again because no answer came counts again.

use std::sync::LazyLock;
use std::time::Duration;

use redis::{Script, cmd};

use super::{Bell, channel};
use crate::adapters::redis::Door;
use crate::{Deadline, LockError};

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

/// A client of a latch.
#[derive(Debug)]
pub struct Latch {
    door: Door,
    name: String,
}

impl Latch {
    /// A client at this door.
    pub fn new(door: Door, name: &str) -> Self {
        Self { door, name: name.to_owned() }
    }

    /// Sets the count of a latch that is not there; whether it was not.
    ///
    /// # Errors
    /// As for any command.
    pub async fn set(&self, count: u32) -> Result<bool, LockError> {
        self.door.ask(cmd("SETNX").arg(&self.name).arg(count)).await
    }

    /// Counts down by one, and answers what is left.
    ///
    /// # Errors
    /// As for any command.
    pub async fn count_down(&self) -> Result<u32, LockError> {
        let mut count_down = COUNT_DOWN.prepare_invoke();
        self.door.run(count_down.key(&self.name).key(channel(&self.name))).await
    }

    /// Waits until it is zero.
    ///
    /// # Errors
    /// [`LockError::Busy`] if it is not in time.
    pub async fn wait(&self, patience: Duration) -> Result<(), LockError> {
        let patience = Deadline::after(patience);
        let mut bell = Bell::subscribe(&self.door, channel(&self.name)).await?;
        loop {
            let left: Option<u32> = self.door.ask(cmd("GET").arg(&self.name)).await?;
            match left {
                None | Some(0) => return Ok(()),
                Some(_) if patience.is_past() => return Err(LockError::Busy),
                Some(_) => bell.hear(patience.left()).await?,
            }
        }
    }
}
