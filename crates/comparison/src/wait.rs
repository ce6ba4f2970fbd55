//! Waiting: deadlines on the monotonic clock, pauses between attempts, and polling a condition.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{Duration, Instant};

/// A moment after which a caller stops waiting.
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

/// Bounds of the random pause between two attempts, so that waiters do not attempt in step.
#[derive(Clone, Copy, Debug)]
pub struct Pause {
    pub min: Duration,
    pub max: Duration,
}

impl Pause {
    fn random(self) -> Duration {
        let range = self.max.saturating_sub(self.min).as_micros();
        let range = u64::try_from(range).unwrap_or(u64::MAX - 1);
        self.min + Duration::from_micros(random() % (range + 1))
    }

    /// Sleeps until the next attempt, at most until the deadline.
    pub async fn sleep(self, deadline: Deadline) {
        tokio::time::sleep(self.random().min(deadline.remaining())).await;
    }
}

impl Default for Pause {
    /// 2 to 20 ms: shorter than common settings, so that a comparison does not measure the pause alone.
    fn default() -> Self {
        Self { min: Duration::from_millis(2), max: Duration::from_millis(20) }
    }
}

/// Checks `condition` every `step` until it holds or `timeout` has passed; returns whether it holds.
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

/// `RandomState` has keys of the operating system's generator, and never the same keys twice in a process.
pub(crate) fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}
