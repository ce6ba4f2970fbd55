//! Changing the mode of a held lock without releasing it: up to exclusive, or down to a weaker mode. Each call names the
//! attempt that it changes and has a number of its own, so a late copy of any call converts nothing.
//!
//! While the mode is unknown, the queue entry is `Converting`, so that its new token does not look like a loss. An
//! upgrade that ends early restores the old mode, in the background if necessary. A downgrade never waits; the client
//! repeats it until the cluster confirms it. Bounds: one change of a hold at a time, with one call in flight.

use std::sync::Arc;
use std::time::{Duration, Instant};

use holdfast_api::GrantBody;
use holdfast_types::{Attempt, FencingToken, Mode};
use tokio::sync::OwnedMutexGuard;

use crate::calls::retry::{Answer, Delivery, RETRY_PAUSE, accepted};
use crate::error::{is_hold_gone, newest_attempt};
use crate::locks::hold::Hold;
use crate::locks::lock_request::{ClientLockRequest, RequestedChange, WaitLimit};
use crate::locks::queue_entry::EntryStage;
use crate::numbers;
use crate::sessions::lease::Acknowledged;
use crate::{Error, Guard, Loss};

impl Guard {
    /// Becomes exclusive when the shared holders have left, ahead of the queue, and with a **new token**. The earlier
    /// [token](Hold::token) is stale from then on. New shared holders wait meanwhile. Requires a guard of
    /// [`Lock::upgradable`](crate::Lock::upgradable). Dropping the future leaves the guard upgradable.
    ///
    /// # Errors
    /// [`Error::Busy`] if the other holders did not leave in time: the guard is still upgradable. [`Error::Rejected`] if
    /// the guard is shared; [`Error::Lost`] if the lock is lost.
    pub async fn upgrade(&mut self, timeout: Duration) -> Result<FencingToken, Error> {
        let limit = WaitLimit::new(timeout);
        let turn_within = timeout.max(self.locks.request.request_timeout);
        let turn = tokio::time::timeout(turn_within, turn(&self.hold)).await.map_err(|_| {
            Error::Unavailable("an earlier change of the mode is not over".to_owned())
        })??;
        if self.mode() == Mode::Exclusive {
            return Ok(self.token());
        }
        let session = self.hold.session.clone();
        // Dropped after the fallback has begun.
        let _wait = session.pending.token();
        let mut change = ModeChange::begin(&self.hold, &self.locks.request, self.mode(), turn);
        let mut is_renumbered = false;
        loop {
            let Delivery { result, in_doubt, retry_at } = tokio::select! {
                delivery = change.call(Mode::Exclusive, limit) => delivery?,
                () = session.closing.cancelled() => return Err(Error::Lost(Loss::SessionEnded)),
            };
            match result {
                Ok(answer) if !Mode::Exclusive.is_stronger_than(answer.body.mode) => {
                    return change.completed(Mode::Exclusive, answer);
                }
                // The cluster executed a later call of this hold, so this one changed nothing.
                Ok(_) if !is_renumbered => is_renumbered = true,
                Ok(answer) => {
                    change.complete_fallback().await?;
                    let mode = answer.body.mode.as_str();
                    return Err(Error::Unavailable(format!("the lock kept the mode {mode}")));
                }
                Err(error) if error.is_uncertain() && !limit.is_over_at(retry_at) => {}
                Err(Error::Busy(_)) if !limit.is_over() => {}
                Err(Error::Rejected(problem))
                    if newest_attempt(&problem).is_some() && !is_renumbered =>
                {
                    is_renumbered = true;
                }
                Err(error) if is_hold_gone(&error) => {
                    return Err(change.gone(Loss::ReleasedElsewhere));
                }
                Err(error @ (Error::Busy(_) | Error::Rejected(_))) if !in_doubt => {
                    change.rejected();
                    return Err(error);
                }
                // The cluster may still have granted the upgrade.
                Err(error) => {
                    change.complete_fallback().await?;
                    return Err(error);
                }
            }
        }
    }

    /// Changes to a weaker mode immediately, with the same token: from exclusive to upgradable or shared, or from
    /// upgradable to shared.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the mode is stronger; [`Error::Lost`] if the lock is lost. After [`Error::Rejected`] the hold
    /// continues, and the cluster may keep the stronger mode: repeat the call.
    pub async fn downgrade(&mut self, to: Mode) -> Result<(), Error> {
        let turn = turn(&self.hold).await?;
        if to.is_stronger_than(self.mode()) {
            let (from, to) = (self.mode().as_str(), to.as_str());
            return Err(Error::InvalidArgument(format!(
                "{to} is not weaker than {from}: use upgrade()"
            )));
        }
        ModeChange::begin(&self.hold, &self.locks.request, to, turn).complete_fallback().await
    }
}

/// Waits until no other change of the mode is in progress, e.g. the fallback of a dropped upgrade. The mode of the hold is
/// final only then, and so is the token.
pub(crate) async fn turn(hold: &Hold) -> Result<OwnedMutexGuard<()>, Error> {
    let turn = tokio::select! {
        turn = hold.entry.mode_change.clone().lock_owned() => turn,
        loss = hold.lost() => return Err(Error::Lost(loss)),
    };
    hold.ensure()?;
    Ok(turn)
}

/// A hold between two modes. Dropping it completes the fallback in the background.
#[derive(Debug)]
struct ModeChange {
    hold: Hold,
    request: ClientLockRequest,
    /// A mode that is not stronger than the current one, so the cluster always grants it.
    fallback: Mode,
    token: FencingToken,
    /// Each call of the change has a larger number.
    newest: Attempt,
    /// No node accepts the next call before.
    retry_at: Instant,
    is_over: bool,
    /// Excludes other changes of the hold. `None` only after the drop.
    turn: Option<OwnedMutexGuard<()>>,
}

