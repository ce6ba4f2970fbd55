//! Taking a lock, waiting for it, and giving it back.
//!
//! An acquire is one command. If it queues, the call is parked on this node and woken by this node's own apply.
//! While it is parked, the node renews the caller's session on its behalf. The wait ends with the grant, with the
//! loss of the place, with its deadline (a cancel command: if the grant was ordered first, the grant is the
//! answer), with a shutdown, or with the caller hanging up.

use std::time::{Duration, Instant};

use holdfast_types::{
    Acquire, Cancel, Command, EntryId, Grant, Labels, LockName, LossCause, OpenSession, Owner,
    Queued, Rejection, Release, Reply, Revision, SessionName, Standing, Ttl,
};
use tokio::time::MissedTickBehavior;

use crate::answer::{Answer, Failure, Response};
use crate::request::{AcquireRequest, Call};
use crate::service::{Service, respond};
use crate::waiters::{Parked, Seat, Woken};

/// Waiters listed with a lock at most; the total is always told.
pub(crate) const WAITERS_SHOWN: usize = 100;

/// A caller's place, as long as the call lives.
#[derive(Clone, Debug)]
struct Place {
    lock: LockName,
    session: SessionName,
    owner: Owner,
    anonymous: bool,
    queued: Queued,
}

/// One acquire under way.
struct Attempt {
    arrived: Instant,
    /// When the last renewal that a quorum stands behind was begun.
    renewed: Instant,
    until: Instant,
}

impl Attempt {
    fn answer(&self, grant: Grant, revision: Revision) -> Response {
        let now = Instant::now();
        let waited = now.duration_since(self.arrived);
        let since_renewed = now.duration_since(self.renewed);
        let expires_in = grant.ttl.as_duration().saturating_sub(since_renewed);
        respond(Answer::Granted { grant, waited, expires_in }, revision)
    }
}

impl Service {
    pub(crate) async fn acquire(
        &self,
        call: Call,
        request: AcquireRequest,
    ) -> Result<Response, Failure> {
        let arrived = Instant::now();
        let attempt = Attempt { arrived, renewed: arrived, until: arrived + request.wait };
        let seat = self.admit(request.wait)?;
        if let Some(renewed) = self.renew_held(&request, &attempt).await? {
            return Ok(renewed);
        }
        let wait = seat.is_some();
        let acquire = command(request, wait)?;
        let (lock, open, owner) =
            (acquire.lock.clone(), acquire.open.clone(), acquire.owner.clone());
        let (outcome, revision) = self.propose(Command::Acquire(acquire)).await?;
        match (outcome, seat) {
            (Ok(Reply::Granted(grant)), _) => {
                tracing::debug!(request = call.request_id, %lock, session = %open.session, token = %grant.token, "granted");
                self.metrics().granted.inc();
                Ok(attempt.answer(grant, revision))
            }
            (Ok(Reply::Queued(queued)), Some(seat)) => {
                tracing::debug!(request = call.request_id, %lock, session = %open.session, ahead = queued.ahead, "queued");
                let place =
                    Place { lock, session: open.session, owner, anonymous: open.anonymous, queued };
                self.wait(attempt, place, seat).await
            }
            (Err(rejection), _) => {
                if matches!(rejection, Rejection::LockBusy { .. }) {
                    self.metrics().busy.inc();
                }
                Err(Failure::Rejected(rejection))
            }
            (Ok(_), _) => Err(Failure::OutcomeUnknown),
        }
    }

    /// What can be refused before anything is written.
    fn admit(&self, wait: Duration) -> Result<Option<Seat>, Failure> {
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
        request: &AcquireRequest,
        attempt: &Attempt,
    ) -> Result<Option<Response>, Failure> {
        let (Some(session), None) = (&request.session, &request.entry) else { return Ok(None) };
        let owner = request.owner.clone().unwrap_or_else(Owner::unnamed);
        let standing = self.raft().read(|machine| machine.standing(&request.lock, session, &owner));
        let Some(Standing::Holding(held)) = standing else { return Ok(None) };
        if request.ttl.is_some_and(|ttl| ttl != held.ttl) {
            return Ok(None);
        }
        let contender = Some((request.lock.clone(), owner));
        let renewed = self.renew(session, contender, self.deadline()).await?;
        let Some(Standing::Holding(grant)) = renewed.standing else { return Ok(None) };
        Ok(Some(attempt.answer(Grant { renewed: true, ..grant }, renewed.revision)))
    }

