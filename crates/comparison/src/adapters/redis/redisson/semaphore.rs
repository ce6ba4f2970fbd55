//! Redisson's semaphore: a number of free permits, and nothing about who has the others.
//!
//! Owns the scripts. So the permits of a holder that dies are gone for ever, and more can be given back than were
//! taken. As a [`LockClient`] it takes one permit of as many as it was made with.

use std::sync::LazyLock;
use std::time::Duration;

use redis::{Script, cmd};

use super::{Found, Told, channel, wait_for};
use crate::adapters::redis::Door;
use crate::{Hold, Limitation, LockClient, LockError, LockFuture, LockUsage};

/// Nobody knows when a permit comes back.
const LOOK_AGAIN: Duration = Duration::from_mins(1);

/// KEYS: permits. ARGV: how many are wanted.
static TAKE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "if tonumber(redis.call('GET', KEYS[1]) or 0) < tonumber(ARGV[1]) then return 0 end
         redis.call('DECRBY', KEYS[1], ARGV[1])
         return 1",
    )
});

/// KEYS: permits, channel. ARGV: how many.
static GIVE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local free = redis.call('INCRBY', KEYS[1], ARGV[1])
         redis.call('PUBLISH', KEYS[2], free)
         return free",
    )
});

/// A client of this semaphore.
#[derive(Debug)]
pub struct Semaphore {
    door: Door,
    limit: u32,
}

impl Semaphore {
    pub(crate) const LIMITATIONS: &[Limitation] = &[
        Limitation::LeftForEver,
        Limitation::OverRelease,
        Limitation::Herd,
        Limitation::NoFence,
        Limitation::Unfair,
        Limitation::LostOnFailover,
        Limitation::OneServer,
    ];

    /// A client at this door; a semaphore that is not there yet is made with `limit` permits.
    pub fn new(door: Door, limit: u32) -> Self {
        Self { door, limit }
    }

    /// Takes `count` permits if they are free.
    ///
    /// # Errors
    /// [`LockError::Busy`] if they are not.
    pub async fn take(&self, name: &str, count: u32) -> Result<(), LockError> {
        self.door.ask::<()>(cmd("SETNX").arg(name).arg(self.limit)).await?;
        let taken: bool = self.door.run(TAKE.key(name).arg(count)).await?;
        if taken { Ok(()) } else { Err(LockError::Busy) }
    }

    /// Gives `count` permits back, whoever took them, and answers how many are free then.
    ///
    /// # Errors
    /// As for any command.
    pub async fn give(&self, name: &str, count: u32) -> Result<i64, LockError> {
        let mut give = GIVE.prepare_invoke();
        self.door.run(give.key(name).key(channel(name)).arg(count)).await
    }
}

impl Told for Semaphore {
    fn attempt<'a>(&'a mut self, lock: &'a str) -> LockFuture<'a, Found> {
        Box::pin(async move {
            match self.take(lock, 1).await {
                Ok(()) => Ok(Found::Ours(Hold::new(lock, ""))),
                Err(LockError::Busy) => Ok(Found::Taken(LOOK_AGAIN)),
                Err(trouble) => Err(trouble),
            }
        })
    }

    fn channel(&self, lock: &str) -> String {
        channel(lock)
    }

    fn door(&self) -> &Door {
        &self.door
    }
}

impl LockClient for Semaphore {
    fn acquire<'a>(&'a mut self, lock: &'a str, patience: Duration) -> LockFuture<'a, Hold> {
        Box::pin(wait_for(self, lock, patience))
    }

    fn release(&mut self, hold: Hold) -> LockFuture<'_, ()> {
        Box::pin(async move { self.give(&hold.lock, 1).await.map(drop) })
    }

    fn usage(&self) -> LockUsage {
        self.door.counter.usage()
    }
}
