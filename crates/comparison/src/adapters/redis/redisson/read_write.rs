//! Redisson's read/write lock: one hash with a field for its mode, and one for each holder.
//!
//! Owns the scripts. As a [`LockClient`] it writes; [`ReadWrite::read`] shares. All holders share one time-to-live, and
//! readers that keep coming keep a writer out for ever.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use redis::Script;

use super::{Found, Told, channel, rest, wait_for};
use crate::adapters::redis::{Door, Settings};
use crate::{Hold, Limitation, LockClient, LockError, LockFuture, LockUsage, nonce};

/// KEYS: lock. ARGV: holder, ttl, mode.
static ENTER: LazyLock<Script> = LazyLock::new(|| {
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

/// KEYS: lock, channel. ARGV: holder. A hash with nothing but its mode is gone.
static LEAVE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return false end
         if redis.call('HINCRBY', KEYS[1], ARGV[1], -1) == 0 then redis.call('HDEL', KEYS[1], ARGV[1]) end
         if redis.call('HLEN', KEYS[1]) > 1 then return 0 end
         redis.call('DEL', KEYS[1])
         redis.call('PUBLISH', KEYS[2], 'free')
         return 1",
    )
});

/// A client of this lock.
#[derive(Debug)]
pub struct ReadWrite {
    door: Door,
    settings: Settings,
    owner: String,
}

impl ReadWrite {
    pub(crate) const LIMITATIONS: &[Limitation] = &[
        Limitation::ExpiresUnderHolder,
        Limitation::Herd,
        Limitation::NoFence,
        Limitation::Unfair,
        Limitation::LostOnFailover,
        Limitation::OneServer,
    ];

    /// A client at this door.
    ///
    /// # Errors
    /// [`LockError::Refused`] if the system gives no random numbers.
    pub fn new(door: Door, settings: Settings) -> Result<Self, LockError> {
        Ok(Self { door, settings, owner: nonce()? })
    }

    /// Takes the lock for reading if nobody writes.
    ///
    /// # Errors
    /// [`LockError::Busy`] if somebody does.
    pub async fn read(&mut self, lock: &str) -> Result<Hold, LockError> {
        match self.enter(lock, "read").await? {
            Found::Ours(hold) => Ok(hold),
            Found::Taken(_) => Err(LockError::Busy),
        }
    }

    async fn enter(&self, lock: &str, mode: &str) -> Result<Found, LockError> {
        let since = Instant::now();
        let (mut enter, holder) = (ENTER.key(lock), format!("{}:{mode}", self.owner));
        enter.arg(&holder).arg(self.settings.ttl_ms()).arg(mode);
        let taken: Option<i64> = self.door.run(&enter).await?;
        Ok(match taken {
            None => Found::Ours(Hold::new(lock, holder).for_ttl(since, self.settings.ttl)),
            Some(millis) => Found::Taken(rest(millis)),
        })
    }
}

impl Told for ReadWrite {
    fn attempt<'a>(&'a mut self, lock: &'a str) -> LockFuture<'a, Found> {
        Box::pin(self.enter(lock, "write"))
    }

    fn channel(&self, lock: &str) -> String {
        channel(lock)
    }

    fn door(&self) -> &Door {
        &self.door
    }
}

impl LockClient for ReadWrite {
    fn acquire<'a>(&'a mut self, lock: &'a str, patience: Duration) -> LockFuture<'a, Hold> {
        Box::pin(wait_for(self, lock, patience))
    }

    fn release(&mut self, hold: Hold) -> LockFuture<'_, ()> {
        Box::pin(async move {
            let mut leave = LEAVE.prepare_invoke();
            leave.key(&hold.lock).key(channel(&hold.lock)).arg(&hold.proof);
            match self.door.run::<Option<i64>>(&leave).await? {
                Some(_) => Ok(()),
                None => Err(LockError::Lost("the hash has no entry of ours".to_owned())),
            }
        })
    }

    fn usage(&self) -> LockUsage {
        self.door.counter.usage()
    }
}
