//! PendingAcquire a lock and waiting for it.
//!
//! An acquire is one command. If it queues, the call is parked on this node and woken by this node's own apply.
//! While it is parked, the node renews the caller's session on its behalf. The wait ends with the grant, with the
//! loss of the place, with its deadline (a cancel command: if the grant was ordered first, the grant is the
//! answer), with a shutdown, or with the caller disconnecting.

use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use holdfast_types::{
    Acquire, AcquireReply, Cancel, Command, Grant, LockName, LossCause, Owner, Queued, Rejection,
    Reply, Revision, SessionName, Standing,
};
use tokio::sync::oneshot;
use tokio::time::MissedTickBehavior;

use crate::context::{RequestContext, Response};
use crate::departure::{Departure, Orphan};
use crate::failure::Failure;
use crate::line::Following;
use crate::service::Service;
use crate::waiters::{Parked, Seat, Woken};

/// Waiters listed with a lock at most; the total is always told.
pub(crate) const WAITERS_SHOWN: usize = 100;

/// A caller's place, as long as the call lives.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) lock: LockName,
    pub(crate) session: SessionName,
    pub(crate) owner: Owner,
    /// The session was made for this call.
    pub(crate) anonymous: bool,
    pub(crate) queued: Queued,
}

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

/// One acquire under way.
pub(crate) struct AcquireCall {
    arrived: Instant,
    /// When the last renewal that a quorum stands behind was begun.
    renewed: Instant,
    until: Instant,
}

impl AcquireCall {
    /// One that begins now and waits so long.
    pub(crate) fn begin(wait: Duration) -> Self {
        let arrived = Instant::now();
        Self { arrived, renewed: arrived, until: arrived + wait }
    }

    pub(crate) fn answer(&self, grant: Grant, revision: Revision) -> Response<Granted> {
        let now = Instant::now();
        let waited = now.duration_since(self.arrived);
        let since_renewed = now.duration_since(self.renewed);
        let expires_in = grant.ttl.as_duration().saturating_sub(since_renewed);
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
        position: Option<oneshot::Sender<Following>>,
    ) -> Result<Response<Granted>, Failure> {
        let wait = wait_of(acquire.wait, acquire.wait_ms);
        let seat = self.admit(wait)?;
        let attempt = AcquireCall::begin(wait);
        if let Some(renewed) = self.renew_held(&acquire, &attempt).await? {
            return Ok(renewed);
        }
        let (open, owner) = (acquire.open.clone(), acquire.owner.clone());
        let orphan = Orphan::of(self.clone(), &open);
        let proposed = self.propose_for(Command::Acquire(acquire), Reply::into_acquire).await;
        if !matches!(proposed, Err(Failure::OutcomeUnknown)) {
            orphan.settle();
        }
        let Response { value, revision, .. } =
            proposed.inspect_err(|failure| self.count_busy(failure))?;
        let request = &context.request_id;
        match (value, seat) {
            (AcquireReply::Granted(grant), _) => {
                tracing::debug!(request, lock = %grant.lock, session = %open.session, token = grant.token.0, "granted");
                self.metrics().granted.inc();
                Ok(attempt.answer(grant, revision))
            }
            (AcquireReply::Queued(queued), Some(seat)) => {
                let lock = queued.lock.clone();
                tracing::debug!(request, %lock, session = %open.session, ahead = queued.ahead, "queued");
                if let Some(position) = position {
                    // An error means that the caller has gone, and this call with it.
                    position.send(self.lines().follow(self, &lock, queued.ticket)).ok();
                }
                let place =
                    Place { lock, session: open.session, owner, anonymous: open.anonymous, queued };
                self.wait(attempt, place, seat).boxed().await
            }
            (AcquireReply::Queued(_), None) => Err(Failure::UnexpectedReply),
        }
    }

    /// Counts a refusal of a caller that did not want to wait.
    pub(crate) fn count_busy(&self, failure: &Failure) {
        let Failure::Rejected(rejection) = failure else { return };
        let why =
            if let Rejection::MemberRefused { why, .. } = rejection { why } else { rejection };
        let busy = matches!(
            why,
            Rejection::LockBusy { .. }
                | Rejection::LockClosed { .. }
                | Rejection::LockReserved { .. }
        );
        if busy {
            self.metrics().busy.inc();
        }
    }

    /// What can be refused before anything is written.
    pub(crate) fn admit(&self, wait: Duration) -> Result<Option<Seat>, Failure> {
        let max = self.tunables().wait_max;
        if wait > max {
            return Err(Failure::WaitTooLong { max });
        }
        if self.is_draining() {
            return Err(Failure::ShuttingDown);
        }
        if wait.is_zero() {
            return Ok(None);
        }
        self.waiters().seat().map(Some).map_err(|limit| Failure::TooManyWaiters { limit })
    }

