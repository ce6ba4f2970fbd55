//! A held lock. Only a grant creates a guard, and a lost guard stays lost.
//!
//! Each guard has one task, which ends with the guard. It cancels the guard's token at the loss, and releases a hold
//! that the client ended locally.

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::hold::Hold;
use crate::lock_request::ClientLockRequest;
use crate::session::SessionUse;
use crate::{Error, Loss};

/// A held lock, renewed in the background while this value lives. Dropping it releases the lock in the background;
/// [`Guard::release`] waits for the confirmation. [`Hold`] has the methods that read its state.
///
/// ```no_run
/// # async fn example(client: holdfast_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// let guard = client.lock("orders").acquire().await?;
/// for order in ["4711", "4712"] {
///     guard.ensure()?;
///     println!("UPDATE orders SET fence = {} WHERE id = {order} AND fence <= {0}", guard.token());
/// }
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "dropping the guard releases the lock"]
pub struct Guard {
    pub(crate) hold: Hold,
    pub(crate) request: ClientLockRequest,
    pub(crate) session: SessionUse,
    pub(crate) cancel: CancellationToken,
    pub(crate) monitor: JoinHandle<()>,
    /// Whether the guard has nothing to release.
    pub(crate) released: bool,
}

impl std::ops::Deref for Guard {
    type Target = Hold;

    fn deref(&self) -> &Hold {
        &self.hold
    }
}

impl Guard {
    pub(crate) fn new(hold: Hold, request: ClientLockRequest, session: SessionUse) -> Self {
        let cancel = CancellationToken::new();
        let monitor = session.session().runtime.spawn(watch_loss(hold.clone(), cancel.clone()));
        Self { hold, request, session, cancel, monitor, released: false }
    }

    /// Returns a view for the work under the lock.
    pub fn hold(&self) -> Hold {
        self.hold.clone()
    }

    /// Returns a token that is cancelled when the lock is lost, and when the guard ends in any other way.
    pub fn cancel_token(&self) -> CancellationToken {
        self.cancel.clone()
    }

    /// Releases the lock and waits for the confirmation.
    ///
    /// # Errors
    /// [`Error::Lost`] if the lock was lost before; otherwise see [`Error`]. In any case the lock is free once the
    /// session's time-to-live has passed without a renewal.
    pub async fn release(mut self) -> Result<(), Error> {
        let before = self.ensure();
        self.released = true;
        self.monitor.abort();
        let released = self.session.session().release(std::slice::from_ref(&self.entry)).await;
        if before.is_ok() && released.as_ref().is_err_and(Error::is_uncertain) {
            // Dropping the guard continues the release.
            self.released = false;
        }
        release_result(before, released)
    }
}

/// Returns the result of a release to the caller. `before` is the state of the hold before the call.
pub(crate) fn release_result(
    before: Result<(), Loss>,
    released: Result<(), Error>,
) -> Result<(), Error> {
    match (before, released) {
        (Err(loss), _) => Err(Error::Lost(loss)),
        (Ok(()), Err(Error::Refused(_))) => Err(Error::Lost(Loss::TakenAway)),
        (Ok(()), released) => released,
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.monitor.abort();
        self.cancel.cancel();
        if !self.released {
            self.session.session().release_in_background(vec![self.entry.clone()]);
        }
    }
}

/// Cancels the token at the loss. Releases a hold that the client has ended but the cluster would keep.
async fn watch_loss(hold: Hold, cancel: CancellationToken) {
    let loss = hold.lost().await;
    let is_given_up = loss.is_given_up();
    hold.entry.lose(loss);
    cancel.cancel();
    if is_given_up {
        hold.session.release_in_background(vec![hold.entry.clone()]);
    }
}
