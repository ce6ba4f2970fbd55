//! Calls with a request number, which the cluster executes once.
//!
//! A session remembers the answers to its last calls, and rejects new calls up to the largest forgotten number. The
//! client therefore limits how far its calls run ahead of the oldest one in progress. Bounds: [`CALLS_MAX`] calls.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use holdfast_types::RequestNumber;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::Error;
use crate::numbers::{is_over, next_request};

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
