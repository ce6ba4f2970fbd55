//! Calls in flight: a newer token waits until the calls with older ones have ended, and from then on they are refused.
//!
//! Owns the order "arrive, raise the mark, wait for the older calls to end, enter". Without the wait, a call that was let
//! in and then paused would write after its successor. Without the arrival, the gate could forget the successor's mark
//! while an older call still waits for its own mark, and would let the older call in afterwards. Refuses to know HTTP and
//! where marks are kept. Bounds: one entry for a resource with calls that arrived and have not ended, none without; the
//! wait for older calls ends with the caller's patience.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use holdfast_types::FencingToken;
use tokio::sync::Notify;

use crate::{Claim, FenceError};

use super::problem::Refusal;

/// The calls of one process, by resource.
#[derive(Debug, Default)]
pub(super) struct Gate {
    /// With the number of calls that arrived and have not ended; an entry goes with the last of them.
    resources: Mutex<BTreeMap<String, (Arc<Calls>, usize)>>,
}

/// The calls on one resource.
#[derive(Debug, Default)]
struct Calls {
    state: Mutex<State>,
    /// Woken when a call has ended or the mark has risen.
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// The highest mark that a call here has raised or found.
    mark: FencingToken,
    /// How many calls run under each token.
    running: BTreeMap<FencingToken, usize>,
}

/// A call that was let in; it has ended when this is dropped.
#[derive(Debug)]
pub(super) struct Pass {
    arrival: Arrival,
    token: FencingToken,
}

/// A call that is or wants to be in. It keeps the resource's entry, so the gate does not forget the highest mark.
#[derive(Debug)]
struct Arrival {
    gate: Arc<Gate>,
    resource: String,
    calls: Arc<Calls>,
}

impl Gate {
    /// Raises the mark by `raise`, and lets the claim in once no call with a token below the mark is running. The claim
    /// is refused if a newer call has raised the mark since it arrived, even if that call has ended.
    pub(super) async fn enter(
        self: &Arc<Self>,
        resource: &str,
        claim: Claim,
        raise: impl Future<Output = Result<FencingToken, FenceError>>,
        patience: Duration,
    ) -> Result<Pass, Refusal> {
        let arrival = self.arrive(resource);
        let mark = raise.await.map_err(Refusal::Marks)?;
        arrival.calls.raise(mark);
        let entering = arrival.calls.enter(resource, claim.token());
        match tokio::time::timeout(patience, entering).await {
            Ok(entered) => entered.map_err(Refusal::Marks)?,
            Err(_) => return Err(Refusal::Busy),
        }
        Ok(Pass { arrival, token: claim.token() })
    }

    fn arrive(self: &Arc<Self>, resource: &str) -> Arrival {
        let mut resources = lock(&self.resources);
        let (calls, count) = resources.entry(resource.to_owned()).or_default();
        *count += 1;
        Arrival { gate: Arc::clone(self), resource: resource.to_owned(), calls: Arc::clone(calls) }
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

impl Calls {
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

    /// True if the call is in.
    fn step(&self, resource: &str, token: FencingToken) -> Result<bool, FenceError> {
        let mut state = lock(&self.state);
        // Somebody newer came while this one was waiting.
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

impl Drop for Pass {
    fn drop(&mut self) {
        self.arrival.calls.end(self.token);
    }
}

impl Drop for Arrival {
    fn drop(&mut self) {
        self.gate.leave(&self.resource);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
