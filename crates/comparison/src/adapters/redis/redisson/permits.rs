//! Redisson's expirable permits: each has an id and an end of its own.
//!
//! Owns the scripts. Whoever takes one first collects those whose end has passed, by its own clock, as theirs does: a
//! clock that is ahead collects permits that are still used.

use std::sync::LazyLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use redis::Script;

use super::{Found, Told, channel, rest, wait_for};
use crate::adapters::redis::{Door, Settings};
use crate::{Hold, Limitation, LockClient, LockError, LockFuture, LockUsage, nonce};

/// KEYS: ends of the permits that are taken. ARGV: id, now, ttl, limit. Answers how long until one ends.
static TAKE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', ARGV[2])
         if redis.call('ZCARD', KEYS[1]) < tonumber(ARGV[4]) then
           redis.call('ZADD', KEYS[1], tonumber(ARGV[2]) + tonumber(ARGV[3]), ARGV[1])
           return false
         end
         return tonumber(redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2]) - tonumber(ARGV[2])",
    )
});

/// KEYS: ends, channel. ARGV: id.
static GIVE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "if redis.call('ZREM', KEYS[1], ARGV[1]) == 0 then return 0 end
         redis.call('PUBLISH', KEYS[2], 'free')
         return 1",
    )
});

/// A client of this semaphore.
#[derive(Debug)]
pub struct Permits {
    door: Door,
    settings: Settings,
    limit: u32,
}

impl Permits {
    pub(crate) const LIMITATIONS: &[Limitation] = &[
        Limitation::ClientClocks,
        Limitation::ExpiresUnderHolder,
        Limitation::Herd,
        Limitation::NoFence,
        Limitation::Unfair,
        Limitation::LostOnFailover,
        Limitation::OneServer,
    ];

    /// A client at this door, of a semaphore with `limit` permits.
    pub fn new(door: Door, settings: Settings, limit: u32) -> Self {
        Self { door, settings, limit }
    }

    fn now_ms(&self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        i64::try_from(since.as_millis())
            .unwrap_or(i64::MAX)
            .saturating_add(self.settings.clock_off_ms)
    }
}

impl Told for Permits {
    fn attempt<'a>(&'a mut self, lock: &'a str) -> LockFuture<'a, Found> {
        Box::pin(async move {
            let (id, since) = (nonce()?, Instant::now());
            let mut take = TAKE.key(lock);
            take.arg(&id).arg(self.now_ms()).arg(self.settings.ttl_ms()).arg(self.limit);
            let taken: Option<i64> = self.door.run(&take).await?;
            Ok(match taken {
                None => Found::Ours(Hold::new(lock, id).for_ttl(since, self.settings.ttl)),
                Some(millis) => Found::Taken(rest(millis)),
            })
        })
    }

    fn channel(&self, lock: &str) -> String {
        channel(lock)
    }

    fn door(&self) -> &Door {
        &self.door
    }
}

impl LockClient for Permits {
    fn acquire<'a>(&'a mut self, lock: &'a str, patience: Duration) -> LockFuture<'a, Hold> {
        Box::pin(wait_for(self, lock, patience))
    }

    fn release(&mut self, hold: Hold) -> LockFuture<'_, ()> {
        Box::pin(async move {
            let mut give = GIVE.prepare_invoke();
            give.key(&hold.lock).key(channel(&hold.lock)).arg(&hold.proof);
            let ours: bool = self.door.run(&give).await?;
            ours.then_some(()).ok_or_else(|| LockError::Lost("the permit has ended".to_owned()))
        })
    }

    fn usage(&self) -> LockUsage {
        self.door.counter.usage()
    }
}
