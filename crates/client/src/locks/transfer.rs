//! Transfers of a hold from one session to another without a gap: the sender's side and the receiver's side.
//!
//! The sender ends its hold first: before it sends the call, every view of the hold reports the loss. The cluster may
//! give the lock to the receiver at any time after that. If the cluster certainly rejects the call, the sender gets a
//! new guard of the same hold. Bounds: one call in flight.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use holdfast_api::parameters::lock::{TO, TO_OWNER};
use holdfast_api::{
    ErrorCode, HandedOverBody, HolderBody, LockBody, Query, lock_path, transfer_path,
};
use holdfast_types::{
    FencingToken, LockName, Owner, ReleaseTarget, Revision, SessionName, ZnodePath,
};
use thiserror::Error as ThisError;

use crate::calls::call::Call;
use crate::calls::retry::{Delivery, RETRY_PAUSE};
use crate::clock::Moment;
use crate::error::{argument, is_hold_gone};
use crate::http::Method;
use crate::locks::acquire::leaves_nothing_behind;
use crate::locks::held_locks::HeldLocks;
use crate::locks::hold_limits::HoldLimits;
use crate::locks::lock_request::{ClientLockRequest, HoldOptions};
use crate::locks::mode_change::turn;
use crate::locks::queue_entry::{ClientQueueEntry, EntryStage, release_query};
use crate::sessions::session::{Session, SessionUse};
use crate::tree::is;
use crate::{Error, Guard, Hold, Lock, Loss};

/// A failed transfer.
#[derive(ThisError)]
#[error("the lock was not transferred: {error}")]
pub struct TransferError<G = Guard> {
    /// The reason.
    pub error: Error,
    /// The hold, which continues with the same token; `None` if it is lost, or if the receiver may have it.
    pub guard: Option<Box<G>>,
}

impl<G> From<TransferError<G>> for Error {
    fn from(failure: TransferError<G>) -> Self {
        failure.error
    }
}

/// As `Display`, with the kept guard.
impl<G: fmt::Debug> fmt::Debug for TransferError<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { error, guard } = self;
        write!(f, "TransferError({error:?}, guard: {guard:?})")
    }
}

impl TransferError {
    fn kept(error: Error, guard: Guard) -> Self {
        Self { error, guard: Some(Box::new(guard)) }
    }

    fn without_guard(error: Error) -> Self {
        Self { error, guard: None }
    }
}

