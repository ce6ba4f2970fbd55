//! Calls in flight: a newer token waits until the calls with older ones have ended, and from then on they are refused.
//!
//! Owns the order "raise the mark, let the older calls end, let the newer in", without which a call that was let in
//! and then paused would write after its successor. Refuses to know HTTP and where marks are kept. Bounds: one entry
//! for a resource with calls in flight or waiting, none without; a wait ends with the caller's patience.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use holdfast_types::FencingToken;
use tokio::sync::Notify;

use crate::{Claim, FenceError};

use super::problem::Refusal;

/// The calls of one process, by resource.
#[derive(Debug, Default)]
pub(super) struct Gate {
    /// With the number of those who are or want to be in; an entry goes with the last of them.
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
    /// The highest mark that a caller here has heard of.
    mark: FencingToken,
    /// How many calls run under each token.
    running: BTreeMap<FencingToken, usize>,
}

/// A call that was let in; it has ended when this is dropped.
#[derive(Debug)]
pub(super) struct Pass {
    interest: Interest,
    token: FencingToken,
}

/// Somebody who is or wants to be in: keeps the resource's entry.
#[derive(Debug)]
struct Interest {
    gate: Arc<Gate>,
    resource: String,
    calls: Arc<Calls>,
}

impl Gate {
    /// Lets a claim in whose mark was raised to `mark`: once no call with a token below the mark is running.
    pub(super) async fn enter(
        self: &Arc<Self>,
        resource: &str,
        claim: Claim,
        mark: FencingToken,
        patience: Duration,
    ) -> Result<Pass, Refusal> {
        let interest = self.interest(resource);
        interest.calls.raise(mark);
        let entering = interest.calls.enter(resource, claim.token());
        match tokio::time::timeout(patience, entering).await {
            Ok(entered) => entered.map_err(Refusal::Marks)?,
            Err(_) => return Err(Refusal::Busy),
        }
        Ok(Pass { interest, token: claim.token() })
    }

    fn interest(self: &Arc<Self>, resource: &str) -> Interest {
        let mut resources = lock(&self.resources);
        let (calls, count) = resources.entry(resource.to_owned()).or_default();
        *count += 1;
        Interest { gate: Arc::clone(self), resource: resource.to_owned(), calls: Arc::clone(calls) }
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
        self.interest.calls.end(self.token);
    }
}

impl Drop for Interest {
    fn drop(&mut self) {
        self.gate.leave(&self.resource);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
