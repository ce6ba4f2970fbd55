//! Redisson's fair lock: a list of waiters, and a moment at which each is taken for dead.
//!
//! Owns the scripts. Each waiter has a channel of its own, so a release wakes one; if that one is dead, nobody wakes,
//! and the next waits until the dead one's moment has passed. Moments come from the clients' clocks, as theirs do.

use std::sync::LazyLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use redis::Script;

use super::{Found, Told, channel, rest, wait_for};
use crate::adapters::redis::{Door, Settings};
use crate::{Hold, Limitation, LockClient, LockError, LockFuture, LockUsage, nonce};

/// What a dead waiter costs whoever is behind it, unless it is said otherwise.
const DEAD_AFTER: Duration = Duration::from_secs(5);

/// KEYS: lock, queue, moments. ARGV: owner, ttl, now, how long until a waiter counts as dead.
static ENTER: LazyLock<Script> = LazyLock::new(|| {
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

/// KEYS: lock, queue. ARGV: owner, ttl, beginning of the waiters' channels.
static LEAVE: LazyLock<Script> = LazyLock::new(|| {
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

/// KEYS: queue, moments. ARGV: owner.
static GIVE_UP: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "redis.call('LREM', KEYS[1], 1, ARGV[1]) return redis.call('ZREM', KEYS[2], ARGV[1])",
    )
});

/// A client of this lock.
#[derive(Debug)]
pub struct Fair {
    door: Door,
    settings: Settings,
    owner: String,
    dead_after: Duration,
}

impl Fair {
    pub(crate) const LIMITATIONS: &[Limitation] = &[
        Limitation::DeadWaiterDelays,
        Limitation::ExpiresUnderHolder,
        Limitation::NoFence,
        Limitation::LostOnFailover,
        Limitation::OneServer,
    ];

    /// A client at this door.
    ///
    /// # Errors
    /// [`LockError::Refused`] if the system gives no random numbers.
    pub fn new(door: Door, settings: Settings) -> Result<Self, LockError> {
        Ok(Self { door, settings, owner: nonce()?, dead_after: DEAD_AFTER })
    }

    /// The same, with waiters that count as dead sooner or later.
    #[must_use]
    pub fn dead_after(self, dead_after: Duration) -> Self {
        Self { dead_after, ..self }
    }

    fn keys(lock: &str) -> (String, String) {
        (format!("holdfast-client-queue:{{{lock}}}"), format!("holdfast-client-moments:{{{lock}}}"))
    }

    async fn give_up(&self, lock: &str) -> Result<(), LockError> {
        let (queue, moments) = Self::keys(lock);
        let mut give_up = GIVE_UP.prepare_invoke();
        self.door.run(give_up.key(queue).key(moments).arg(&self.owner)).await
    }

    fn now_ms(&self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        i64::try_from(since.as_millis())
            .unwrap_or(i64::MAX)
            .saturating_add(self.settings.clock_off_ms)
    }
}

impl Told for Fair {
    fn attempt<'a>(&'a mut self, lock: &'a str) -> LockFuture<'a, Found> {
        Box::pin(async move {
            let (queue, moments) = Self::keys(lock);
            let dead_after_ms = u64::try_from(self.dead_after.as_millis()).unwrap_or(u64::MAX);
            let mut enter = ENTER.prepare_invoke();
            enter.key(lock).key(queue).key(moments).arg(&self.owner);
            enter.arg(self.settings.ttl_ms()).arg(self.now_ms()).arg(dead_after_ms);
            let taken: Option<i64> = self.door.run(&enter).await?;
            Ok(match taken {
                None => Found::Ours(Hold::new(lock, &*self.owner)),
                Some(millis) => Found::Taken(rest(millis)),
            })
        })
    }

    fn channel(&self, lock: &str) -> String {
        format!("{}:{}", channel(lock), self.owner)
    }

    fn door(&self) -> &Door {
        &self.door
    }
}

impl LockClient for Fair {
    fn acquire<'a>(&'a mut self, lock: &'a str, patience: Duration) -> LockFuture<'a, Hold> {
        Box::pin(async move {
            let waited = wait_for(self, lock, patience).await;
            if waited == Err(LockError::Busy) {
                self.give_up(lock).await?;
            }
            waited
        })
    }

    fn release(&mut self, hold: Hold) -> LockFuture<'_, ()> {
        Box::pin(async move {
            let (queue, _) = Self::keys(&hold.lock);
            let mut leave = LEAVE.prepare_invoke();
            leave.key(&hold.lock).key(queue).arg(&self.owner).arg(self.settings.ttl_ms());
            leave.arg(format!("{}:", channel(&hold.lock)));
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
