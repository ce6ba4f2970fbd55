//! Guards under their names, and the events about them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use holdfast_client::http::Method;
use holdfast_client::{
    CancellationToken, Client, Error, Guard, Hold, Loss, MultiGuard, SessionName, TransferError,
};
use holdfast_tests_clients::protocol::{AnswerError, LockMode};
use serde_json::json;

use crate::mutation::Mutation;
use crate::state::{AdapterState, Answered, cause_of, error_of, invalid, lock, lost};

/// A guard of one lock or of several.
pub(crate) enum AnyGuard {
    One(Guard),
    Many(MultiGuard),
}

impl AnyGuard {
    pub(crate) fn holds(&self) -> Vec<Hold> {
        match self {
            Self::One(guard) => vec![guard.hold()],
            Self::Many(guard) => guard.holds().cloned().collect(),
        }
    }
}

/// A guard that the adapter keeps. Its views stay when it is released.
pub(crate) struct KeptGuard {
    pub(crate) name: String,
    pub(crate) client: String,
    holds: Vec<Hold>,
    guard: tokio::sync::Mutex<Option<AnyGuard>>,
    /// Cancelled before a release: no event follows.
    ended: CancellationToken,
    received: Instant,
    /// Whether an event has reported the loss.
    is_reported: AtomicBool,
}

impl KeptGuard {
    /// Ends the events of the guard.
    pub(crate) fn end(&self) {
        self.ended.cancel();
    }

    pub(crate) async fn take(&self) -> Option<AnyGuard> {
        self.guard.lock().await.take()
    }

    /// Fails if the guard is lost or released.
    pub(crate) fn check(&self, state: &AdapterState) -> Result<(), Loss> {
        if self.ended.is_cancelled() {
            let held = self.holds.iter().try_for_each(Hold::ensure);
            return held.and(Err(Loss::ReleasedElsewhere));
        }
        if state.has(Mutation::SilentReacquire) {
            return Ok(());
        }
        let result = self.holds.iter().try_for_each(Hold::ensure);
        match result {
            Err(Loss::NotRenewed { .. }) if state.has(Mutation::NoLocalDeadline) => Ok(()),
            result => result,
        }
    }

    pub(crate) fn remaining(&self, state: &AdapterState, ttl: Duration) -> Duration {
        if self.check(state).is_err() {
            return Duration::ZERO;
        }
        if state.has(Mutation::DeadlineFromReceipt) {
            return ttl.saturating_sub(self.received.elapsed());
        }
        self.holds.iter().map(Hold::remaining).min().unwrap_or_default()
    }

    pub(crate) fn report_progress(&self) -> Result<(), Loss> {
        self.holds.iter().try_for_each(Hold::report_progress)
    }

    /// The first hold.
    pub(crate) fn first(&self) -> Option<&Hold> {
        self.holds.first()
    }

    /// The guard, unless it was released.
    pub(crate) async fn slot(&self) -> tokio::sync::MutexGuard<'_, Option<AnyGuard>> {
        self.guard.lock().await
    }
}

/// The guard of one lock.
pub(crate) fn one(slot: &mut Option<AnyGuard>) -> Result<&mut Guard, AnswerError> {
    match slot {
        Some(AnyGuard::One(guard)) => Ok(guard),
        Some(AnyGuard::Many(_)) => Err(invalid("a guard of several locks".to_owned())),
        None => Err(lost(&Loss::ReleasedElsewhere)),
    }
}

/// Keeps a guard, and begins its events.
pub(crate) fn keep(state: &Arc<AdapterState>, client: &str, name: &str, guard: AnyGuard) {
    let kept = Arc::new(KeptGuard {
        name: name.to_owned(),
        client: client.to_owned(),
        holds: guard.holds(),
        guard: tokio::sync::Mutex::new(Some(guard)),
        ended: CancellationToken::new(),
        received: Instant::now(),
        is_reported: AtomicBool::new(false),
    });
    lock(&state.guards).insert(name.to_owned(), kept.clone());
    for hold in kept.holds.clone() {
        tokio::spawn(report_loss(state.clone(), kept.clone(), hold.clone()));
        tokio::spawn(report_requests(state.clone(), kept.clone(), hold));
    }
}

async fn report_loss(state: Arc<AdapterState>, kept: Arc<KeptGuard>, hold: Hold) {
    let loss = tokio::select! {
        biased;
        () = kept.ended.cancelled() => return,
        loss = hold.lost() => loss,
    };
    if state.has(Mutation::SilentReacquire) {
        return acquire_again(&state, &kept, &hold).await;
    }
    if state.has(Mutation::NoLocalDeadline) && matches!(loss, Loss::NotRenewed { .. }) {
        return;
    }
    // One event for a guard: a multi-lock is lost as a whole.
    if !kept.is_reported.swap(true, Ordering::Relaxed) {
        state.write(&json!({
            "event": "lost", "guard": kept.name, "lock": hold.lock(), "token": hold.token(), "cause": cause_of(&loss),
        }));
    }
}

