//! Time in the log: stamps of the leader's wall clock, and session TTLs.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Whole milliseconds of `duration`, rounded down; saturates at `u64::MAX`.
pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Whole microseconds of `duration`, rounded down; saturates at `u64::MAX`.
pub fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// Milliseconds since the Unix epoch: the log's time at the proposal of an entry, close to the wall clocks of a majority.
/// It never goes back. Used for display, lock timers and idle times, never for the expiry of sessions.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Stamp(pub u64);

/// A session's time-to-live in milliseconds, from 1 s to 24 h.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct Ttl(u32);

/// Why a number of milliseconds is not a [`Ttl`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a ttl is from 1s to 24h")]
pub struct TtlError;

impl Ttl {
    /// One second.
    pub const MIN: Ttl = Ttl(1_000);
    /// 24 hours.
    pub const MAX: Ttl = Ttl(86_400_000);
    /// 30 seconds: the TTL of a call without `ttl`.
    pub const DEFAULT: Ttl = Ttl(30_000);

    pub const fn as_millis(self) -> u32 {
        self.0
    }

    pub const fn as_duration(self) -> Duration {
        Duration::from_millis(self.0 as u64)
    }

    /// # Errors
    /// [`TtlError`] below 1 s or above 24 h.
    pub fn from_millis(ms: u64) -> Result<Self, TtlError> {
        let ms = u32::try_from(ms).map_err(|_| TtlError)?;
        Self::try_from(ms)
    }
}

impl TryFrom<u32> for Ttl {
    type Error = TtlError;

    fn try_from(ms: u32) -> Result<Self, TtlError> {
        if (Self::MIN.0..=Self::MAX.0).contains(&ms) { Ok(Self(ms)) } else { Err(TtlError) }
    }
}

impl From<Ttl> for u32 {
    fn from(ttl: Ttl) -> u32 {
        ttl.0
    }
}
