//! Guards of held locks. Only a grant creates a guard, and a lost guard stays lost.
//!
//! `held_locks.rs` cancels the guard's token at the loss, and releases the locks. The guard of a multi-lock is lost when the
//! first of its locks is lost; the other locks stay held until the guard ends. Each lock has its own token and its own loss. One
//! call releases all of them, or one for each joined guard. Bounds: 16 locks, the limit of one call, for each of them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use holdfast_types::{FencingToken, HoldName, LockName};
use tokio_util::sync::CancellationToken;

use crate::clock::Moment;
use crate::locks::held_locks::HeldLocks;
use crate::locks::hold::{deadline_after, first_deadline, first_loss, first_of};
use crate::locks::queue_entry::release_permits_call;
use crate::{Error, Hold, Loss, ReleaseRequest};

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
        let of = (self.lock(), self.session(), self.entry.owner.as_ref());
        let (all, mut kept) = (self.grant(), self.grant());
        Arc::make_mut(&mut kept).permits = left;
        Arc::make_mut(&mut kept).slots.truncate(usize::try_from(left).unwrap_or(usize::MAX));
        let send = async |request| {
            // The cluster may grant the other slots before its answer arrives.
            self.hold.grant.send_replace(kept.clone());
            let call = release_permits_call(of, (HoldName::Token(all.token), permits), request);
            let delivery = self.hold.session.calls.answer(&call).await;
            if delivery.result.is_err() && !delivery.in_doubt {
                self.hold.grant.send_replace(all.clone());
            }
            delivery.result.map(drop)
        };
        self.hold.session.numbered_calls.send(send).await
    }

    /// Releases the lock and waits for the confirmation.
    ///
    /// # Errors
    /// [`Error::Lost`] if the lock was lost before. If no node answers in time, or another server answers, the release continues
    /// in the background. Otherwise see [`Error`]. In any case the lock is free once the session's time-to-live has passed
    /// without a renewal.
    pub async fn release(mut self) -> Result<(), Error> {
        self.locks.release().await
    }
}

/// The shortest `min_hold`, which has passed when a release arrives.
const MIN_HOLD_NONE: Duration = Duration::from_millis(1);

/// A held multi-lock, renewed while this value lives. Each lock has its own token. Dropping it releases the locks in
/// the background; [`MultiGuard::release`] waits for the confirmation.
#[must_use = "dropping the guard releases the locks"]
pub struct MultiGuard(pub(crate) HeldLocks);

/// The holds, on one line.
impl fmt::Debug for MultiGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MultiGuard ")?;
        f.debug_list().entries(self.holds()).finish()
    }
}

impl MultiGuard {
    /// The holds, in lock name order.
    pub fn holds(&self) -> impl Iterator<Item = &Hold> {
        self.0.holds.iter()
    }

    /// The hold of one lock; `None` if the guard never had it, or has released it.
    pub fn hold(&self, lock: &str) -> Option<&Hold> {
        self.holds().find(|hold| hold.lock().as_str() == lock)
    }

    /// The token of each lock, to send with writes under that lock.
    pub fn tokens(&self) -> BTreeMap<LockName, FencingToken> {
        self.holds().map(|hold| (hold.lock().clone(), hold.token())).collect()
    }

    /// Checks that all locks are certainly still held: call it with `?` right before each write.
    ///
    /// # Errors
    /// The loss of one of them.
    pub fn ensure(&self) -> Result<(), Loss> {
        first_deadline(&self.0.holds, Moment::now()).map(drop)
    }

    /// Whether all locks are certainly still held.
    pub fn is_held(&self) -> bool {
        self.ensure().is_ok()
    }

    /// The time until the earliest deadline; zero if one lock is lost.
    pub fn remaining(&self) -> Duration {
        self.deadline_moment().map_or(Duration::ZERO, |deadline| deadline.left(Moment::now()))
    }

    /// No other client can hold any of the locks before this moment; `None` if one is lost.
    pub fn deadline_moment(&self) -> Option<Moment> {
        first_deadline(&self.0.holds, Moment::now()).ok()
    }

    /// Resolves with the earliest deadline once it differs from `known`, as [`Hold::deadline_after`].
    ///
    /// # Errors
    /// The loss of one of the locks.
    pub async fn deadline_after(&self, known: Moment) -> Result<Moment, Loss> {
        deadline_after(&self.0.holds, known).await
    }

    /// Resolves with the first loss. The other locks stay held until the guard is released.
    pub async fn lost(&self) -> (LockName, Loss) {
        let (index, loss) = first_loss(&self.0.holds).await;
        (self.0.holds[index].lock().clone(), loss)
    }

    /// Resolves with the first release request of one of the locks, as [`Hold::release_requested`].
    pub async fn release_requested(&self) -> (LockName, ReleaseRequest) {
        let (index, request) = first_of(self.holds().map(Hold::release_requested)).await;
        (self.0.holds[index].lock().clone(), request)
    }

    /// Returns a token that is cancelled when one of the locks is lost, and when the guard ends in any other way.
    pub fn cancel_token(&self) -> CancellationToken {
        self.0.cancel_token()
    }

    /// Releases one of the locks, waits for the confirmation, and keeps the other locks.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the guard does not have the lock; otherwise as [`Guard::release`].
    pub async fn release_one(&mut self, lock: &str) -> Result<(), Error> {
        match self.0.take(lock) {
            Some(mut locks) => locks.release().await,
            None => Err(Error::InvalidArgument(format!("this guard does not hold {lock}"))),
        }
    }

    /// Adds the locks of another guard, which may have another session.
    pub fn join(mut self, other: Self) -> Self {
        self.0.join(other.0);
        self
    }

    /// Releases locks that protected no work: their `min_hold` does not count.
    ///
    /// # Errors
    /// As [`MultiGuard::release`].
    pub async fn release_unused(self) -> Result<(), Error> {
        let shortened = match &self.0.request.options.min_hold {
            Some(_) => self.0.set_min_hold(MIN_HOLD_NONE).await,
            None => Ok(()),
        };
        self.release().await.and(shortened)
    }

    /// Releases all locks, and waits for the confirmation.
    ///
    /// # Errors
    /// [`Error::Lost`] if one of them was lost before; otherwise as [`Guard::release`].
    pub async fn release(mut self) -> Result<(), Error> {
        self.0.release().await
    }
}

/// Wraps a guard of one lock, for a caller that treats a lock and a multi-lock in the same way.
impl From<Guard> for MultiGuard {
    fn from(guard: Guard) -> Self {
        Self(guard.locks)
    }
}