    /// The same call again by a holder is a renewal: no log entry, the same token.
    async fn renew_held(
        &self,
        acquire: &Acquire,
        attempt: &AcquireCall,
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
        let contender = Some((held.lock, owner.clone()));
        let renewed = self.renew(&open.session, contender, self.deadline()).await?;
        let Some(Standing::Holding(grant)) = renewed.standing else { return Ok(None) };
        Ok(Some(attempt.answer(Grant { renewed: true, ..grant }, renewed.revision)))
    }

    pub(crate) async fn wait(
        &self,
        mut attempt: AcquireCall,
        place: Place,
        seat: Seat,
    ) -> Result<Response<Granted>, Failure> {
        let parked = seat.park(place.queued.ticket);
        let departure = Departure::of(self.clone(), place.clone(), seat, attempt.until);
        let result = self.wait_parked(&mut attempt, &place, parked).await;
        if is_definite(&result) {
            departure.settle();
        }
        if result.is_ok() {
            self.metrics().granted.inc();
        }
        result
    }

    async fn wait_parked(
        &self,
        attempt: &mut AcquireCall,
        place: &Place,
        mut parked: Parked,
    ) -> Result<Response<Granted>, Failure> {
        let ttl = place.queued.ttl.as_duration();
        let mut renewals = tokio::time::interval_at(tokio::time::Instant::now() + ttl / 3, ttl / 3);
        renewals.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let until = tokio::time::sleep_until(attempt.until.into());
        tokio::pin!(until);
        let mut renewal = None;
        let mut woken = Woken::Look;
        loop {
            match woken {
                Woken::Granted(grant) => {
                    return self.granted_late(attempt, place, grant).boxed().await;
                }
                Woken::Left(cause) => return Err(self.left(attempt, place, cause)),
                Woken::Look => match self.look(place) {
                    Look::Granted(grant) => {
                        return self.granted_late(attempt, place, grant).boxed().await;
                    }
                    Look::Waiting => {}
                    Look::Gone => return Err(self.gone(attempt, place)),
                },
            }
            woken = tokio::select! {
                woken = parked.woken() => woken,
                () = &mut until => return self.cancel(attempt, place).boxed().await,
                () = self.draining().cancelled() => return self.turn_away(attempt, place).boxed().await,
                _ = renewals.tick(), if renewal.is_none() => {
                    renewal = Some(self.renew_waiting(place).boxed());
                    Woken::Look
                }
                renewed = poll(&mut renewal), if renewal.is_some() => {
                    renewal = None;
                    attempt.renewed = renewed?.unwrap_or(attempt.renewed);
                    Woken::Look
                }
            };
        }
    }

    /// The state as this node has it; events may have come before the caller was parked, or were skipped.
    fn look(&self, place: &Place) -> Look {
        let Place { lock, session, owner, queued, .. } = place;
        let (standing, revision) = self
            .raft()
            .read(|machine| (machine.standing(lock, session, owner), machine.revision()));
        match standing {
            Some(Standing::Holding(grant)) if grant.ticket == queued.ticket => Look::Granted(grant),
            Some(Standing::Waiting(found)) if found.ticket == queued.ticket => Look::Waiting,
            // This node has not applied the acquire yet.
            Some(_) | None if revision < Revision(queued.ticket.0) => Look::Waiting,
            Some(_) | None => Look::Gone,
        }
    }

    /// Renews the session of a waiting caller; answers when the renewal that was acknowledged began.
    async fn renew_waiting(&self, place: &Place) -> Result<Option<Instant>, Failure> {
        let began = Instant::now();
        match self.renew(&place.session, None, self.deadline()).await {
            Ok(_) => Ok(Some(began)),
            Err(Failure::Rejected(rejection)) => Err(Failure::Rejected(rejection)),
            // No leader just now: the place is safe, because nobody can expire the session either.
            Err(failure) => {
                tracing::debug!(session = %place.session, %failure, "renewal of a waiter postponed");
                Ok(None)
            }
        }
    }

