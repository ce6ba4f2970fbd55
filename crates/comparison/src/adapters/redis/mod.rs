//! Locks on one Redis, from the oldest recipe to those of Redisson, and `RedLock` on several.
//!
//! Owns the settings that all of them share and the table of systems. Every client has a connection of its own. Times
//! are in milliseconds on the wire; a time-to-live below one millisecond is refused, since Redis would delete the key.

mod connection;
mod getset;
mod redisson;
mod redlock;
mod reentrant;
mod set_nx_px;
mod setnx_expire;
mod timeout_repair;
mod watch;

use std::time::Duration;

pub use connection::Door;
pub use getset::GetSet;
pub use redisson::{Fair, Latch, MultiLock, Permits, ReadWrite, Redisson, Semaphore, Watchdog};
pub use redlock::{RedLock, RedLockSystem, drift};
pub use reentrant::Reentrant;
pub use set_nx_px::{SetNxPx, delete_if_owner};
pub use setnx_expire::SetnxExpire;
pub use timeout_repair::TimeoutRepair;
pub use watch::{Raced, Watched, release_watched};

use crate::{Limitation, LockClient, LockError, LockFuture, Pause, System};

/// What a lock on Redis is told.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How long a lock outlives a holder that died.
    pub ttl: Duration,
    /// Between two attempts, for those that poll.
    pub pause: Pause,
    /// How far the client's wall clock is off, for those that look at it; milliseconds.
    pub clock_off_ms: i64,
}

impl Default for Settings {
    /// 30 s, as Redisson.
    fn default() -> Self {
        Self { ttl: Duration::from_secs(30), pause: Pause::default(), clock_off_ms: 0 }
    }
}

impl Settings {
    /// The same with another time-to-live.
    #[must_use]
    pub fn ttl(self, ttl: Duration) -> Self {
        Self { ttl, ..self }
    }

    pub(crate) fn ttl_ms(&self) -> u64 {
        u64::try_from(self.ttl.as_millis()).unwrap_or(u64::MAX).max(1)
    }
}

type Make = fn(Door, Settings) -> Result<Box<dyn LockClient>, LockError>;

/// One of the locks on one Redis.
#[derive(Clone, Debug)]
pub struct RedisSystem {
    name: &'static str,
    limitations: &'static [Limitation],
    make: Make,
    url: String,
    settings: Settings,
}

impl System for RedisSystem {
    fn name(&self) -> &'static str {
        self.name
    }

    fn limitations(&self) -> &'static [Limitation] {
        self.limitations
    }

    fn client(&self) -> LockFuture<'_, Box<dyn LockClient>> {
        Box::pin(async move { (self.make)(Door::open(&self.url).await?, self.settings) })
    }
}

/// Name, limitations and making of every lock on one Redis.
const KINDS: [(&str, &[Limitation], Make); 10] = [
    ("redis-setnx-expire", SetnxExpire::LIMITATIONS, |door, settings| {
        Ok(Box::new(SetnxExpire::new(door, settings)))
    }),
    ("redis-set-nx-px", SetNxPx::LIMITATIONS, |door, settings| {
        Ok(Box::new(SetNxPx::new(door, settings)))
    }),
    ("redis-reentrant-lua", Reentrant::LIMITATIONS, |door, settings| {
        Ok(Box::new(Reentrant::new(door, settings)?))
    }),
    ("redis-timeout-repair", TimeoutRepair::LIMITATIONS, |door, settings| {
        Ok(Box::new(TimeoutRepair::new(door, settings)?))
    }),
    ("redis-getset", GetSet::LIMITATIONS, |door, settings| {
        Ok(Box::new(GetSet::new(door, settings)))
    }),
    ("redisson-lock", Redisson::LIMITATIONS, |door, settings| {
        Ok(Box::new(Redisson::new(door, settings)?))
    }),
    ("redisson-fair", Fair::LIMITATIONS, |door, settings| Ok(Box::new(Fair::new(door, settings)?))),
    ("redisson-write", ReadWrite::LIMITATIONS, |door, settings| {
        Ok(Box::new(ReadWrite::new(door, settings)?))
    }),
    ("redisson-semaphore", Semaphore::LIMITATIONS, |door, _| Ok(Box::new(Semaphore::new(door, 1)))),
    ("redisson-permits", Permits::LIMITATIONS, |door, settings| {
        Ok(Box::new(Permits::new(door, settings, 1)))
    }),
];

/// Every lock on the Redis of this URL.
pub fn systems(url: &str, settings: Settings) -> Vec<RedisSystem> {
    let system = |(name, limitations, make)| RedisSystem {
        name,
        limitations,
        make,
        url: url.to_owned(),
        settings,
    };
    KINDS.into_iter().map(system).collect()
}
