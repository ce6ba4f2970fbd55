//! The guard of a multi-lock.
//!
//! The guard is lost when the first of its locks is lost; the other locks stay held until the guard ends. Each lock has
//! its own token and its own loss. One call releases all of them. Bounds: 16 locks, the limit of one call.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use holdfast_types::{FencingToken, LockName};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::clock::Moment;
use crate::guard::release_result;
use crate::hold::DeadlineChanges;
use crate::queue_entry::ClientQueueEntry;
use crate::session::SessionUse;
use crate::{Error, Guard, Hold, Loss, ReleaseRequest};

/// A held multi-lock, renewed while this value lives. Each lock has its own token. Dropping it releases the locks in
/// the background; [`MultiGuard::release`] waits for the confirmation.
#[derive(Debug)]
#[must_use = "dropping the guard releases the locks"]
pub struct MultiGuard {
    guards: Vec<Guard>,
    cancel: CancellationToken,
    monitor: JoinHandle<()>,
}

impl MultiGuard {
    /// `guards` must not be empty.
    pub(crate) fn new(guards: Vec<Guard>) -> Self {
        let cancel = CancellationToken::new();
        let holds: Vec<Hold> = guards.iter().map(Guard::hold).collect();
        let cancelled = cancel.clone();
        let monitor = tokio::spawn(async move {
            drop(first_loss(&holds).await);
            cancelled.cancel();
        });
        Self { guards, cancel, monitor }
    }

    /// The holds, in lock name order.
    pub fn holds(&self) -> impl Iterator<Item = &Hold> {
        self.guards.iter().map(|guard| &**guard)
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
        self.deadline_or_loss(Moment::now()).map(drop)
    }

    /// Whether all locks are certainly still held.
    pub fn is_held(&self) -> bool {
        self.ensure().is_ok()
    }

    /// The time until the earliest deadline; zero if one lock is lost.
    pub fn remaining(&self) -> Duration {
        let now = Moment::now();
        self.deadline_or_loss(now).map_or(Duration::ZERO, |deadline| deadline.left(now))
    }

    /// No other client can hold any of the locks before this moment; `None` if one is lost.
    pub fn deadline_moment(&self) -> Option<Moment> {
        self.deadline_or_loss(Moment::now()).ok()
    }

    /// Resolves with the earliest deadline once it differs from `known`, as [`Hold::deadline_after`].
    ///
    /// # Errors
    /// The loss of one of the locks.
    pub async fn deadline_after(&self, known: Moment) -> Result<Moment, Loss> {
        let mut changes: Vec<DeadlineChanges> = self.holds().map(Hold::changes).collect();
        loop {
            changes.iter_mut().for_each(DeadlineChanges::mark_seen);
            let deadline = self.deadline_or_loss(Moment::now())?;
            if deadline != known {
                return Ok(deadline);
            }
            tokio::select! {
                _changed = first_of(changes.iter_mut().map(DeadlineChanges::next)) => {}
                (_, loss) = self.lost() => return Err(loss),
            }
        }
    }

    /// Resolves with the first loss. The other locks stay held until the guard is released.
    pub async fn lost(&self) -> (LockName, Loss) {
        let holds: Vec<Hold> = self.guards.iter().map(Guard::hold).collect();
        first_loss(&holds).await
    }

    /// Resolves with the first release request of one of the locks, as [`Hold::release_requested`].
    pub async fn release_requested(&self) -> (LockName, ReleaseRequest) {
        let (index, request) = first_of(self.holds().map(Hold::release_requested)).await;
        (self.guards[index].lock().clone(), request)
    }

    /// Returns a token that is cancelled when one of the locks is lost, and when the guard ends in any other way.
    pub fn cancel_token(&self) -> CancellationToken {
        self.cancel.clone()
    }

    /// Releases one of the locks, waits for the confirmation, and keeps the other locks.
    ///
    /// # Errors
    /// [`Error::Argument`] if the guard does not have the lock; otherwise as [`Guard::release`].
    pub async fn release_one(&mut self, lock: &str) -> Result<(), Error> {
        let index = self.guards.iter().position(|guard| guard.lock().as_str() == lock);
        let Some(index) = index else {
            return Err(Error::Argument(format!("this guard does not hold {lock}")));
        };
        self.guards.remove(index).release().await
    }

    /// Releases all locks with one call, and waits for the confirmation.
    ///
    /// # Errors
    /// [`Error::Lost`] if one of them was lost before; otherwise as [`Guard::release`].
    pub async fn release(mut self) -> Result<(), Error> {
        let before = self.ensure();
        let Some((session, entries)) = self.entries() else { return Ok(()) };
        let released = session.session().release(&entries).await;
        if !released.as_ref().is_err_and(Error::is_uncertain) {
            self.forget();
        }
        release_result(before, released)
    }

    /// Returns the session and the entries to release; `None` if nothing is left to release.
    fn entries(&self) -> Option<(SessionUse, Vec<Arc<ClientQueueEntry>>)> {
        let session = SessionUse::of(self.guards.first()?.session.session());
        Some((session, self.guards.iter().map(|guard| guard.entry.clone()).collect()))
    }

    /// Drops the guards without releasing their locks.
    fn forget(&mut self) {
        self.guards.iter_mut().for_each(|guard| guard.released = true);
        self.guards.clear();
    }

    fn deadline_or_loss(&self, now: Moment) -> Result<Moment, Loss> {
        let deadlines: Result<Vec<_>, _> =
            self.guards.iter().map(|guard| guard.deadline_or_loss(now)).collect();
        // A guard without locks has released each of them.
        deadlines?.into_iter().min().ok_or(Loss::TakenAway)
    }
}

/// Wraps a guard of one lock, for a caller that treats a lock and a multi-lock in the same way.
impl From<Guard> for MultiGuard {
    fn from(guard: Guard) -> Self {
        Self::new(vec![guard])
    }
}

impl Drop for MultiGuard {
    fn drop(&mut self) {
        self.monitor.abort();
        self.cancel.cancel();
        if let Some((session, entries)) = self.entries() {
            session.session().release_in_background(entries);
            self.forget();
        }
    }
}

async fn first_loss(holds: &[Hold]) -> (LockName, Loss) {
    let (index, loss) = first_of(holds.iter().map(Hold::lost)).await;
    (holds[index].lock().clone(), loss)
}

/// The output of the first future that resolves, with its index.
async fn first_of<F: Future>(futures: impl Iterator<Item = F>) -> (usize, F::Output) {
    let mut futures: Vec<_> = futures.map(Box::pin).collect();
    std::future::poll_fn(|context| {
        for (index, future) in futures.iter_mut().enumerate() {
            if let Poll::Ready(output) = future.as_mut().poll(context) {
                return Poll::Ready((index, output));
            }
        }
        Poll::Pending
    })
    .await
}