impl ModeChange {
    fn begin(
        hold: &Hold,
        request: &ClientLockRequest,
        fallback: Mode,
        turn: OwnedMutexGuard<()>,
    ) -> Self {
        let token = hold.token();
        hold.entry.enter(EntryStage::Converting(token));
        let newest = hold.entry.attempt().unwrap_or_default();
        let (hold, request, turn) = (hold.clone(), request.clone(), Some(turn));
        let retry_at = Instant::now();
        Self { hold, request, fallback, token, newest, retry_at, is_over: false, turn }
    }

    /// Requests a mode once.
    ///
    /// # Errors
    /// The loss of the hold during the call.
    async fn call(&mut self, mode: Mode, limit: WaitLimit) -> Result<Delivery<GrantBody>, Error> {
        let (session, entry) = (&self.hold.session, &self.hold.entry);
        let change = RequestedChange { mode: Some(mode), ..RequestedChange::default() };
        let by = numbers::next_after(self.newest);
        let calls = session.calls.with_timeout(self.request.request_timeout);
        let mut is_granted_elsewhere = false;
        loop {
            let send = async {
                accepted(self.retry_at).await;
                let (request, wait) = (&self.request, limit.next_call());
                let call = request.change_call(session.id(), entry.attempt(), by, &change, wait);
                calls.deliver_acquire(&call, is_granted_elsewhere).await
            };
            tokio::select! {
                delivery = send => {
                    let delivery = delivery.json();
                    self.retry_at = delivery.retry_at;
                    if let Err(Error::Rejected(problem)) = &delivery.result {
                        // Another program of the session may have a larger number.
                        self.newest = newest_attempt(problem).unwrap_or(self.newest);
                    }
                    return Ok(delivery);
                }
                loss = self.hold.lost() => return Err(Error::Lost(loss)),
                // A renewal listed the new token: the node that holds the call is behind, so the call is sent again.
                () = entry.granted_elsewhere.notified() => is_granted_elsewhere = true,
            }
        }
    }

    /// Completes the change after the cluster granted the mode. The answer has the strongest mode of the owner's guards,
    /// and each guard keeps its own.
    fn completed(&mut self, mode: Mode, answer: Answer<GrantBody>) -> Result<FencingToken, Error> {
        let Answer { body: mut grant, sent } = answer;
        grant.mode = mode;
        let token = grant.token;
        let counted_from = sent.plus(Duration::from_millis(grant.waited_ms));
        let held = Duration::from_millis(grant.expires_in_ms.unwrap_or(0));
        self.hold.session.acknowledge(Acknowledged { counted_from, held })?;
        self.hold.session.entries.follow_upgrade(&grant.lock, grant.ticket, token);
        self.hold.grant.send_replace(Arc::new(grant));
        self.hold.entry.enter(EntryStage::Held(token));
        self.is_over = true;
        Ok(token)
    }

    /// Ends the change: the cluster no longer has the hold.
    fn gone(&mut self, loss: Loss) -> Error {
        self.is_over = true;
        self.hold.entry.lose(loss.clone());
        Error::Lost(loss)
    }

    /// Ends the change: the cluster rejected it, and the hold continues.
    fn rejected(&mut self) {
        self.hold.entry.enter(EntryStage::Held(self.token));
        self.is_over = true;
    }

    /// Requests the fallback until the cluster confirms it.
    async fn complete_fallback(mut self) -> Result<(), Error> {
        let mut is_renumbered = false;
        loop {
            let result = self.call(self.fallback, WaitLimit::none()).await?.result;
            if self.hold.entry.stage() == EntryStage::Leaving {
                // The guard was released meanwhile.
                self.is_over = true;
                return Err(Error::Lost(Loss::ReleasedElsewhere));
            }
            match result {
                Ok(answer) => return self.completed(self.fallback, answer).map(drop),
                Err(error) if error.is_unclear() => {
                    self.retry_at = self.retry_at.max(Instant::now() + RETRY_PAUSE);
                }
                Err(Error::Rejected(problem))
                    if newest_attempt(&problem).is_some() && !is_renumbered =>
                {
                    is_renumbered = true;
                }
                Err(error) if is_hold_gone(&error) => {
                    return Err(self.gone(Loss::ReleasedElsewhere));
                }
                Err(Error::Lost(loss)) => return Err(self.gone(loss)),
                Err(error) => {
                    // An earlier call may have been executed. A renewal lists the token.
                    let mode = self.fallback;
                    self.hold.grant.send_modify(|grant| Arc::make_mut(grant).mode = mode);
                    self.rejected();
                    return Err(error);
                }
            }
        }
    }
}

impl Drop for ModeChange {
    fn drop(&mut self) {
        // After a loss there is no mode to restore.
        if self.is_over || !self.hold.is_held() {
            return;
        }
        let (hold, request) = (self.hold.clone(), self.request.clone());
        let (fallback, token) = (self.fallback, self.token);
        let (newest, retry_at) = (self.newest, self.retry_at);
        let turn = self.turn.take();
        let session = hold.session.clone();
        let restore = async move {
            let again =
                Self { hold, request, fallback, token, newest, retry_at, is_over: false, turn };
            // The hold reports the result.
            drop(again.complete_fallback().await);
        };
        session.pending.spawn_on(restore, &session.runtime);
    }
}