async fn report_requests(state: Arc<AdapterState>, kept: Arc<KeptGuard>, hold: Hold) {
    let mut known = None;
    loop {
        let request = tokio::select! {
            biased;
            () = kept.ended.cancelled() => return,
            request = hold.release_requested_after(known.as_ref()) => request,
        };
        state.write(&json!({
            "event": "release-requested", "guard": kept.name, "lock": hold.lock(), "reason": request.reason,
        }));
        known = Some(request);
    }
}

/// The mutation: the guard lives on with a new hold, and its user learns nothing.
async fn acquire_again(state: &AdapterState, kept: &KeptGuard, hold: &Hold) {
    let Ok(client) = state.client(&kept.client) else { return };
    if let Ok(guard) = client.client.lock(hold.lock().as_str()).acquire().await {
        let before = kept.guard.lock().await.replace(AnyGuard::One(guard));
        drop(before);
    }
}

pub(crate) async fn release(state: &AdapterState, name: &str) -> Answered {
    let kept = state.guard(name)?;
    let check = kept.check(state);
    kept.end();
    let guard = kept.take().await;
    check.map_err(|loss| lost(&loss))?;
    let result = match guard {
        Some(AnyGuard::One(guard)) if state.has(Mutation::ReleaseWithoutToken) => {
            release_without_token(&state.client(&kept.client)?.client, guard).await
        }
        Some(AnyGuard::One(guard)) => guard.release().await,
        Some(AnyGuard::Many(guard)) => guard.release().await,
        None => Err(Error::Lost(Loss::ReleasedElsewhere)),
    };
    result.map_err(|error| error_of(&error))?;
    Ok(json!({}))
}

/// Transfers the hold. A refused transfer leaves a guard of it under the same name.
pub(crate) async fn transfer(
    state: &Arc<AdapterState>,
    name: &str,
    (to, owner): (&str, Option<&str>),
) -> Answered {
    let to = SessionName::new(to).map_err(|error| invalid(error.to_string()))?;
    let kept = state.guard(name)?;
    let mut slot = kept.slot().await;
    one(&mut slot)?;
    let Some(AnyGuard::One(guard)) = slot.take() else {
        return Err(lost(&Loss::ReleasedElsewhere));
    };
    drop(slot);
    kept.end();
    match guard.transfer(&to, owner).await {
        Ok(token) => Ok(json!({ "token": token })),
        Err(TransferError { error, guard }) => {
            if let Some(guard) = guard {
                keep(state, &kept.client, name, AnyGuard::One(*guard));
            }
            Err(error_of(&error))
        }
    }
}

/// The mutation: releases whatever the owner holds when the call arrives.
async fn release_without_token(client: &Client, guard: Guard) -> Result<(), Error> {
    let (lock, session) = (guard.lock().to_string(), guard.session().to_string());
    let owner = guard.grant().owner.as_ref().map(ToString::to_string);
    std::mem::forget(guard);
    let owner = owner.map(|owner| format!("&owner={owner}")).unwrap_or_default();
    let target = format!("/v1/locks/{lock}?session={session}{owner}");
    client.call_raw(&holdfast_client::Call::new(Method::DELETE, target)).await.map(drop)
}

pub(crate) async fn upgrade(state: &AdapterState, name: &str, wait_ms: Option<u64>) -> Answered {
    let wait = wait_ms.map_or(Duration::from_mins(5), Duration::from_millis);
    let kept = state.guard(name)?;
    let mut slot = kept.slot().await;
    let token = one(&mut slot)?.upgrade(wait).await.map_err(|error| error_of(&error))?;
    Ok(json!({ "token": token }))
}

pub(crate) async fn downgrade(
    state: &AdapterState,
    name: &str,
    mode: Option<LockMode>,
) -> Answered {
    let to = match mode {
        None | Some(LockMode::Shared) => holdfast_client::Mode::Shared,
        Some(LockMode::Upgradable) => holdfast_client::Mode::Upgradable,
        Some(LockMode::Exclusive) => return Err(invalid("no downgrade".to_owned())),
    };
    let kept = state.guard(name)?;
    let mut slot = kept.slot().await;
    one(&mut slot)?.downgrade(to).await.map_err(|error| error_of(&error))?;
    Ok(json!({}))
}
