//! The locks of one guard: their sessions, and the token that is cancelled at a loss.
//!
//! [`Guard`](crate::Guard) has one hold here, [`MultiGuard`](crate::MultiGuard) one or more. A task watches for losses only if a
//! caller asked for the token. It ends with the value. Bounds: 16 holds, the limit of one call.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use holdfast_api::ErrorCode;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::clock::Moment;
use crate::locks::hold::{Hold, first_deadline, first_loss};
use crate::locks::lock_request::{ClientLockRequest, RequestedChange};
use crate::locks::queue_entry::{ClientQueueEntry, lock_names};
use crate::sessions::session::{Session, SessionUse};
use crate::tree::is;
use crate::{Error, Loss};

/// Dropping the value releases its locks in the background.
pub(crate) struct HeldLocks {
    /// Empty once nothing is left to release.
    pub(crate) holds: Vec<Hold>,
    /// The request that acquired the locks.
    pub(crate) request: Box<ClientLockRequest>,
    session: SessionUse,
    /// The sessions of the guards that [joined](Self::join).
    joined: Vec<SessionUse>,
    cancellation: OnceLock<Cancellation>,
}

/// A token, and the task that cancels it at the first loss.
struct Cancellation {
    token: CancellationToken,
    task: JoinHandle<()>,
}

impl Cancellation {
    /// The task runs on the session's runtime, because the caller's thread may have none.
    fn at_loss(holds: &[Hold], session: &SessionUse, token: CancellationToken) -> Self {
        if first_deadline(holds, Moment::now()).is_err() {
            token.cancel();
        }
        let (holds, cancelled) = (holds.to_vec(), token.clone());
        let task = session.session().runtime.spawn(async move {
            if !holds.is_empty() {
                first_loss(&holds).await;
            }
            cancelled.cancel();
        });
        Self { token, task }
    }
}

impl HeldLocks {
    pub(crate) fn new(holds: Vec<Hold>, request: ClientLockRequest, session: SessionUse) -> Self {
        let (joined, cancellation) = (Vec::new(), OnceLock::new());
        Self { holds, request: Box::new(request), session, joined, cancellation }
    }

    /// Adds the locks of another guard, which may be those of another session.
    pub(crate) fn join(&mut self, mut other: Self) {
        self.holds.append(&mut other.holds);
        self.holds.sort_by(|a, b| a.lock().cmp(b.lock()));
        self.joined.push(SessionUse::of(other.session.session()));
        self.joined.append(&mut other.joined);
        self.watch_again();
    }

    fn watch_again(&mut self) {
        if let Some(Cancellation { token, task }) = self.cancellation.take() {
            task.abort();
            let again = Cancellation::at_loss(&self.holds, &self.session, token);
            drop(self.cancellation.set(again));
        }
    }

    /// Returns a token that is cancelled when one of the locks is lost, and when the value ends in any other way.
    pub(crate) fn cancel_token(&self) -> CancellationToken {
        let begin = || Cancellation::at_loss(&self.holds, &self.session, CancellationToken::new());
        self.cancellation.get_or_init(begin).token.clone()
    }

    /// Removes the hold of one lock. The token no longer follows that hold.
    pub(crate) fn take(&mut self, lock: &str) -> Option<Self> {
        let index = self.holds.iter().position(|hold| hold.lock().as_str() == lock)?;
        let hold = self.holds.remove(index);
        self.watch_again();
        let session = SessionUse::of(&hold.session);
        Some(Self::new(vec![hold], *self.request.clone(), session))
    }

    /// Releases all locks with one call for each acquire. If the outcome is uncertain, dropping the value continues the release.
    ///
    /// # Errors
    /// [`Error::Lost`] if one of the locks was lost before.
    #[tracing::instrument(
        level = "debug", skip_all, err(level = "debug"),
        fields(lock = %lock_names(&self.entries()), session = %self.session_names())
    )]
    pub(crate) async fn release(&mut self) -> Result<(), Error> {
        if self.holds.is_empty() {
            return Ok(());
        }
        let before = first_deadline(&self.holds, Moment::now());
        let mut released = Ok(());
        for (session, entries) in self.by_acquire() {
            let one = session.release(&entries).await;
            if !one.as_ref().is_err_and(Error::is_unclear) {
                let is_left =
                    |hold: &Hold| entries.iter().any(|left| Arc::ptr_eq(left, &hold.entry));
                self.holds.retain(|hold| !is_left(hold));
            }
            released = released.and(one);
        }
        match (before, released) {
            (Err(loss), _) => Err(Error::Lost(loss)),
            (Ok(_), Err(error)) if is(&error, ErrorCode::NotHolder) => {
                Err(Error::Lost(Loss::ReleasedElsewhere))
            }
            (Ok(_), released) => released,
        }
    }

    /// Replaces the `min_hold` of a single lock.
    pub(crate) async fn set_min_hold(&self, min_hold: Duration) -> Result<(), Error> {
        let [hold] = self.holds.as_slice() else { return Ok(()) };
        let change = RequestedChange { min_hold: Some(min_hold), ..RequestedChange::default() };
        hold.change(&self.request, &change).await.map(drop)
    }

    /// Cancels the token.
    pub(crate) fn stop(&self) {
        if let Some(Cancellation { token, task }) = self.cancellation.get() {
            task.abort();
            token.cancel();
        }
    }

    fn session_names(&self) -> String {
        let sessions = std::iter::once(&self.session).chain(&self.joined);
        let names: Vec<&str> = sessions.map(|user| user.session().name.as_str()).collect();
        names.join(",")
    }

    /// The entries of each acquire, which one call releases. A transferred hold has no attempt, so a separate call releases it.
    fn by_acquire(&self) -> Vec<(Arc<Session>, Vec<Arc<ClientQueueEntry>>)> {
        let mut groups: Vec<(Arc<Session>, Vec<Arc<ClientQueueEntry>>)> = Vec::new();
        for Hold { session, entry, .. } in &self.holds {
            let is_same = |(other, entries): &&mut (Arc<Session>, Vec<Arc<ClientQueueEntry>>)| {
                Arc::ptr_eq(other, session)
                    && entry.attempt().is_some()
                    && entries.iter().all(|e| e.attempt() == entry.attempt())
            };
            match groups.iter_mut().find(is_same) {
                Some((_, entries)) => entries.push(entry.clone()),
                None => groups.push((session.clone(), vec![entry.clone()])),
            }
        }
        groups
    }

    fn entries(&self) -> Vec<Arc<ClientQueueEntry>> {
        self.holds.iter().map(|hold| hold.entry.clone()).collect()
    }
}

impl Drop for HeldLocks {
    fn drop(&mut self) {
        self.stop();
        for (session, entries) in self.by_acquire() {
            session.release_in_background(entries);
        }
    }
}