    /// A grant for a caller who waited. If its last renewal is so old that nothing is certainly left of the lease,
    /// the caller is told that it holds only after another one.
    async fn granted_late(
        &self,
        attempt: &mut AcquireCall,
        place: &Place,
        grant: Grant,
    ) -> Result<Response<Granted>, Failure> {
        if attempt.renewed.elapsed() >= grant.ttl.as_duration() {
            let began = Instant::now();
            let contender = Some((place.lock.clone(), place.owner.clone()));
            let renewed = self.renew(&place.session, contender, self.deadline()).await;
            let standing = match renewed {
                Ok(renewed) => renewed.standing,
                Err(Failure::Rejected(rejection)) => return Err(Failure::Rejected(rejection)),
                Err(_) => return Err(Failure::OutcomeUnknown),
            };
            match standing {
                Some(Standing::Holding(held)) if held.ticket == grant.ticket => {}
                Some(_) | None => return Err(self.gone(attempt, place)),
            }
            attempt.renewed = began;
        }
        let revision = grant.granted_in;
        tracing::debug!(lock = %grant.lock, session = %grant.session, token = grant.token.0, "granted after a wait");
        Ok(attempt.answer(grant, revision))
    }

    /// The place is gone without a grant.
    fn left(&self, attempt: &AcquireCall, place: &Place, cause: LossCause) -> Failure {
        let session = place.session.clone();
        match cause {
            LossCause::SessionExpired => Failure::Rejected(Rejection::SessionExpired { session }),
            LossCause::SessionClosed => Failure::Rejected(Rejection::NoSession { session }),
            LossCause::Released
            | LossCause::Deleted
            | LossCause::MaxHold
            | LossCause::Revoked
            | LossCause::Broken
            | LossCause::HandedOver
            | LossCause::LimitLowered => self.timed_out(attempt, place),
        }
    }

    /// The place is gone, and the event that would say why was not seen.
    fn gone(&self, attempt: &AcquireCall, place: &Place) -> Failure {
        match self.view(&place.session) {
            Ok(_) => self.timed_out(attempt, place),
            Err(ended) => ended,
        }
    }

    fn timed_out(&self, attempt: &AcquireCall, place: &Place) -> Failure {
        self.metrics().timed_out.inc();
        let lock = self.raft().read(|machine| machine.lock(&place.lock, WAITERS_SHOWN));
        Failure::WaitTimeout { lock: Box::new(lock), waited: attempt.arrived.elapsed() }
    }

    /// The wait is over; the log says whether the grant came first. While it does not say, the caller may be in the
    /// queue or hold the lock, whatever kept the cancel from the log.
    async fn cancel(
        &self,
        attempt: &AcquireCall,
        place: &Place,
    ) -> Result<Response<Granted>, Failure> {
        match self.propose(place.cancel()).await {
            Ok((Reply::Granted(grant), revision)) => Ok(attempt.answer(grant, revision)),
            Ok(_) => Err(self.timed_out(attempt, place)),
            Err(Failure::Rejected(rejection)) => Err(Failure::Rejected(rejection)),
            Err(_) => Err(Failure::OutcomeUnknown),
        }
    }

    /// This node is about to stop. A caller with a session of its own keeps its place and asks another node.
    async fn turn_away(
        &self,
        attempt: &AcquireCall,
        place: &Place,
    ) -> Result<Response<Granted>, Failure> {
        if !place.anonymous {
            return Err(Failure::ShuttingDown);
        }
        match self.cancel(attempt, place).await {
            Err(Failure::WaitTimeout { .. }) => Err(Failure::ShuttingDown),
            other => other,
        }
    }
}

/// How long an acquire waits; [`Duration::MAX`] if it names no end.
pub(crate) fn wait_of(wait: bool, wait_ms: Option<u64>) -> Duration {
    match (wait, wait_ms) {
        (false, _) => Duration::ZERO,
        (true, None) => Duration::MAX,
        (true, Some(ms)) => Duration::from_millis(ms),
    }
}

/// Where a parked caller stands, as this node has it.
enum Look {
    Granted(Grant),
    Waiting,
    Gone,
}

/// Whether the caller was told where it stands for certain.
fn is_definite(result: &Result<Response<Granted>, Failure>) -> bool {
    matches!(result, Ok(_) | Err(Failure::Rejected(_) | Failure::WaitTimeout { .. }))
}

/// Waits for the renewal under way.
async fn poll<T>(renewal: &mut Option<BoxFuture<'_, T>>) -> T {
    match renewal {
        Some(renewal) => renewal.await,
        None => std::future::pending().await,
    }
}

impl Place {
    /// The command that gives the place up, unless the owner has asked for it again since.
    pub(crate) fn cancel(&self) -> Command {
        Command::Cancel(Cancel {
            lock: self.lock.clone(),
            session: self.session.clone(),
            owner: self.owner.clone(),
            ticket: self.queued.ticket,
            asked: self.queued.asked,
        })
    }
}
