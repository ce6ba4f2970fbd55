//! A script that lets the same request in again, and refreshes its time.
//!
//! Owns the recipe as it is passed around: the key holds the request's id, and nothing counts. So the first release
//! frees every entry. The key is passed as a key here, so that it would work on a Redis cluster too.

use std::sync::LazyLock;
use std::time::Instant;

use redis::Script;

use super::set_nx_px::delete_if_owner;
use super::{Door, Settings};
use crate::lock::UsageCounter;
use crate::poll::Polled;
use crate::{Hold, Limitation, LockError, LockFuture, Pause, nonce};

static ENTER: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local owner = redis.call('GET', KEYS[1])
         if owner and owner ~= ARGV[1] then return 0 end
         redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
         return 1",
    )
});

/// A client of this lock: one request.
#[derive(Debug)]
pub struct Reentrant {
    door: Door,
    settings: Settings,
    request: String,
}

impl Reentrant {
    pub(crate) const LIMITATIONS: &[Limitation] = &[
        Limitation::UncountedEntries,
        Limitation::ExpiresUnderHolder,
        Limitation::NoFence,
        Limitation::Polls,
        Limitation::Unfair,
        Limitation::LostOnFailover,
        Limitation::OneServer,
    ];

    /// A client at this door, with a request id of its own.
    ///
    /// # Errors
    /// [`LockError::Refused`] if the system gives no random numbers.
    pub fn new(door: Door, settings: Settings) -> Result<Self, LockError> {
        Ok(Self { door, settings, request: nonce()? })
    }
}

impl Polled for Reentrant {
    fn attempt<'a>(&'a mut self, lock: &'a str) -> LockFuture<'a, Option<Hold>> {
        Box::pin(async move {
            let since = Instant::now();
            let mut enter = ENTER.key(lock);
            let entered: bool =
                self.door.run(enter.arg(&self.request).arg(self.settings.ttl_ms())).await?;
            let hold = || Hold::new(lock, &*self.request).for_ttl(since, self.settings.ttl);
            Ok(entered.then(hold))
        })
    }

    fn give_back(&mut self, hold: Hold) -> LockFuture<'_, ()> {
        Box::pin(async move {
            let ours = delete_if_owner(&self.door, &hold.lock, &hold.proof).await?;
            ours.then_some(())
                .ok_or_else(|| LockError::Lost("the key is gone or somebody else's".to_owned()))
        })
    }

    fn pause(&self) -> Pause {
        self.settings.pause
    }

    fn counter(&self) -> &UsageCounter {
        &self.door.counter
    }
}
