//! Acquiring a lock: one command, or a renewal of the caller's hold. If the command queues, `queued.rs` waits.

use std::time::{Duration, Instant};

use futures_util::FutureExt;
use holdfast_types::{
    Acquire, AcquireReply, Command, Grant, LockRejection, Rejection, Reply, Revision, Standing,
};
use tokio::sync::oneshot;

use crate::context::{RequestContext, Response};
use crate::failure::Failure;
use crate::queue_positions::PositionWatcher;
use crate::queued::QueuedAcquire;
use crate::service::Service;
use crate::waiting::{UnansweredSession, wait_of};

/// Waiters listed with a lock at most; the view also has their number.
pub(crate) const WAITERS_SHOWN: usize = 100;

/// The caller holds the lock.
#[derive(Clone, Debug)]
pub struct Granted {
    pub grant: Grant,
    /// From the request's arrival to this answer.
    pub waited: Duration,
    /// What is certainly left of the lease at the moment of this answer. A client that counts
    /// `waited + expires_in` from the moment it *sent* the request gives up before the server does.
    pub expires_in: Duration,
}

/// The times of one acquire.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AcquireClock {
    pub(crate) arrived: Instant,
    /// When the last renewal of the session began that a quorum has confirmed.
    pub(crate) confirmed_at: Instant,
    /// When the wait ends.
    pub(crate) until: Instant,
}

impl AcquireClock {
    pub(crate) fn start(wait: Duration) -> Self {
        let arrived = Instant::now();
        Self { arrived, confirmed_at: arrived, until: arrived + wait }
    }

    pub(crate) fn granted(&self, grant: Grant, revision: Revision) -> Response<Granted> {
        let now = Instant::now();
        let waited = now.duration_since(self.arrived);
        let since_confirmed = now.duration_since(self.confirmed_at);
        let expires_in = grant.ttl.as_duration().saturating_sub(since_confirmed);
        Response::new(Granted { grant, waited, expires_in }, revision)
    }
}

impl Service {
    /// Takes a lock, or renews the caller's hold of it. Dropping the future means that the client disconnected: a waiter
    /// with an anonymous session leaves the queue, one with a named session keeps its place until its wait ends.
    ///
    /// # Errors
    /// [`Failure`] says why not, and whether anything was done.
    pub async fn acquire(
        &self,
        context: &RequestContext,
        acquire: Acquire,
    ) -> Result<Response<Granted>, Failure> {
        self.acquire_for(context, acquire, None).await
    }

    /// The same; `position` receives the caller's place once it is queued.
    pub(crate) async fn acquire_for(
        &self,
        context: &RequestContext,
        acquire: Acquire,
        position: Option<oneshot::Sender<PositionWatcher>>,
    ) -> Result<Response<Granted>, Failure> {
        let wait = wait_of(acquire.wait, acquire.wait_ms);
        let permit = self.admit(wait)?;
        let clock = AcquireClock::start(wait);
        if let Some(renewed) = self.renew_held(&acquire, &clock).await? {
            return Ok(renewed);
        }
        let (open, owner) = (acquire.open.clone(), acquire.owner.clone());
        let unanswered = UnansweredSession::new(self, &open);
        let proposed = self.propose_for(Command::Acquire(acquire), Reply::into_acquire).await;
        if !matches!(proposed, Err(Failure::OutcomeUnknown)) {
            unanswered.settle();
        }
        let Response { value, revision, .. } =
            proposed.inspect_err(|failure| self.count_busy(failure))?;
        let request = &context.request_id;
        match (value, permit) {
            (AcquireReply::Granted(grant), _) => {
                tracing::debug!(request, lock = %grant.lock, session = %open.session, token = grant.token.0, "granted");
                self.metrics().granted.inc();
                Ok(clock.granted(grant, revision))
            }
            (AcquireReply::Queued(queued), Some(permit)) => {
                let lock = queued.lock.clone();
                tracing::debug!(request, %lock, session = %open.session, ahead = queued.ahead, "queued");
                if let Some(position) = position {
                    // An error means that the caller has gone, and this call with it.
                    position.send(self.watch_position(&lock, queued.ticket)).ok();
                }
                let (session, anonymous) = (open.session, open.anonymous);
                let queued = QueuedAcquire { clock, lock, session, owner, anonymous, queued };
                queued.wait(self, permit).boxed().await
            }
            (AcquireReply::Queued(_), None) => Err(Failure::UnexpectedReply),
        }
    }

    /// Counts a refusal of a caller that did not want to wait.
    pub(crate) fn count_busy(&self, failure: &Failure) {
        let Failure::Rejected(rejection) = failure else { return };
        let why = if let Rejection::Lock(LockRejection::OfMultiLock { why, .. }) = rejection {
            why
        } else {
            rejection
        };
        let busy = matches!(
            why,
            Rejection::Lock(
                LockRejection::Busy { .. }
                    | LockRejection::InCooldown { .. }
                    | LockRejection::Reserved { .. }
            )
        );
        if busy {
            self.metrics().busy.inc();
        }
    }

    /// The same call again by a holder is a renewal: no log entry, the same token.
    async fn renew_held(
        &self,
        acquire: &Acquire,
        clock: &AcquireClock,
    ) -> Result<Option<Response<Granted>>, Failure> {
        let Acquire { open, owner, .. } = acquire;
        if open.anonymous || acquire.attempt.is_some() {
            return Ok(None);
        }
        let standing = self.raft().read(|machine| {
            let lock = match acquire.segments {
                None => acquire.lock.clone(),
                Some(cut) => machine.segment_held(&acquire.lock, cut, &open.session, owner)?,
            };
            machine.standing(&lock, &open.session, owner)
        });
        let Some(Standing::Holding(held)) = standing else { return Ok(None) };
        let other = open.ttl.is_some_and(|ttl| ttl != held.ttl)
            || acquire.mode.is_some_and(|mode| mode != held.mode)
            || acquire.permits.is_some_and(|permits| permits != held.permits)
            || acquire.limit.is_some()
            || acquire.value.is_some();
        if other {
            return Ok(None);
        }
        let queue_entry = Some((held.lock, owner.clone()));
        let renewed = self.renew(&open.session, queue_entry, self.deadline()).await?;
        let Some(Standing::Holding(grant)) = renewed.standing else { return Ok(None) };
        Ok(Some(clock.granted(Grant { renewed: true, ..grant }, renewed.revision)))
    }
}
