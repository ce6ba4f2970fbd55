//! Acquiring a lock: one command, or a renewal of the caller's hold. If the acquire queues, `queued.rs` waits for the
//! grant.

use std::time::{Duration, Instant};

use futures_util::FutureExt;
use holdfast_types::{
    Acquire, Command, EntryState, Grant, LockRejection, Queued, Rejection, Reply, Revision, Right,
};
use tokio::sync::oneshot;
use tracing::{Instrument as _, Span};

use crate::leases::renewal::ConfirmedLease;
use crate::locks::queue_positions::PositionWatcher;
use crate::locks::queued::QueuedAcquire;
use crate::request::{Failure, Response};
use crate::service::Service;
use crate::service_call::SessionToRenew;
use crate::waiting::UnansweredSessionGuard;

/// The caller holds the lock, or each lock of its multi-lock.
#[derive(Clone, Debug)]
pub struct Granted {
    /// The grant of the first lock by name.
    pub grant: Grant,
    /// The grants of the other locks of a multi-lock, by name.
    pub others: Vec<Grant>,
    /// The time from the request's arrival to this reply.
    pub waited: Duration,
    /// The guaranteed remaining time of the lease at this reply. A client that counts `waited + expires_in` from the
    /// moment it *sent* the request stops before the server expires the lease.
    pub expires_in: Duration,
}

impl Granted {
    /// The result of an acquire that was granted without a wait, and so renewed the session.
    pub(super) fn now(
        grants: Vec<Grant>,
        revision: Revision,
        arrived: Instant,
    ) -> Result<Response<Self>, Failure> {
        let ttl = grants.first().ok_or(Failure::UnexpectedReply)?.ttl;
        Self::of(grants, revision, arrived, ConfirmedLease { since: arrived, ttl })
    }

    /// The result of an acquire with these grants, in the order of the locks. `confirmed` is the last renewal of the session.
    pub(super) fn of(
        grants: Vec<Grant>,
        revision: Revision,
        arrived: Instant,
        confirmed: ConfirmedLease,
    ) -> Result<Response<Self>, Failure> {
        let mut others = grants.into_iter();
        let grant = others.next().ok_or(Failure::UnexpectedReply)?;
        let others = others.collect();
        let (waited, expires_in) = (arrived.elapsed(), confirmed.left());
        Ok(Response::new(Self { grant, others, waited, expires_in }, revision))
    }
}

impl Service {
    /// Acquires a lock or a multi-lock, or renews the caller's hold. A dropped future means that the client
    /// disconnected. A waiter with an anonymous session then leaves the queue; a waiter with a named session keeps its
    /// entry until its wait ends.
    ///
    /// # Errors
    /// A [`Failure`] has the reason, and whether the command may have taken effect.
    pub async fn acquire(&self, acquire: Acquire) -> Result<Response<Granted>, Failure> {
        let span = acquire_span(&acquire);
        self.acquire_for(acquire, None).instrument(span).await
    }

    /// As [`Service::acquire`]; `position` receives the caller's queue position once it is queued.
    pub(crate) async fn acquire_for(
        &self,
        acquire: Acquire,
        position: Option<oneshot::Sender<PositionWatcher>>,
    ) -> Result<Response<Granted>, Failure> {
        let wait = match (acquire.wait, acquire.wait_ms) {
            (false, _) => Duration::ZERO,
            (true, None) => Duration::MAX,
            (true, Some(ms)) => Duration::from_millis(ms),
        };
        let permit = self.admit(wait)?;
        let arrived = Instant::now();
        if let Some(renewed) = self.renew_held(&acquire, arrived).await? {
            return Ok(renewed);
        }
        let (locks, open, owner) =
            (acquire.locks.clone(), acquire.open.clone(), acquire.owner.clone());
        let unanswered = UnansweredSessionGuard::new(&self.as_node(), &open);
        let proposed = self.propose(Command::Acquire(acquire), Reply::into_entry_state).await;
        if !matches!(proposed, Err(Failure::OutcomeUnknown)) {
            unanswered.disarm();
        }
        let Response { value, revision, .. } =
            proposed.inspect_err(|failure| self.count_busy(failure))?;
        let request = &self.context.request_id;
        let (grants, revision, confirmed) = match (value, permit) {
            (EntryState::Holding(grants), _) => {
                let Grant { lock, token, .. } = grants.first().ok_or(Failure::UnexpectedReply)?;
                tracing::debug!(request, %lock, session = %open.session, token = token.0, "granted");
                self.metrics().granted.inc();
                return Granted::now(grants, revision, arrived);
            }
            (EntryState::Waiting(queued), Some(permit)) => {
                let queued = first_busy(queued).ok_or(Failure::UnexpectedReply)?;
                let lock = &queued.lock;
                tracing::debug!(request, %lock, session = %open.session, ahead = queued.ahead, "queued");
                if let Some(position) = position {
                    // An error means that the caller, and with it this call, was dropped.
                    let (session, owner) = (open.session.clone(), owner.clone());
                    position.send(self.watch_position(lock, queued.ticket, session, owner)).ok();
                }
                let queued = QueuedAcquire {
                    arrived,
                    confirmed: ConfirmedLease { since: arrived, ttl: queued.ttl },
                    until: arrived + wait,
                    locks,
                    session: open.session,
                    owner,
                    anonymous: open.anonymous,
                    queued,
                };
                queued.wait(self, permit).boxed().await?
            }
            (EntryState::Waiting(_), None) => return Err(Failure::UnexpectedReply),
        };
        self.metrics().granted.inc();
        Granted::of(grants, revision, arrived, confirmed)
    }

