//! Waiting: deadlines on the monotonic clock, pauses between attempts, and polling a condition.

use std::time::{Duration, Instant};

use crate::LockError;
use crate::lock::{UsageCounter, random};

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

impl Default for Pause {
    /// 2 to 20 ms: shorter than common settings, so that a comparison does not measure the pause alone.
    fn default() -> Self {
        Self { min: Duration::from_millis(2), max: Duration::from_millis(20) }
    }
}

/// The waiting of a client that attempts again until it holds the lock.
#[derive(Clone, Copy, Debug)]
pub struct Polling {
    deadline: Deadline,
    pause: Pause,
}

impl Polling {
    pub fn new(timeout: Duration, pause: Pause) -> Self {
        Self { deadline: Deadline::after(timeout), pause }
    }

    pub fn remaining(&self) -> Duration {
        self.deadline.remaining()
    }

    /// Counts a failed attempt and sleeps until the next one.
    ///
    /// # Errors
    /// [`LockError::Busy`] after the deadline.
    pub(crate) async fn pause(&self, usage: &UsageCounter) -> Result<(), LockError> {
        if self.deadline.has_passed() {
            return Err(LockError::Busy);
        }
        usage.poll();
        let range = self.pause.max.saturating_sub(self.pause.min).as_micros();
        let range = u64::try_from(range).unwrap_or(u64::MAX - 1);
        let pause = self.pause.min + Duration::from_micros(random() % (range + 1));
        tokio::time::sleep(pause.min(self.deadline.remaining())).await;
        Ok(())
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