impl Guard {
    /// Transfers the lock to another open session, which holds it immediately with a new token: no waiter is granted in
    /// between. The receiver is `owner` within that session, or the session itself. It gets its guard from a waiting
    /// acquire, or from [`Lock::receive_transfer`]. Returns the receiver's token.
    ///
    /// Stop the work under the lock first: once the call starts, every view of this hold reports [`Loss::Transferred`].
    ///
    /// # Errors
    /// [`TransferError`], with a guard of the hold if the cluster certainly rejected the call. If the outcome is
    /// unknown, the client releases a remaining hold in the background.
    #[tracing::instrument(
        level = "debug", skip_all, err(level = "debug"),
        fields(lock = %self.lock(), session = %self.session.name, to = %to)
    )]
    pub async fn transfer(
        mut self,
        to: &SessionName,
        owner: Option<&str>,
    ) -> Result<FencingToken, TransferError> {
        let _turn = turn(&self.hold).await.map_err(TransferError::without_guard)?;
        let owner = match owner.map(Owner::new).transpose() {
            Ok(owner) => owner,
            Err(error) => return Err(TransferError::kept(argument(error), self)),
        };
        let session = self.session.clone();
        if !session.entries.is_alone(&self.entry) {
            let error = argument("the lock was re-entered: release the other guards first");
            return Err(TransferError::kept(error, self));
        }
        let limits = self.end_locally();
        let target = ReleaseTarget::Hold(self.token());
        let owned_by = self.entry.owner.as_ref();
        let query = release_query(Query::default(), &session.name, owned_by, target);
        let call = transfer_call(self.lock(), query, to, owner.as_ref());
        let Delivery { result, in_doubt, .. } =
            session.calls.deliver(&call).await.json::<HandedOverBody>();
        match result {
            Ok(answer) => {
                self.forget();
                Ok(answer.body.token)
            }
            // An earlier copy of the call may have succeeded, and the receiver's session may have ended since.
            Err(Error::Rejected(problem)) if in_doubt => {
                Err(TransferError::without_guard(Error::OutcomeUnknown(problem.title.to_string())))
            }
            Err(error) if leaves_nothing_behind(&error, in_doubt) => {
                Err(self.keep(&session, to, limits, error).await)
            }
            Err(error) => Err(TransferError::without_guard(error)),
        }
    }

    /// Ends the hold in every view, before another session can hold the lock. Returns the limits of the hold.
    fn end_locally(&self) -> HoldLimits {
        let limits = self.entry.limits.borrow().clone();
        self.entry.enter(EntryStage::Leaving);
        self.entry.lose(Loss::Transferred);
        self.locks.stop();
        limits
    }

    fn forget(&mut self) {
        self.locks.holds.clear();
        self.session.entries.remove(&self.entry);
    }

    /// Continues the hold in a new guard after a certain rejection, unless the hold was lost.
    async fn keep(
        mut self,
        session: &Arc<Session>,
        to: &SessionName,
        limits: HoldLimits,
        error: Error,
    ) -> TransferError {
        let error = match error {
            // One of the two sessions has ended; a renewal shows whether it is this one.
            Error::Lost(loss) => {
                let now = Moment::now();
                let Ok(deadline) = session.deadline_or_loss(now) else {
                    return TransferError::without_guard(Error::Lost(loss));
                };
                if session.calls.keep_alive(session.id(), deadline.left(now)).await.is_err() {
                    return TransferError::without_guard(Error::Lost(loss));
                }
                Error::InvalidArgument(format!(
                    "session {to} is not open: the receiver opens it first"
                ))
            }
            Error::Rejected(problem) if problem.code == ErrorCode::NotHolder => {
                // The drop releases the hold, in case another program gave it another token.
                return TransferError::without_guard(Error::Lost(Loss::ReleasedElsewhere));
            }
            other @ (Error::Busy(_)
            | Error::Unavailable(_)
            | Error::OutcomeUnknown(_)
            | Error::Rejected(_)
            | Error::UnexpectedResponse(_)
            | Error::InvalidArgument(_)) => other,
        };
        self.forget();
        let guard = self.renewed(limits);
        TransferError::kept(error, guard)
    }

    /// Returns another guard of the same hold, with new views.
    fn renewed(&self, limits: HoldLimits) -> Guard {
        let Hold { session, entry, grant } = &self.hold;
        let attempt = entry.attempt().unwrap_or_default();
        let renewed = Arc::new(ClientQueueEntry::new(
            entry.lock().clone(),
            entry.owner.clone(),
            attempt,
            false,
        ));
        renewed.hold(grant);
        session.entries.add(renewed.clone());
        session.entries.limit(&renewed, limits);
        let hold = Hold { session: session.clone(), entry: renewed, grant: grant.clone() };
        let request = *self.locks.request.clone();
        let locks = HeldLocks::new(vec![hold.clone()], request, SessionUse::of(session));
        Guard { hold, locks }
    }
}

