//! A held lock. Only a grant creates a guard, and a lost guard stays lost.
//!
//! `held_locks.rs` cancels the guard's token at the loss, and releases the lock.

use std::fmt;
use std::sync::Arc;

use holdfast_types::HoldName;
use tokio_util::sync::CancellationToken;

use crate::locks::held_locks::HeldLocks;
use crate::locks::queue_entry::release_permits_call;
use crate::{Error, Hold};

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
#[must_use = "dropping the guard releases the lock"]
pub struct Guard {
    pub(crate) hold: Hold,
    /// The same hold, unless nothing is left to release.
    pub(crate) locks: HeldLocks,
}

/// The lock, the token, the session and whether the lock is held, on one line.
impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.hold.describe("Guard", f)
    }
}

impl std::ops::Deref for Guard {
    type Target = Hold;

    fn deref(&self) -> &Hold {
        &self.hold
    }
}

impl Guard {
    /// Returns the guard of one lock.
    pub(crate) fn new(locks: HeldLocks) -> Result<Self, Error> {
        let hold = locks.holds.first().cloned();
        let hold =
            hold.ok_or_else(|| Error::UnexpectedResponse("the answer has no grant".to_owned()))?;
        Ok(Self { hold, locks })
    }

    /// Returns a view for the work under the lock.
    pub fn hold(&self) -> Hold {
        self.hold.clone()
    }

    /// Returns a token that is cancelled when the lock is lost, and when the guard ends in any other way.
    pub fn cancel_token(&self) -> CancellationToken {
        self.locks.cancel_token()
    }

    /// Gives back some permits of a semaphore, from the highest slot down, and keeps the others with the same token.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if no permit would be left: release the guard instead; otherwise see [`Error`].
    pub async fn release_permits(&mut self, permits: u32) -> Result<(), Error> {
        self.ensure()?;
        let left = self.permits().saturating_sub(permits);
        if left == 0 {
            let reason = "a guard keeps at least one permit: release the guard to give back all";
            return Err(Error::InvalidArgument(reason.to_owned()));
        }
        let name = HoldName::Token(self.token());
        let of = (self.lock(), self.session(), self.entry.owner.as_ref());
        let calls = &self.hold.session.calls;
        let send =
            async |request| calls.send(&release_permits_call(of, (name, permits), request)).await;
        self.hold.session.numbered_calls.send(send).await?;
        self.hold.grant.send_modify(|grant| {
            let grant = Arc::make_mut(grant);
            grant.permits = left;
            grant.slots.truncate(usize::try_from(left).unwrap_or(usize::MAX));
        });
        Ok(())
    }

    /// Releases the lock and waits for the confirmation.
    ///
    /// # Errors
    /// [`Error::Lost`] if the lock was lost before; otherwise see [`Error`]. In any case the lock is free once the
    /// session's time-to-live has passed without a renewal.
    pub async fn release(mut self) -> Result<(), Error> {
        self.locks.release().await
    }
}
