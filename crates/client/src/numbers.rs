//! Numbers and names that no earlier call has: attempts, request numbers, and random bits; and calls with such numbers.
//!
//! A number must exceed those of all earlier attempts of its session, including attempts of other processes.
//! Microseconds since 1970 satisfy this unless clocks disagree. The cluster then returns the newest attempt.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use holdfast_types::{Attempt, RequestNumber};

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_attempt_has_a_larger_number_than_those_before() {
        let first = next_after(Attempt::UNNAMED);
        let ahead = Attempt(first.0 + 1_000_000_000);
        let second = next_after(ahead);
        assert!(second > ahead, "another process of the session is ahead");
        assert!(next_after(Attempt::UNNAMED) > second);
    }
}
