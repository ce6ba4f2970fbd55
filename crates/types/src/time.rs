//! Time: stamps of the log, session TTLs, and times as text of RFC 3339 by the Gregorian calendar, without a library of time
//! zones.
//!
//! `holdfast_api` reads such texts and tests both directions.

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

const DAY_MS: i64 = 86_400_000;

/// Writes a time in UTC, to the second.
pub fn format_time(stamp: Stamp) -> String {
    let ms = i64::try_from(stamp.0).unwrap_or(i64::MAX);
    let (days, seconds) = (ms / DAY_MS, ms % DAY_MS / 1_000);
    let (year, month, day) = date_of(days);
    let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// The year, the month and the day that is `days` days after 1970-01-01.
pub const fn date_of(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let (year, month) = if month < 10 { (0, month + 3) } else { (1, month - 9) };
    (year_of_era + era * 400 + year, month, day)
}

/// The wall clock of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ClockReading {
    pub wall: Stamp,
    /// A random number for each start of the process. A run measures time with its monotonic clock.
    pub run: u64,
}

/// Why the log's time jumps forward, and to which time. A majority of wall clocks shows at least this time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum TimeJump {
    /// This time has passed since the last record of the clocks, and no monotonic clock measured it.
    Lost(Stamp),
    /// The clocks show this time. The log jumps only while nothing in the state depends on its time.
    Unused(Stamp),
}
