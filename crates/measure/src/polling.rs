//! The wait of a client whose lock has no queue: it attempts again after a pause.

use std::time::Duration;

use crate::LockError;
use crate::lock::UsageCounter;
use crate::wait::{Deadline, Pause};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Polling {
    deadline: Deadline,
    pause: Pause,
}

impl Polling {
    pub(crate) fn new(timeout: Duration, pause: Pause) -> Self {
        Self { deadline: Deadline::after(timeout), pause }
    }

    pub(crate) fn remaining(&self) -> Duration {
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
        self.pause.sleep(self.deadline).await;
        Ok(())
    }
}
