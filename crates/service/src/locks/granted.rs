//! The result of an acquire, and the times from which it is computed.

use std::time::{Duration, Instant};

use holdfast_types::{Grant, Revision};

use crate::context::Response;
use crate::failure::Failure;

/// The caller holds the lock, or each lock of its multi-lock.
#[derive(Clone, Debug)]
pub struct Granted {
    /// The grant of the first lock by name.
    pub grant: Grant,
    /// The grants of the other locks of a multi-lock, by name.
    pub others: Vec<Grant>,
    /// The time from the request's arrival to this reply.
    pub waited: Duration,
    /// The guaranteed remaining time of the lease at this reply. A client that counts `waited + expires_in` from the
    /// moment it *sent* the request stops before the server expires the lease.
    pub expires_in: Duration,
}

/// The times of one acquire.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AcquireClock {
    pub(crate) arrived: Instant,
    /// The start of the last session renewal that a quorum confirmed.
    pub(crate) confirmed_at: Instant,
    /// When the wait ends.
    pub(crate) until: Instant,
}

impl AcquireClock {
    pub(crate) fn start(wait: Duration) -> Self {
        let arrived = Instant::now();
        Self { arrived, confirmed_at: arrived, until: arrived + wait }
    }

    /// Builds the result of an acquire from its grants, in the order of the locks.
    pub(crate) fn granted(
        &self,
        grants: Vec<Grant>,
        revision: Revision,
    ) -> Result<Response<Granted>, Failure> {
        let mut others = grants.into_iter();
        let grant = others.next().ok_or(Failure::UnexpectedReply)?;
        let others = others.collect();
        let now = Instant::now();
        let waited = now.duration_since(self.arrived);
        let since_confirmed = now.duration_since(self.confirmed_at);
        let expires_in = grant.ttl.as_duration().saturating_sub(since_confirmed);
        Ok(Response::new(Granted { grant, others, waited, expires_in }, revision))
    }
}
