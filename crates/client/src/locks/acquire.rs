//! Acquiring: one entry in each queue, however many calls repeat the request.
//!
//! [`ClientLockRequest::acquire`] repeats the call, at any node that answers, until the grant, the end of the wait or
//! the end of the session. An acquire that is dropped or fails releases in the background the entries that it may have
//! left behind. Bounds: one call for each acquire.

use std::sync::Arc;
use std::time::{Duration, Instant};

use holdfast_api::{ErrorCode, GrantAllBody, GrantBody};
use holdfast_types::{Attempt, LockName};
use tokio::sync::watch;

use crate::calls::retry::{Answer, Delivery, accepted};
use crate::clock::Moment;
use crate::error::newest_attempt;
use crate::locks::held_locks::HeldLocks;
use crate::locks::hold::Hold;
use crate::locks::hold_limits::HoldLimits;
use crate::locks::lock_request::{ClientLockRequest, RequestedChange, WaitLimit};
use crate::locks::queue_entry::ClientQueueEntry;
use crate::numbers;
use crate::sessions::lease::{Acknowledged, deadline};
use crate::sessions::session::{Session, SessionUse};
use crate::{Error, Guard, Loss};

impl ClientLockRequest {
    /// Repeats the call until all locks are granted, the wait ends or the session ends. The holds are in the order of
    /// the grants.
    pub(crate) async fn acquire(
        self,
        session: SessionUse,
        limit: WaitLimit,
    ) -> Result<HeldLocks, Error> {
        let mut attempt = numbers::next_after(Attempt::UNNAMED);
        record_attempt(attempt);
        let sharded = self.options.is_sharded();
        let entry = |lock: &LockName| {
            let owner = self.owner.clone();
            Arc::new(match self.transferred {
                Some(token) => ClientQueueEntry::transferred(lock.clone(), owner, token),
                None => ClientQueueEntry::new(lock.clone(), owner, attempt, sharded),
            })
        };
        // Dropped after the release of the entries has begun.
        let _wait = session.session().pending.token();
        let mut pending = UnsettledAcquire::new(session, self.locks.iter().map(entry).collect());
        let mut is_granted_elsewhere = false;
        // Whether an earlier copy of the attempt has no answer.
        let mut in_doubt = false;
        let mut retry_at = Instant::now();
        loop {
            let session = pending.session.session();
            pending.state = AcquireOutcome::InDoubt;
            let send = async {
                accepted(retry_at).await;
                self.send(session, attempt, limit.next_call(), is_granted_elsewhere).await
            };
            let delivery = tokio::select! {
                delivery = send => delivery,
                loss = session.ending() => return Err(Error::Lost(loss)),
                // A renewal listed the locks as held: the node that holds the call is behind or frozen, so another node
                // gets the call.
                () = pending.granted_elsewhere() => {
                    (is_granted_elsewhere, in_doubt) = (true, true);
                    continue;
                }
            };
            is_granted_elsewhere = false;
            in_doubt |= delivery.in_doubt;
            retry_at = delivery.retry_at;
            match delivery.result {
                Ok(answer) => return pending.granted(answer, self),
                // The node died, held the call for the maximum time, or has no leader. The queue entry still exists.
                Err(error) if error.is_uncertain() && !limit.is_over_at(retry_at) => {}
                // Until its session ends, a waiter keeps its place and tries the token that the file has.
                Err(error) if session.calls.nodes.may_get_token(&error) && !limit.is_over() => {}
                Err(Error::Rejected(problem)) if let Some(newest) = newest_attempt(&problem) => {
                    attempt = numbers::next_after(newest);
                    record_attempt(attempt);
                    pending.begin_attempt(attempt);
                    in_doubt = false;
                }
                // The API bounds the wait of one call, so the acquire continues with another call.
                Err(Error::Busy(problem))
                    if problem.code == ErrorCode::WaitTimeout && !limit.is_over() => {}
                Err(error) => {
                    if let Error::Lost(loss) = &error {
                        session.end(loss.clone());
                    }
                    if leaves_nothing_behind(&error, in_doubt) {
                        pending.state = AcquireOutcome::Nothing;
                    }
                    return Err(error);
                }
            }
        }
    }

    async fn send(
        &self,
        session: &Session,
        attempt: Attempt,
        wait: Duration,
        is_granted_elsewhere: bool,
    ) -> Delivery<Vec<GrantBody>> {
        let calls = session.calls.with_timeout(self.request_timeout);
        let call = if self.transferred.is_some() {
            // It never acquires the lock: not even a late copy.
            let value = self.options.value.clone();
            let change = RequestedChange { value, ..RequestedChange::default() };
            self.change_call(session.id(), None, attempt, &change, wait)
        } else {
            self.call(session.id(), attempt, self.mode, wait)
        };
        let delivery = calls.deliver_acquire(&call, is_granted_elsewhere).await;
        match self.locks.as_slice() {
            [_] => delivery.json().map(|grant| vec![grant]),
            _ => delivery.json().map(|body: GrantAllBody| body.grants),
        }
    }

    /// Acquires the single lock of the request without queueing.
    pub(crate) async fn acquire_one(self, session: &Arc<Session>) -> Result<Guard, Error> {
        self.acquire(SessionUse::of(session), WaitLimit::none()).await.and_then(Guard::new)
    }
}