    async fn wait(
        &self,
        mut attempt: Attempt,
        place: Place,
        seat: Seat,
    ) -> Result<Response, Failure> {
        let parked = seat.park(place.queued.ticket);
        let guard =
            HangUp { service: self.clone(), place: Some(place.clone()), until: attempt.until };
        let result = self.wait_parked(&mut attempt, &place, parked).await;
        guard.disarm();
        if result.is_ok() {
            self.metrics().granted.inc();
        }
        result
    }

    async fn wait_parked(
        &self,
        attempt: &mut Attempt,
        place: &Place,
        mut parked: Parked,
    ) -> Result<Response, Failure> {
        let ttl = place.queued.ttl.as_duration();
        let mut renewals = tokio::time::interval_at(tokio::time::Instant::now() + ttl / 3, ttl / 3);
        renewals.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let until = tokio::time::sleep_until(attempt.until.into());
        tokio::pin!(until);
        let mut woken = Woken::Look;
        loop {
            match woken {
                Woken::Granted(grant) => return Ok(granted_late(attempt, grant)),
                Woken::Left(cause) => return Err(self.left(attempt, place, cause)),
                Woken::Look => {
                    if let Some(grant) = self.look(place) {
                        return Ok(granted_late(attempt, grant));
                    }
                }
            }
            woken = tokio::select! {
                woken = parked.woken() => woken,
                () = &mut until => return self.cancel(attempt, place).await,
                () = self.draining().cancelled() => return self.turn_away(attempt, place).await,
                _ = renewals.tick() => {
                    self.renew_waiting(attempt, place).await?;
                    Woken::Look
                }
            };
        }
    }

    /// The state as this node has it; events may have come before the caller was parked.
    fn look(&self, place: &Place) -> Option<Grant> {
        let Place { lock, session, owner, queued, .. } = place;
        match self.raft().read(|machine| machine.standing(lock, session, owner)) {
            Some(Standing::Holding(grant)) if grant.ticket == queued.ticket => Some(grant),
            Some(Standing::Holding(_) | Standing::Waiting(_)) | None => None,
        }
    }

    async fn renew_waiting(&self, attempt: &mut Attempt, place: &Place) -> Result<(), Failure> {
        let began = Instant::now();
        match self.renew(&place.session, None, self.deadline()).await {
            Ok(_) => attempt.renewed = began,
            Err(Failure::Rejected(rejection)) => return Err(Failure::Rejected(rejection)),
            // No leader just now: the place is safe, because nobody can expire the session either.
            Err(failure) => {
                tracing::debug!(session = %place.session, ?failure, "renewal of a waiter postponed");
            }
        }
        Ok(())
    }

    /// The place is gone without a grant.
    fn left(&self, attempt: &Attempt, place: &Place, cause: LossCause) -> Failure {
        let session = place.session.clone();
        match cause {
            LossCause::SessionExpired => Failure::Rejected(Rejection::SessionExpired { session }),
            LossCause::SessionClosed => Failure::Rejected(Rejection::NoSession { session }),
            LossCause::Released | LossCause::Deleted => self.timed_out(attempt, place),
        }
    }

    fn timed_out(&self, attempt: &Attempt, place: &Place) -> Failure {
        self.metrics().timed_out.inc();
        let lock = self.raft().read(|machine| machine.lock(&place.lock, WAITERS_SHOWN));
        Failure::WaitTimeout { lock: Box::new(lock), waited: attempt.arrived.elapsed() }
    }

    /// The wait is over; the log says whether the grant came first.
    async fn cancel(&self, attempt: &Attempt, place: &Place) -> Result<Response, Failure> {
        let (outcome, revision) = self.propose(place.cancel()).await?;
        match outcome {
            Ok(Reply::Granted(grant)) => Ok(attempt.answer(grant, revision)),
            Ok(_) => Err(self.timed_out(attempt, place)),
            Err(rejection) => Err(Failure::Rejected(rejection)),
        }
    }

