//! How long somebody waits, and the random numbers that keep waiters apart.
//!
//! Owns deadlines on the monotonic clock. Refuses to know what is waited for.

use std::time::{Duration, Instant};

use crate::LockError;

/// A moment after which nobody waits any more.
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    end: Instant,
}

impl Deadline {
    /// From now on for so long.
    pub fn after(time: Duration) -> Self {
        Self { end: Instant::now() + time }
    }

    /// What is left; zero when it is over.
    pub fn left(&self) -> Duration {
        self.end.saturating_duration_since(Instant::now())
    }

    /// Whether it is over.
    pub fn is_past(&self) -> bool {
        self.left().is_zero()
    }
}

/// Sixteen random hexadecimal digits: who holds, when every holder must be told from every other.
///
/// # Errors
/// [`LockError::Refused`] if the system gives no random numbers.
pub fn nonce() -> Result<String, LockError> {
    random().map(|number| format!("{number:016x}"))
}

/// A random number.
pub(crate) fn random() -> Result<u64, LockError> {
    getrandom::u64().map_err(|error| LockError::Refused(format!("no random numbers: {error}")))
}
