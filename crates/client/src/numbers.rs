//! Numbers and names that no earlier call has: attempts, request numbers, and random bits; and calls with such numbers.
//!
//! A number must exceed those of all earlier attempts of its session, including attempts of other processes.
//! Microseconds since 1970 satisfy this unless clocks disagree. The cluster then returns the newest attempt.
//!
//! A session remembers the answers to its last calls, and rejects new calls up to the largest forgotten number. The
//! client therefore limits how far its calls run ahead of the oldest one in progress. Bounds: [`CALLS_MAX`] calls.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use holdfast_types::{Attempt, RequestNumber};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::Error;
use crate::error::{newest_attempt, newest_request};

/// The largest number that this process has returned.
static NEWEST: AtomicU64 = AtomicU64::new(0);

/// Returns a number larger than `after` and than every number returned before.
pub(crate) fn next_after(after: Attempt) -> Attempt {
    let since_1970 = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    let now = holdfast_types::micros(since_1970);
    let next = |newest: u64| now.max(after.0 + 1).max(newest + 1).min(Attempt::MAX.0);
    let newest =
        NEWEST.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |newest| Some(next(newest)));
    Attempt(next(newest.unwrap_or_else(|newest| newest)))
}

/// Returns a request number larger than `after` and than every number returned before.
pub(crate) fn next_request(after: RequestNumber) -> RequestNumber {
    RequestNumber(next_after(Attempt(after.0)).0)
}

/// Sends a call with an attempt larger than `after`. If a program with a clock that is ahead has used a larger one, sends the
/// call once more.
pub(crate) async fn with_attempt<T, F>(
    after: Attempt,
    send: impl Fn(Attempt) -> F,
) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    match send(next_after(after)).await {
        Err(Error::Rejected(problem)) if let Some(newest) = newest_attempt(&problem) => {
            send(next_after(newest)).await
        }
        result => result,
    }
}

/// Sends a call of a session that the caller selects, with a new request number. If the cluster certainly did not
/// execute the call because the number is over, sends it once more with a larger number.
///
/// # Errors
/// See [`Error`].
pub async fn with_request_number<T, F>(send: impl Fn(RequestNumber) -> F) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    let first = send(next_request(RequestNumber(0))).await;
    match is_over(&first) {
        Some(newest) => send(next_request(newest)).await,
        None => first,
    }
}

/// Returns the newest number of the session, if the call was rejected because its own number is over.
pub(crate) fn is_over<T>(result: &Result<T, Error>) -> Option<RequestNumber> {
    result.as_ref().err().and_then(newest_request)
}

/// 64 random bits.
///
/// # Errors
/// [`Error::InvalidArgument`] if the operating system has none: no unique name can be generated.
pub(crate) fn bits() -> Result<u64, Error> {
    getrandom::u64().map_err(|error| {
        Error::InvalidArgument(format!("no randomness for a unique name: {error}"))
    })
}

/// A number from 0 to 255; 0 if the operating system has no randomness.
pub(crate) fn jitter() -> u8 {
    bits().map_or(0, |bits| bits.to_le_bytes()[0])
}

/// A session remembers the answers to 64 numbered calls, if the limits of the cluster are unchanged.
const CALLS_MAX: usize = 32;

/// The numbered calls of one session, except arrivals at barriers: the cluster keeps the number of a waiting arrival.
#[derive(Debug)]
pub(crate) struct NumberedCalls {
    permits: Arc<Semaphore>,
    /// The calls from the oldest one in progress, in the order of their numbers.
    started: Mutex<VecDeque<StartedCall>>,
}

#[derive(Debug)]
struct StartedCall {
    number: RequestNumber,
    is_over: bool,
    /// Returned when this call and all calls with smaller numbers are over.
    _permit: Option<OwnedSemaphorePermit>,
}

/// A call in progress.
struct CallInProgress<'a> {
    calls: &'a NumberedCalls,
    number: RequestNumber,
}

impl NumberedCalls {
    pub(crate) fn new() -> Self {
        Self { permits: Arc::new(Semaphore::new(CALLS_MAX)), started: Mutex::default() }
    }

    /// As [`with_request_number`](crate::with_request_number), for a call of this session.
    pub(crate) async fn send<T, F>(&self, send: impl Fn(RequestNumber) -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let first = {
            let call = self.begin(RequestNumber(0)).await;
            send(call.number).await
        };
        match is_over(&first) {
            Some(newest) => {
                let call = self.begin(newest).await;
                send(call.number).await
            }
            None => first,
        }
    }

    async fn begin(&self, after: RequestNumber) -> CallInProgress<'_> {
        let permit = self.permits.clone().acquire_owned().await.ok();
        let mut started = self.started();
        let number = next_request(after);
        started.push_back(StartedCall { number, is_over: false, _permit: permit });
        CallInProgress { calls: self, number }
    }

    /// Ignores poisoning: no change of the queue can panic halfway.
    fn started(&self) -> MutexGuard<'_, VecDeque<StartedCall>> {
        self.started.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for CallInProgress<'_> {
    fn drop(&mut self) {
        let mut started = self.calls.started();
        if let Some(call) = started.iter_mut().find(|call| call.number == self.number) {
            call.is_over = true;
        }
        while started.front().is_some_and(|call| call.is_over) {
            started.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Poll;

    use super::*;

    #[test]
    fn every_attempt_has_a_larger_number_than_those_before() {
        let first = next_after(Attempt::UNNAMED);
        let ahead = Attempt(first.0 + 1_000_000_000);
        let second = next_after(ahead);
        assert!(second > ahead, "another process of the session is ahead");
        assert!(next_after(Attempt::UNNAMED) > second);
    }

    /// Whether a call may start now.
    fn may_start(calls: &NumberedCalls) -> bool {
        let mut call = Box::pin(calls.send(async |_| Ok(())));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        matches!(call.as_mut().poll(&mut context), Poll::Ready(Ok(())))
    }

    #[tokio::test]
    async fn calls_do_not_run_far_ahead_of_a_call_in_progress() {
        let calls = NumberedCalls::new();
        let oldest = calls.begin(RequestNumber(0)).await;
        let second = calls.begin(RequestNumber(0)).await;
        assert!(second.number > oldest.number);
        drop(second);
        let ahead = (0..2 * CALLS_MAX).filter(|_| may_start(&calls)).count();
        assert_eq!(ahead, CALLS_MAX - 2, "with the oldest and the second");
        drop(oldest);
        assert!((0..2 * CALLS_MAX).all(|_| may_start(&calls)));
        assert_eq!(calls.permits.available_permits(), CALLS_MAX);
    }
}