    /// This node is about to stop. A caller with a session of its own keeps its place and asks another node.
    async fn turn_away(&self, attempt: &Attempt, place: &Place) -> Result<Response, Failure> {
        if !place.anonymous {
            return Err(Failure::ShuttingDown);
        }
        match self.cancel(attempt, place).await {
            Err(Failure::WaitTimeout { .. }) => Err(Failure::ShuttingDown),
            other => other,
        }
    }

    pub(crate) async fn release(
        &self,
        lock: LockName,
        session: SessionName,
        owner: Option<Owner>,
        entry: Option<EntryId>,
    ) -> Result<Response, Failure> {
        let owner = owner.unwrap_or_else(Owner::unnamed);
        let release = Release { lock, session, owner, entry };
        let (outcome, revision) = self.propose(Command::Release(release)).await?;
        match outcome {
            Ok(Reply::Released(released)) => Ok(respond(Answer::Released(released), revision)),
            Ok(_) => Err(Failure::OutcomeUnknown),
            Err(rejection) => Err(Failure::Rejected(rejection)),
        }
    }
}

fn command(request: AcquireRequest, wait: bool) -> Result<Acquire, Failure> {
    let AcquireRequest { lock, session, owner, entry, ttl, labels, .. } = request;
    let anonymous = session.is_none();
    let session = match session {
        Some(session) => session,
        None => server_made_name()?,
    };
    let open = OpenSession { session, ttl, anonymous, labels };
    Ok(Acquire { lock, open, owner: owner.unwrap_or_else(Owner::unnamed), entry, wait })
}

fn granted_late(attempt: &Attempt, grant: Grant) -> Response {
    let revision = grant.granted_in;
    tracing::debug!(lock = %grant.lock, session = %grant.session, token = %grant.token, "granted after a wait");
    attempt.answer(grant, revision)
}

impl Place {
    fn cancel(&self) -> Command {
        Command::Cancel(Cancel {
            lock: self.lock.clone(),
            session: self.session.clone(),
            owner: self.owner.clone(),
            ticket: self.queued.ticket,
            asked: self.queued.asked,
        })
    }
}

/// Watches for the caller hanging up, which drops the call's future and this with it.
struct HangUp {
    service: Service,
    place: Option<Place>,
    until: Instant,
}

impl HangUp {
    /// The call has its answer: nothing is left to clean up.
    fn disarm(mut self) {
        self.place = None;
    }
}

impl Drop for HangUp {
    fn drop(&mut self) {
        if let Some(place) = self.place.take() {
            tokio::spawn(leave(self.service.clone(), place, self.until));
        }
    }
}

/// Nobody listens any more. A session made for this call leaves at once, with its grant if it has one; another one
/// keeps its place until its wait would have ended, because its client may ask again (and then this cancel, which
/// names the older request, has no effect).
async fn leave(service: Service, place: Place, until: Instant) {
    if !place.anonymous {
        tokio::select! {
            () = tokio::time::sleep_until(until.into()) => {}
            () = service.stopped().cancelled() => return,
        }
    }
    match service.propose(place.cancel()).await {
        Ok((Ok(Reply::Granted(grant)), _)) if place.anonymous => {
            let Place { lock, session, owner, .. } = place;
            let given_back = service.release(lock, session, Some(owner), None).await;
            tracing::debug!(token = %grant.token, ok = given_back.is_ok(), "gave back a grant nobody waited for");
        }
        Ok(_) => {}
        // The session's lease is the backstop: nobody renews it now.
        Err(failure) => {
            tracing::debug!(lock = %place.lock, ?failure, "a place is left to its lease");
        }
    }
}

/// A session id nobody has: 128 random bits.
pub(crate) fn server_made_name() -> Result<SessionName, Failure> {
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes).map_err(|error| Failure::Failed(error.to_string()))?;
    let name = format!("s-{:032x}", u128::from_le_bytes(bytes));
    SessionName::new(name).map_err(|error| Failure::Failed(error.to_string()))
}

/// What a session opened by a call without labels or time-to-live looks like.
pub(crate) fn opening(session: SessionName, ttl: Option<Ttl>, labels: Labels) -> OpenSession {
    OpenSession { session, ttl, anonymous: false, labels }
}
