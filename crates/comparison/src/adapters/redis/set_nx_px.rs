//! `SET key random NX PX ttl`, and a script that deletes the key only if it still holds the random value.
//!
//! Owns the recipe that Redis itself recommends for one server. What it cannot do is the server's and the clock's
//! fault, not the recipe's.

use std::sync::LazyLock;
use std::time::Instant;

use redis::{Script, cmd};

use super::{Door, Settings};
use crate::lock::UsageCounter;
use crate::poll::Polled;
use crate::{Hold, Limitation, LockError, LockFuture, Pause, nonce};

static DELETE_IF_OWNER: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end",
    )
});

/// Deletes the key if it holds this value, in one step; whether it did.
///
/// # Errors
/// As for any command.
pub async fn delete_if_owner(door: &Door, key: &str, owner: &str) -> Result<bool, LockError> {
    let deleted: u64 = door.run(DELETE_IF_OWNER.key(key).arg(owner)).await?;
    Ok(deleted == 1)
}

/// A client of this lock.
#[derive(Debug)]
pub struct SetNxPx {
    door: Door,
    settings: Settings,
}

impl SetNxPx {
    pub(crate) const LIMITATIONS: &[Limitation] = &[
        Limitation::ExpiresUnderHolder,
        Limitation::NoFence,
        Limitation::Polls,
        Limitation::Unfair,
        Limitation::LostOnFailover,
        Limitation::OneServer,
    ];

    /// A client at this door.
    pub fn new(door: Door, settings: Settings) -> Self {
        Self { door, settings }
    }
}

impl Polled for SetNxPx {
    fn attempt<'a>(&'a mut self, lock: &'a str) -> LockFuture<'a, Option<Hold>> {
        Box::pin(async move {
            let (owner, since) = (nonce()?, Instant::now());
            let mut set = cmd("SET");
            set.arg(lock).arg(&owner).arg("NX").arg("PX").arg(self.settings.ttl_ms());
            let done: bool = self.door.ask(&set).await?;
            Ok(done.then(|| Hold::new(lock, owner).for_ttl(since, self.settings.ttl)))
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