impl Guard {
    /// Re-enters the lock: returns another guard of the same hold. The cluster releases the lock after the last
    /// release.
    ///
    /// # Errors
    /// [`Error::Lost`] if the lock was lost meanwhile: the call does not acquire it again. Otherwise see [`Error`].
    #[tracing::instrument(
        level = "debug", name = "acquire", skip_all, err(level = "debug"),
        fields(lock = %self.lock(), session = %self.session.name, attempt = tracing::field::Empty)
    )]
    pub async fn reenter(&self) -> Result<Guard, Error> {
        self.ensure()?;
        let guard = self.locks.request.reentry(self.mode()).acquire_one(&self.session).await?;
        if guard.grant().ticket != self.grant().ticket {
            self.entry.lose(Loss::ReleasedElsewhere);
            return Err(Error::Lost(Loss::ReleasedElsewhere));
        }
        Ok(guard)
    }
}

/// Records the attempt in the current span.
fn record_attempt(attempt: Attempt) {
    tracing::Span::current().record("attempt", attempt.0);
}

/// The state that the cluster may have stored for an acquire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AcquireOutcome {
    Nothing,
    InDoubt,
    /// The entries belong to holds.
    Granted,
}

/// The queue entries of an unfinished acquire. Dropping it releases the entries that may remain.
#[derive(Debug)]
struct UnsettledAcquire {
    session: SessionUse,
    entries: Vec<Arc<ClientQueueEntry>>,
    state: AcquireOutcome,
}

impl UnsettledAcquire {
    fn new(session: SessionUse, entries: Vec<Arc<ClientQueueEntry>>) -> Self {
        for entry in &entries {
            session.session().entries.add(entry.clone());
        }
        Self { session, entries, state: AcquireOutcome::Nothing }
    }

    /// Starts another attempt after the previous one has ended: later calls name the new attempt. No attempt of this client
    /// acquired a transferred hold.
    fn begin_attempt(&self, attempt: Attempt) {
        let acquired = self.entries.iter().filter(|entry| entry.attempt().is_some());
        acquired.for_each(|entry| entry.begin_attempt(attempt));
    }

    /// A multi-lock is granted as a whole, so one entry represents all.
    async fn granted_elsewhere(&self) {
        match self.entries.first() {
            Some(first) => first.granted_elsewhere.notified().await,
            None => std::future::pending().await,
        }
    }

    fn entry_of(&self, grant: &GrantBody) -> Option<&Arc<ClientQueueEntry>> {
        match self.entries.as_slice() {
            [only] => Some(only),
            many => many.iter().find(|entry| *entry.lock() == grant.lock),
        }
    }

    /// Turns the grants into holds, if the session is alive.
    fn granted(
        mut self,
        answer: Answer<Vec<GrantBody>>,
        request: ClientLockRequest,
    ) -> Result<HeldLocks, Error> {
        let session = self.session.session();
        let mut granted = Vec::new();
        for grant in answer.body {
            let counted_from = answer.sent.plus(Duration::from_millis(grant.waited_ms));
            let held = Duration::from_millis(grant.expires_in_ms.unwrap_or(0));
            session.acknowledge(Acknowledged { counted_from, held })?;
            let Some(entry) = self.entry_of(&grant) else {
                let reason = format!("{} was granted without a request", grant.lock);
                return Err(Error::UnexpectedResponse(reason));
            };
            granted.push((entry.clone(), grant, counted_from));
        }
        if granted.len() != self.entries.len() {
            return Err(Error::UnexpectedResponse("not all locks were granted".to_owned()));
        }
        self.state = AcquireOutcome::Granted;
        let hold = |(entry, grant, from)| new_hold(session, entry, grant, from, &request);
        let holds = granted.into_iter().map(hold).collect();
        Ok(HeldLocks::new(holds, request, SessionUse::of(session)))
    }
}

impl Drop for UnsettledAcquire {
    fn drop(&mut self) {
        let session = self.session.session();
        match self.state {
            AcquireOutcome::Granted => {}
            AcquireOutcome::Nothing => session.entries.remove_all(&self.entries),
            AcquireOutcome::InDoubt => {
                session.release_in_background(std::mem::take(&mut self.entries));
            }
        }
    }
}

fn new_hold(
    session: &Arc<Session>,
    entry: Arc<ClientQueueEntry>,
    mut grant: GrantBody,
    counted_from: Moment,
    request: &ClientLockRequest,
) -> Hold {
    let max_hold = max_hold_of(&grant, request.options.max_hold, counted_from);
    entry.set_shard(&grant.lock);
    if request.transferred.is_none() {
        // Another guard of the owner may have a stronger mode, which ends with that guard.
        grant.mode = request.mode.unwrap_or_default();
    }
    session.entries.follow_upgrade(&grant.lock, grant.ticket, grant.token);
    let grant = Arc::new(watch::Sender::new(Arc::new(grant)));
    entry.hold(&grant);
    let limits = HoldLimits::new(request.progress_timeout, max_hold, Moment::now());
    session.entries.limit(&entry, limits);
    Hold { session: session.clone(), entry, grant }
}

/// The longest time of a hold and its local end. A hold that was transferred, or that another acquire of the owner began, may
/// end although this request named no `max_hold`. The cluster counts from the grant, which is not before `counted_from`. The
/// node that counted the remaining time may have been behind.
fn max_hold_of(
    grant: &GrantBody,
    requested: Option<Duration>,
    counted_from: Moment,
) -> Option<(Duration, Moment)> {
    let left = grant.ends_in_ms.map(Duration::from_millis);
    let end = left.into_iter().chain(requested).min()?;
    Some((requested.unwrap_or(end), deadline(counted_from, end)))
}

/// Whether a failed call certainly left no state in the cluster.
pub(crate) fn leaves_nothing_behind(error: &Error, in_doubt: bool) -> bool {
    !in_doubt && !error.is_unclear()
}