    /// Counts a rejected no-wait acquire.
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

    /// Renews the hold when a holder repeats its acquire: no log entry, the same token.
    async fn renew_held(
        &self,
        acquire: &Acquire,
        arrived: Instant,
    ) -> Result<Option<Response<Granted>>, Failure> {
        let Acquire { open, owner, .. } = acquire;
        // A renewal finds the session by its name, and changes no label.
        if open.anonymous
            || open.incarnation.is_some()
            || !open.labels.is_empty()
            || open.session.is_durable()
            || acquire.attempt.is_some()
            || acquire.change.is_some()
        {
            return Ok(None);
        }
        let Some(lock) = acquire.locks.single() else { return Ok(None) };
        let held = self.raft().read(|machine| {
            self.check(machine, Right::LockAcquire, lock.as_str()).ok()?;
            self.check_session_of(machine, self.actor(), &open.session).ok()?;
            let lock = match acquire.shards {
                None => lock.clone(),
                Some(shards) => machine.owned_shard(lock, shards, &open.session, owner)?,
            };
            machine.entry_state(&lock.into(), &open.session, owner, None)?.into_single_grant()
        });
        let Some(held) = held else { return Ok(None) };
        if acquire.limit.is_some() || acquire.options.value.is_some() || !is_copy(acquire, &held) {
            return Ok(None);
        }
        let queue_entry = Some((held.lock, owner.clone(), held.ticket));
        let of = SessionToRenew { session: open.session.clone(), id: None, queue_entry };
        let renewed = self.renew(of, self.deadline()).await?;
        let grant = renewed.entry.and_then(EntryState::into_single_grant);
        // This node may be behind: the hold may have changed since.
        let Some(grant) = grant.filter(|grant| is_copy(acquire, grant)) else { return Ok(None) };
        let grants = vec![Grant { renewed: true, ..grant }];
        let confirmed = ConfirmedLease { since: arrived, ttl: renewed.ttl };
        Granted::of(grants, renewed.revision, arrived, confirmed).map(Some)
    }
}

/// Whether an acquire asks for what its owner has. Of several attempts, the state machine knows the one that a mode or
/// permits belong to.
fn is_copy(acquire: &Acquire, held: &Grant) -> bool {
    let names_claim = acquire.mode.is_some() || acquire.permits.is_some();
    acquire.open.ttl.is_none_or(|ttl| ttl == held.ttl)
        && acquire.mode.is_none_or(|mode| mode == held.mode)
        && acquire.permits.is_none_or(|permits| permits == held.permits)
        && (held.hold_count == 1 || !names_claim)
}

/// The span of an acquire; disabled if the call is not traced.
pub(crate) fn acquire_span(acquire: &Acquire) -> Span {
    holdfast_trace::span!("acquire", session = %acquire.open.session, locks = acquire.locks.count())
}

/// Returns the queue of the first lock of a multi-lock that is held or in cooldown, if there is one.
fn first_busy(queued: Vec<Queued>) -> Option<Queued> {
    let taken = queued.iter().position(|q| q.holder.is_some() || q.cooldown.is_some());
    queued.into_iter().nth(taken.unwrap_or(0))
}
