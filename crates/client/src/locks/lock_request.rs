//! A checked request for a lock or a multi-lock.

use std::time::{Duration, Instant};

use holdfast_api::parameters::lock::{
    LIMIT, MAX_HOLD, MIN_HOLD, MODE, NAMES, PERMITS, PRIORITY, QUEUE_MAX, REENTRANT, SESSION,
    SHARD, SHARDS, VALUE,
};
use holdfast_api::parameters::{ATTEMPT, CHANGE, INCARNATION, OWNER, WAIT};
use holdfast_api::{Query, WAIT_MAX, lock_path};
use holdfast_types::{
    Attempt, FencingToken, Labels, LockName, Mode, Owner, SessionId, SessionName, ShardChoice,
    millis,
};

use crate::calls::call::{Call, Copies};
use crate::http::Method;

/// The path of a multi-lock call.
pub(crate) const LOCKS_PATH: &str = "/v1/locks";

#[derive(Clone, Copy, Debug)]
pub(crate) struct WaitLimit {
    /// `None` waits without limit.
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

    /// Returns the wait of the next call, in whole milliseconds, the unit of the API.
    pub(crate) fn next_call(self) -> Duration {
        self.left_at(Instant::now())
    }

    pub(crate) fn is_over(self) -> bool {
        self.next_call().is_zero()
    }

    /// Whether the wait is over before a call at this moment.
    pub(crate) fn is_over_at(self, moment: Instant) -> bool {
        self.left_at(moment.max(Instant::now())).is_zero()
    }

    fn left_at(self, moment: Instant) -> Duration {
        let left = self.until.map(|until| until.saturating_duration_since(moment));
        Duration::from_millis(millis(left.unwrap_or(WAIT_MAX).min(WAIT_MAX)))
    }
}

/// Options of a hold. `None` uses the default of the cluster.
#[derive(Clone, Debug, Default)]
pub(crate) struct HoldOptions {
    pub(crate) permits: Option<u32>,
    pub(crate) limit: Option<u32>,
    pub(crate) priority: Option<u8>,
    pub(crate) not_reentrant: bool,
    /// Whether to enter the hold that the owner has in a semaphore.
    pub(crate) enters: bool,
    pub(crate) queue_max: Option<u32>,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) min_hold: Option<Duration>,
    pub(crate) value: Option<String>,
    /// The number of shards of a sharded lock.
    pub(crate) shards: Option<u32>,
    /// The number of the requested shard.
    pub(crate) shard: Option<u32>,
}

impl HoldOptions {
    /// Whether the request is for one shard of a sharded lock.
    pub(crate) fn is_sharded(&self) -> bool {
        self.shards.is_some() || self.shard.is_some()
    }
}

/// What a change gives a hold; `None` keeps the present.
#[derive(Clone, Debug, Default)]
pub(crate) struct RequestedChange {
    pub(crate) mode: Option<Mode>,
    pub(crate) min_hold: Option<Duration>,
    pub(crate) value: Option<String>,
}

/// A checked request for one lock or a multi-lock.
#[derive(Clone, Debug)]
pub(crate) struct ClientLockRequest {
    /// Never empty.
    pub(crate) locks: Vec<LockName>,
    pub(crate) owner: Option<Owner>,
    /// The token of a hold that another session transferred: no attempt of this client acquired it.
    pub(crate) transferred: Option<FencingToken>,
    pub(crate) labels: Labels,
    pub(crate) progress_timeout: Option<Duration>,
    /// `None` is exclusive.
    pub(crate) mode: Option<Mode>,
    /// A multi-lock supports only `max_hold` and `queue_max`.
    pub(crate) options: HoldOptions,
    pub(crate) request_timeout: Duration,
}

impl ClientLockRequest {
    /// Builds the request of another guard for the same owner.
    pub(crate) fn reentry(&self, mode: Mode) -> Self {
        // The hold keeps its permits, of which some may be given back.
        let options = HoldOptions { enters: true, permits: None, ..self.options.clone() };
        Self { transferred: None, mode: Some(mode), options, ..self.clone() }
    }

    /// Builds the call that changes an attempt's hold; `by` is the number of the change. It never acquires the lock.
    pub(crate) fn change_call(
        &self,
        (session, incarnation): (&SessionName, SessionId),
        attempt: Option<Attempt>,
        by: Attempt,
        change: &RequestedChange,
        wait: Duration,
    ) -> Call {
        let query = Query::default()
            .with(&SESSION, session)
            .with(&INCARNATION, &incarnation)
            .with_some(&OWNER, self.owner.as_ref())
            .with(&ATTEMPT, &by)
            .with(&CHANGE, &attempt.unwrap_or(Attempt::UNNAMED))
            .with_some(&WAIT, Some(&wait).filter(|wait| !wait.is_zero()))
            .with_some(&MODE, change.mode.as_ref())
            .with_some(&MIN_HOLD, change.min_hold.as_ref())
            .with_some(&VALUE, change.value.as_ref())
            .with_some(&SHARDS, self.options.shards.as_ref())
            .with_some(&SHARD, self.options.shard.map(ShardChoice::At).as_ref());
        let path = self.locks.first().map(lock_path).unwrap_or_default();
        Call::new(Method::PUT, query.target(&path)).wait(wait).copies(Copies::Harmless)
    }

    /// Builds the call that acquires the locks, or renews the attempt's hold.
    pub(crate) fn call(
        &self,
        (session, incarnation): (&SessionName, SessionId),
        attempt: Attempt,
        mode: Option<Mode>,
        wait: Duration,
    ) -> Call {
        let options = &self.options;
        let names = if self.locks.len() == 1 { &[][..] } else { &self.locks };
        let query = Query::default()
            .with_each(&NAMES, names)
            .with(&SESSION, session)
            .with(&INCARNATION, &incarnation)
            .with_some(&OWNER, self.owner.as_ref())
            .with(&ATTEMPT, &attempt)
            .with_some(&WAIT, Some(&wait).filter(|wait| !wait.is_zero()))
            .with_some(&QUEUE_MAX, options.queue_max.as_ref())
            .with_some(&MODE, mode.as_ref())
            .with_some(&PERMITS, options.permits.as_ref())
            .with_some(&LIMIT, options.limit.as_ref())
            .with_some(&PRIORITY, options.priority.as_ref())
            .with_some(&MAX_HOLD, options.max_hold.as_ref())
            .with_some(&MIN_HOLD, options.min_hold.as_ref())
            .with_some(&VALUE, options.value.as_ref())
            .with_some(&SHARDS, options.shards.as_ref())
            .with_some(&SHARD, options.shard.map(ShardChoice::At).as_ref())
            .with_labels(&self.labels);
        let query = match (options.not_reentrant, options.enters && names.is_empty()) {
            (true, _) => query.with_flag(&REENTRANT, false),
            (false, true) => query.with_flag(&REENTRANT, true),
            (false, false) => query,
        };
        let call = match self.locks.as_slice() {
            [lock] => Call::new(Method::PUT, query.target(&lock_path(lock))),
            _ => Call::new(Method::POST, query.target(LOCKS_PATH)),
        };
        call.wait(wait).copies(Copies::Harmless)
    }
}
