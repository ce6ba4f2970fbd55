//! A checked request for a lock, or for several locks that are granted together.

use std::time::{Duration, Instant};

use holdfast_api::{AcquireParams, TermsParams, WAIT_MAX};
use holdfast_types::{Labels, LockName, Mode, Owner, SessionName, millis};

use crate::queue_entry::ClientQueueEntry;

/// How long to wait in the queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaitLimit {
    /// `None` waits without end.
    until: Option<Instant>,
}

impl WaitLimit {
    pub(crate) const ENDLESS: Self = Self { until: None };

    pub(crate) fn none() -> Self {
        Self::new(Duration::ZERO)
    }

    pub(crate) fn new(wait: Duration) -> Self {
        Self { until: Instant::now().checked_add(wait) }
    }

    /// The wait of the next call, in the whole milliseconds of the API.
    pub(crate) fn next_call(self) -> Duration {
        let left = self.until.map(|until| until.saturating_duration_since(Instant::now()));
        Duration::from_millis(millis(left.unwrap_or(WAIT_MAX).min(WAIT_MAX)))
    }

    pub(crate) fn is_over(self) -> bool {
        self.next_call().is_zero()
    }
}

/// A checked request for one lock, or for several locks that are granted together.
#[derive(Clone, Debug)]
pub(crate) struct ClientLockRequest {
    /// At least one.
    pub(crate) locks: Vec<LockName>,
    pub(crate) owner: Option<Owner>,
    /// Whether another session handed the hold over: no attempt of this client acquired it.
    pub(crate) handed_over: bool,
    pub(crate) labels: Labels,
    pub(crate) beacon: Option<Duration>,
    /// `None`: exclusive, or the mode of the existing hold.
    pub(crate) mode: Option<Mode>,
    /// Several locks support `max_hold` alone.
    pub(crate) terms: TermsParams,
    pub(crate) request_timeout: Duration,
}

impl ClientLockRequest {
    /// The request of one more guard for the same owner, whose hold may have another mode by now.
    pub(crate) fn reentry(&self) -> Self {
        Self { handed_over: false, mode: None, ..self.clone() }
    }

    pub(crate) fn params(
        &self,
        session: &SessionName,
        entry: &ClientQueueEntry,
        mode: Option<Mode>,
        wait: Duration,
    ) -> AcquireParams {
        AcquireParams {
            session: Some(session.clone()),
            owner: self.owner.clone(),
            attempt: entry.attempt(),
            wait,
            mode,
            labels: self.labels.clone(),
            terms: self.terms.clone(),
            ..AcquireParams::default()
        }
    }
}
