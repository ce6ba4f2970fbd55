//! How long somebody waits, and the random numbers that keep waiters apart.
//!
//! Owns deadlines on the monotonic clock. Refuses to know what is waited for.

use std::time::{Duration, Instant};

use crate::Trouble;

/// A moment after which nobody waits any more.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    end: Instant,
}

impl Patience {
    /// From now on for so long.
    pub fn of(time: Duration) -> Self {
        Self { end: Instant::now() + time }
    }

    /// What is left; zero when it is over.
    pub fn left(&self) -> Duration {
        self.end.saturating_duration_since(Instant::now())
    }

    /// Whether it is over.
    pub fn is_over(&self) -> bool {
        self.left().is_zero()
    }
}

/// Sixteen random hexadecimal digits: who holds, when every holder must be told from every other.
///
/// # Errors
/// [`Trouble::Refused`] if the system gives no random numbers.
pub fn nonce() -> Result<String, Trouble> {
    random().map(|number| format!("{number:016x}"))
}

/// A random number.
pub(crate) fn random() -> Result<u64, Trouble> {
    getrandom::u64().map_err(|error| Trouble::Refused(format!("no random numbers: {error}")))
}
