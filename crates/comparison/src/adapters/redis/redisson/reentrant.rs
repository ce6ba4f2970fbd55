//! Redisson's lock: counts the entries of each owner, publishes its end, and is renewed by a watchdog.
//!
//! Owns the two scripts and the watchdog of the present hold. The owner is this client; Redisson's is a client and a
//! thread of it.

use std::sync::LazyLock;
use std::time::Duration;

use redis::Script;

use super::{Found, Told, Watchdog, channel, rest, wait_for};
use crate::adapters::redis::{Door, Settings};
use crate::{Hold, Limitation, LockClient, LockError, LockFuture, LockUsage, nonce};

static ENTER: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "if redis.call('EXISTS', KEYS[1]) == 1 and redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
           return redis.call('PTTL', KEYS[1])
         end
         redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
         redis.call('PEXPIRE', KEYS[1], ARGV[2])
         return false",
    )
});

/// Answers nothing if it was not held, 0 if entries are left, 1 if it is free now.
static LEAVE: LazyLock<Script> = LazyLock::new(|| {
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

/// A client of this lock.
#[derive(Debug)]
pub struct Redisson {
    door: Door,
    settings: Settings,
    owner: String,
    watchdog: Option<Watchdog>,
}

impl Redisson {
    pub(crate) const LIMITATIONS: &[Limitation] = &[
        Limitation::OutlivesItsWork,
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
        Ok(Self { door, settings, owner: nonce()?, watchdog: None })
    }

    /// The watchdog of the present hold.
    pub fn watchdog(&self) -> Option<&Watchdog> {
        self.watchdog.as_ref()
    }

    /// Stops renewing while the hold stays, as a process does that stands still.
    pub fn freeze(&mut self) {
        self.watchdog = None;
    }

    async fn leave(&mut self, hold: &Hold) -> Result<(), LockError> {
        let (mut leave, told) = (LEAVE.prepare_invoke(), channel(&hold.lock));
        leave.key(&hold.lock).key(told).arg(&self.owner).arg(self.settings.ttl_ms());
        match self.door.run(&leave).await? {
            None => Err(LockError::Lost("the hash has no entry of ours".to_owned())),
            Some(0) => Ok(()),
            Some(_) => {
                self.watchdog = None;
                Ok(())
            }
        }
    }
}

impl Told for Redisson {
    fn attempt<'a>(&'a mut self, lock: &'a str) -> LockFuture<'a, Found> {
        Box::pin(async move {
            let mut enter = ENTER.key(lock);
            let taken: Option<i64> =
                self.door.run(enter.arg(&self.owner).arg(self.settings.ttl_ms())).await?;
            if let Some(millis) = taken {
                return Ok(Found::Taken(rest(millis)));
            }
            if self.watchdog.is_none() {
                let (door, owner) = (self.door.clone(), self.owner.clone());
                self.watchdog = Some(Watchdog::start(door, lock.into(), owner, self.settings.ttl));
            }
            Ok(Found::Ours(Hold::new(lock, &*self.owner)))
        })
    }

    fn channel(&self, lock: &str) -> String {
        channel(lock)
    }

    fn door(&self) -> &Door {
        &self.door
    }
}

impl LockClient for Redisson {
    fn acquire<'a>(&'a mut self, lock: &'a str, patience: Duration) -> LockFuture<'a, Hold> {
        Box::pin(wait_for(self, lock, patience))
    }

    fn release(&mut self, hold: Hold) -> LockFuture<'_, ()> {
        Box::pin(async move {
            let left = self.leave(&hold).await;
            if matches!(left, Err(LockError::Lost(_))) {
                self.watchdog = None;
            }
            left
        })
    }

    fn usage(&self) -> LockUsage {
        self.door.counter.usage()
    }
}
