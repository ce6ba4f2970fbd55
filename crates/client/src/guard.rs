//! A held lock. There is no empty guard: only a grant makes one.
//!
//! Owns the end of a hold: by release, by drop, by loss. A lost guard stays lost. Each guard has one task, which
//! tells of the loss and gives back what this side gave up; it ends with the guard.

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::clock::Moment;
use crate::hold::Hold;
use crate::session::Use;
use crate::wanted::Patience;
use crate::wanted::Wanted;
use crate::{Error, Loss};

/// A lock that is held, renewed in the background as long as this lives. Dropping it gives the lock back in the
/// background; [`Guard::release`] does so for certain. What it knows, it knows as a [`Hold`].
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
#[must_use = "dropping the guard gives the lock back"]
pub struct Guard {
    pub(crate) hold: Hold,
    pub(crate) wanted: Wanted,
    pub(crate) used: Use,
    pub(crate) cancel: CancellationToken,
    pub(crate) sentinel: JoinHandle<()>,
    /// Nothing is left to give back.
    pub(crate) released: bool,
}

impl std::ops::Deref for Guard {
    type Target = Hold;

    fn deref(&self) -> &Hold {
        &self.hold
    }
}

impl Guard {
    pub(crate) fn new(hold: Hold, wanted: Wanted, used: Use) -> Self {
        let cancel = CancellationToken::new();
        let sentinel = used.session().runtime.spawn(watch_over(hold.clone(), cancel.clone()));
        Self { hold, wanted, used, cancel, sentinel, released: false }
    }

    /// A view for the work that the lock protects.
    pub fn hold(&self) -> Hold {
        self.hold.clone()
    }

    /// Cancelled when the lock is lost, and when the guard ends in any other way.
    pub fn cancel_token(&self) -> CancellationToken {
        self.cancel.clone()
    }

    /// Holds the lock once more: another guard with the same token. The lock is free when the last one has left.
    ///
    /// # Errors
    /// [`Error::Lost`] if the lock was lost meanwhile: it is not taken anew. Otherwise see [`Error`].
    pub async fn reenter(&self) -> Result<Guard, Error> {
        self.ensure()?;
        let wanted = self.wanted.once_more();
        let guard = wanted.ask(Use::of(self.used.session()), Patience::none()).await?;
        if guard.token() != self.token() {
            let loss = Loss::TakenAway;
            self.claim.limits.send_modify(|limits| limits.lose(loss.clone(), Moment::now()));
            return Err(Error::Lost(loss));
        }
        Ok(guard)
    }

    /// Gives the lock back and waits until that is certain.
    ///
    /// # Errors
    /// [`Error::Lost`] if it was lost before; otherwise see [`Error`]. Whatever it is, the lock is free after
    /// the session's time-to-live without a renewal at the latest.
    pub async fn release(mut self) -> Result<(), Error> {
        let before = self.ensure();
        self.released = true;
        self.sentinel.abort();
        let released = self.used.session().give_back(&self.hold.claim).await;
        match (before, released) {
            (Err(loss), _) => Err(Error::Lost(loss)),
            (Ok(()), Err(Error::Refused(_))) => Err(Error::Lost(Loss::TakenAway)),
            (Ok(()), Err(Error::Retry(reason))) => {
                self.released = false;
                Err(Error::Retry(reason))
            }
            (Ok(()), Err(Error::Unknown(reason))) => {
                self.released = false;
                Err(Error::Unknown(reason))
            }
            (Ok(()), other) => other,
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.sentinel.abort();
        self.cancel.cancel();
        if !self.released {
            self.used.session().give_back_later(self.hold.claim.clone());
        }
    }
}

/// Tells of the loss, and gives back what the cluster would let us keep.
async fn watch_over(hold: Hold, cancel: CancellationToken) {
    let loss = hold.lost().await;
    let ours = loss.is_ours();
    hold.claim.limits.send_modify(|limits| limits.lose(loss, Moment::now()));
    cancel.cancel();
    if ours {
        hold.session.give_back_later(hold.claim.clone());
    }
}
