//! The order of calls in flight: a call with a newer token waits until the calls with older tokens have ended. From
//! then on older tokens are rejected.
//!
//! A call arrives, raises the mark, waits for older calls, and enters. Without the wait, a call that entered and was
//! paused would write after its successor. Without the arrival, the entry with the successor's mark could be removed
//! while an older call waits for its own mark. The older call would then enter. Bounds: one entry for each resource
//! with calls in flight; the wait for older calls has a timeout.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use holdfast_types::FencingToken;
use tokio::sync::Notify;

use crate::{Claim, FenceError};

use super::problem::FenceRejection;

/// The calls of one process, by resource.
#[derive(Debug, Default)]
pub(super) struct CallOrder {
    /// With the number of calls in flight; the last call removes the entry.
    resources: Mutex<BTreeMap<String, (Arc<ResourceCalls>, usize)>>,
}

/// The calls on one resource.
#[derive(Debug, Default)]
struct ResourceCalls {
    state: Mutex<CallState>,
    /// Notified when a call has ended or the mark has risen.
    changed: Notify,
}

#[derive(Debug, Default)]
struct CallState {
    /// The highest mark of a call in flight.
    mark: FencingToken,
    /// The number of running calls with each token.
    running: BTreeMap<FencingToken, usize>,
}

/// A running call, until this is dropped.
#[derive(Debug)]
pub(super) struct RunningCall {
    arrival: CallArrival,
    token: FencingToken,
}

/// A call in flight. It keeps the entry of the resource with the highest mark.
#[derive(Debug)]
struct CallArrival {
    order: Arc<CallOrder>,
    resource: String,
    calls: Arc<ResourceCalls>,
}

impl CallOrder {
    /// Raises the mark by `raise`, and returns when no call with a token below the mark is running. Rejects the claim
    /// if a newer call has raised the mark since the arrival, even if that call has ended.
    pub(super) async fn enter(
        self: &Arc<Self>,
        resource: &str,
        claim: Claim,
        raise: impl Future<Output = Result<FencingToken, FenceError>>,
        drain_timeout: Duration,
    ) -> Result<RunningCall, FenceRejection> {
        let arrival = self.arrive(resource);
        let mark = raise.await.map_err(FenceRejection::Marks)?;
        arrival.calls.raise(mark);
        let entering = arrival.calls.enter(resource, claim.token());
        match tokio::time::timeout(drain_timeout, entering).await {
            Ok(entered) => entered.map_err(FenceRejection::Marks)?,
            Err(_) => return Err(FenceRejection::Busy),
        }
        Ok(RunningCall { arrival, token: claim.token() })
    }

    fn arrive(self: &Arc<Self>, resource: &str) -> CallArrival {
        let mut resources = lock(&self.resources);
        let (calls, count) = resources.entry(resource.to_owned()).or_default();
        *count += 1;
        CallArrival {
            order: Arc::clone(self),
            resource: resource.to_owned(),
            calls: Arc::clone(calls),
        }
    }

    fn leave(&self, resource: &str) {
        let mut resources = lock(&self.resources);
        if let Some((_, count)) = resources.get_mut(resource) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                resources.remove(resource);
            }
        }
    }
}

impl ResourceCalls {
    fn raise(&self, mark: FencingToken) {
        let mut state = lock(&self.state);
        if mark > state.mark {
            state.mark = mark;
            drop(state);
            self.changed.notify_waiters();
        }
    }

    async fn enter(&self, resource: &str, token: FencingToken) -> Result<(), FenceError> {
        loop {
            let changed = self.changed.notified();
            if self.step(resource, token)? {
                return Ok(());
            }
            changed.await;
        }
    }

    /// Enters unless an older call is running. Returns whether the call has entered.
    fn step(&self, resource: &str, token: FencingToken) -> Result<bool, FenceError> {
        let mut state = lock(&self.state);
        // A newer call may have arrived during the wait.
        Claim::exclusive(token).judge(resource, Some(state.mark))?;
        let older = state.running.keys().next().is_some_and(|oldest| *oldest < state.mark);
        if !older {
            *state.running.entry(token).or_default() += 1;
        }
        Ok(!older)
    }

    fn end(&self, token: FencingToken) {
        let mut state = lock(&self.state);
        if let Some(count) = state.running.get_mut(&token) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                state.running.remove(&token);
            }
        }
        drop(state);
        self.changed.notify_waiters();
    }
}

impl Drop for RunningCall {
    fn drop(&mut self) {
        self.arrival.calls.end(self.token);
    }
}

impl Drop for CallArrival {
    fn drop(&mut self) {
        self.order.leave(&self.resource);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