impl Lock {
    /// Returns the guard of a lock that is [transferred](Guard::transfer) to this client's session. The call waits as
    /// long as [`Lock::timeout`] allows, then returns `None`; without a timeout it waits without bound. The receiver is
    /// the [`Lock::owner`], or the session itself. The call never acquires the lock: use [`Lock::acquire`] to queue.
    /// The release of the guard ends the hold, so release guards that re-entered it first.
    ///
    /// ```no_run
    /// # async fn example(client: holdfast_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// // The sender needs the name of the session, which must be open.
    /// let session = client.session().await?;
    /// println!("transfer it to {}", session.name());
    /// let received = client.lock("orders").timeout(Duration::from_secs(60)).receive_transfer().await?;
    /// if let Some(guard) = received {
    ///     println!("write with token {}", guard.token());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if this program already has a guard of the lock; otherwise see [`Error`].
    #[tracing::instrument(
        level = "debug", name = "receive_transfer", skip_all, err(level = "debug"),
        fields(lock = %self.names.join(","), session = tracing::field::Empty)
    )]
    pub async fn receive_transfer(self) -> Result<Option<Guard>, Error> {
        let limit = self.wait_limit();
        let session_use = self.client.session_for(self.ttl).await?;
        let session = session_use.session();
        session.record_in_span();
        let request = self.transfer_request()?;
        let lock = &request.locks[0];
        loop {
            let body: LockBody = session.calls.get(lock_path(lock)).await?;
            if let Some(token) = token_of(&body, session, request.owner.as_ref()) {
                // Without a guard, the hold was lost between the two calls, or an acquire of another program has it.
                if let Some(guard) = request.clone().adopt(session, token).await? {
                    return Ok(Some(guard));
                }
            }
            let wait = limit.next_call();
            if wait.is_zero() {
                return Ok(None);
            }
            let since = body.revision.unwrap_or_default();
            tokio::select! {
                changed = lock_change(session, ZnodePath::of_lock(lock), since, wait) => changed?,
                loss = session.ending() => return Err(Error::Lost(loss)),
            }
        }
    }

    /// Builds the request for a hold that no attempt of this client acquired.
    fn transfer_request(&self) -> Result<ClientLockRequest, Error> {
        let request = self.request()?;
        let options = HoldOptions { value: request.options.value, ..HoldOptions::default() };
        let owner = request.owner.clone().filter(|_| self.names_an_owner());
        Ok(ClientLockRequest { owner, mode: None, options, ..request })
    }
}

impl ClientLockRequest {
    /// Returns a guard of the hold with this token; `None` if the session no longer has it.
    async fn adopt(
        self,
        session: &Arc<Session>,
        token: FencingToken,
    ) -> Result<Option<Guard>, Error> {
        let lock = &self.locks[0];
        if session.entries.has_owner(lock, self.owner.as_ref()) {
            return Err(Error::InvalidArgument(format!(
                "this program has a guard of {lock} already"
            )));
        }
        let adoption = Self { transferred: Some(token), ..self };
        match adoption.acquire_one(session).await {
            Ok(guard) => Ok(Some(guard)),
            Err(error) if is_hold_gone(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// The call that transfers the hold of a release to another session.
pub(crate) fn transfer_call(
    lock: &LockName,
    release: Query,
    to: &SessionName,
    to_owner: Option<&Owner>,
) -> Call {
    let query = release.with(&TO, to).with_some(&TO_OWNER, to_owner);
    Call::new(Method::POST, query.target(&transfer_path(lock)))
}

fn token_of(body: &LockBody, session: &Session, owner: Option<&Owner>) -> Option<FencingToken> {
    let is_hold =
        |holder: &&HolderBody| holder.session == session.name && holder.owner.as_ref() == owner;
    body.holders.iter().find(is_hold).map(|holder| holder.token)
}

/// Waits for a change of the lock after a revision, for at most `wait`.
async fn lock_change(
    session: &Session,
    lock: ZnodePath,
    since: Revision,
    wait: Duration,
) -> Result<(), Error> {
    match session.calls.changes(&lock, since, wait, true).await {
        // The cluster no longer has the changes since this revision: the caller reads the lock again.
        Err(error) if is(&error, ErrorCode::RevisionCompacted) => Ok(()),
        Err(error) if error.is_uncertain() => {
            tokio::time::sleep(RETRY_PAUSE.min(wait)).await;
            Ok(())
        }
        result => result.map(drop),
    }
}
