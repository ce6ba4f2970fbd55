//! Waiting: deadlines on the monotonic clock, pauses between attempts, and polling a condition.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{Duration, Instant};

/// The time after which a caller stops waiting.
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    end: Instant,
}

impl Deadline {
    pub fn after(time: Duration) -> Self {
        Self { end: Instant::now() + time }
    }

    pub fn remaining(self) -> Duration {
        self.end.saturating_duration_since(Instant::now())
    }

    pub fn has_passed(self) -> bool {
        self.remaining().is_zero()
    }
}

/// The bounds of the random pause between two attempts, so that waiters do not attempt simultaneously.
#[derive(Clone, Copy, Debug)]
pub struct Pause {
    pub min: Duration,
    pub max: Duration,
}

impl Pause {
    /// No pause: the next attempt follows at once.
    pub const NONE: Self = Self { min: Duration::ZERO, max: Duration::ZERO };

    fn random(self) -> Duration {
        let range = self.max.saturating_sub(self.min).as_micros();
        let range = u64::try_from(range).unwrap_or(u64::MAX - 1);
        self.min + Duration::from_micros(random() % (range + 1))
    }

    /// Sleeps until the next attempt, at most until the deadline.
    pub async fn sleep(self, deadline: Deadline) {
        if self.max.is_zero() {
            // The shortest sleep of the timer is 1 ms.
            return tokio::task::yield_now().await;
        }
        tokio::time::sleep(self.random().min(deadline.remaining())).await;
    }
}

impl Default for Pause {
    /// A pause of 2 to 20 ms: shorter than common settings, so that the comparison does not measure only the pause.
    fn default() -> Self {
        Self { min: Duration::from_millis(2), max: Duration::from_millis(20) }
    }
}

/// Checks `condition` every `step` until it returns `true` or `timeout` has passed; returns the last result.
pub async fn poll_until(
    timeout: Duration,
    step: Duration,
    mut condition: impl AsyncFnMut() -> bool,
) -> bool {
    let deadline = Deadline::after(timeout);
    while !condition().await {
        if deadline.has_passed() {
            return false;
        }
        tokio::time::sleep(step).await;
    }
    true
}

/// `RandomState` has keys of the operating system's generator, and never repeats keys in a process.
pub(crate) fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}
