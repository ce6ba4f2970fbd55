//! One wait: it ends with the awaited event, its deadline, the end of the caller's session or credential, or a shutdown.
//! Meanwhile the node renews the caller's session at a third of its TTL.
//!
//! A waiting call holds a guard, which acts when the call is dropped without a reply, because its caller disconnected. Each guard
//! repeats its command until it has an outcome, because the lease of a session that is renewed elsewhere does not expire. Bounds:
//! an [`AbandonedEntryGuard`] keeps its caller's permit; closing a session is retried for [`CLOSING_MAX`].

use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use holdfast_types::{
    Command, EntryState, LockName, OpenSession, Owner, Rejection, Reply, SessionId, SessionName,
    Ticket,
};

use super::parked::WaiterPermit;
use crate::auth::authorization::{CredentialWatch, credential_ended};
use crate::request::Failure;
use crate::service::Service;
use crate::service_call::{Renewed, SessionToRenew};

/// The next event that a waiting call handles.
#[derive(Debug)]
pub(crate) enum WaitEvent<W> {
    /// The awaited event may have happened.
    Woken(W),
    /// A quorum confirmed a renewal of the caller's session that started at `began`.
    Renewed {
        began: Instant,
        renewed: Renewed,
    },
    SessionEnded(Rejection),
    /// The caller's access token was deleted or has expired.
    Denied(Rejection),
    Deadline,
    /// The node is shutting down.
    Draining,
}

/// One wait: its deadline, and the renewals of the caller's session.
pub(crate) struct Wait {
    service: Service,
    deadline: Instant,
    renewals: Option<WaiterRenewals>,
    credential: Option<CredentialWatch>,
}

struct WaiterRenewals {
    session: SessionName,
    /// The number of the session: a later session of the same name is not renewed. The first renewal tells it.
    id: Option<SessionId>,
    /// The hold or queue entry whose state each renewal also requests.
    place: Option<(LockName, Owner, Ticket)>,
    period: Duration,
    next_at: Instant,
    in_flight: Option<BoxFuture<'static, (Instant, Result<Renewed, Failure>)>>,
}

impl Wait {
    /// Creates the wait of a caller without a session.
    pub(crate) fn until(service: &Service, deadline: Instant) -> Self {
        let credential = service.watch_credential();
        Self { service: service.clone(), deadline, renewals: None, credential }
    }

    pub(crate) fn renewing(
        self,
        session: SessionName,
        id: Option<SessionId>,
        ttl: Duration,
    ) -> Self {
        let period = ttl / 3;
        let (next_at, place, in_flight) = (Instant::now() + period, None, None);
        let renewals = WaiterRenewals { session, id, place, period, next_at, in_flight };
        Self { renewals: Some(renewals), ..self }
    }

    /// Makes each renewal also request the state of the session's entry in a lock.
    pub(crate) fn asking_about(mut self, lock: LockName, owner: Owner, ticket: Ticket) -> Self {
        if let Some(renewals) = &mut self.renewals {
            renewals.place = Some((lock, owner, ticket));
        }
        self
    }

    /// Moves the deadline, but never back.
    pub(crate) fn extend_to(&mut self, deadline: Instant) {
        self.deadline = self.deadline.max(deadline);
    }

    /// Waits for `woken`, and renews the session meanwhile. Dropping the future loses no event.
    pub(crate) async fn next<W>(&mut self, woken: impl Future<Output = W>) -> WaitEvent<W> {
        tokio::pin!(woken);
        loop {
            let renew_at = self.renewals.as_ref().and_then(WaiterRenewals::next_at);
            let timer = renew_at.map_or(self.deadline, |renew_at| renew_at.min(self.deadline));
            tokio::select! {
                biased;
                woken = &mut woken => return WaitEvent::Woken(woken),
                () = self.service.draining().cancelled() => return WaitEvent::Draining,
                denied = credential_ended(&mut self.credential) => return WaitEvent::Denied(denied),
                (began, renewed) = finished(&mut self.renewals) => match renewed {
                    Ok(renewed) => {
                        if let Some(renewals) = &mut self.renewals {
                            renewals.follow(&renewed, began);
                        }
                        return WaitEvent::Renewed { began, renewed };
                    }
                    Err(Failure::Rejected(denied @ Rejection::Auth(_))) => {
                        return WaitEvent::Denied(denied);
                    }
                    Err(Failure::Rejected(rejection)) => return WaitEvent::SessionEnded(rejection),
                    // Without a leader, the session cannot expire either.
                    Err(failure) => tracing::debug!(%failure, "a waiter's renewal is postponed"),
                },
                () = tokio::time::sleep_until(timer.into()) => {
                    if Instant::now() >= self.deadline {
                        return WaitEvent::Deadline;
                    }
                    if let Some(renewals) = &mut self.renewals {
                        renewals.begin(&self.service);
                    }
                }
            }
        }
    }
}

impl WaiterRenewals {
    fn next_at(&self) -> Option<Instant> {
        self.in_flight.is_none().then_some(self.next_at)
    }

    /// Takes over the number of the session, and a TTL that another call has set.
    fn follow(&mut self, renewed: &Renewed, began: Instant) {
        self.id = Some(renewed.id);
        self.period = renewed.ttl.as_duration() / 3;
        self.next_at = self.next_at.min(began + self.period);
    }

    fn begin(&mut self, service: &Service) {
        let (session, queue_entry) = (self.session.clone(), self.place.clone());
        let of = SessionToRenew { session, id: self.id, queue_entry };
        let began = Instant::now();
        self.next_at = began + self.period;
        let service = service.clone();
        let renewal = async move { (began, service.renew(of, service.deadline()).await) };
        self.in_flight = Some(renewal.boxed());
    }
}

/// Returns the start of the renewal in flight and its result. Without a renewal it never resolves.
async fn finished(renewals: &mut Option<WaiterRenewals>) -> (Instant, Result<Renewed, Failure>) {
    let Some(renewals) = renewals else { return std::future::pending().await };
    let Some(in_flight) = &mut renewals.in_flight else { return std::future::pending().await };
    let finished = in_flight.await;
    renewals.in_flight = None;
    finished
}

/// The pause between two attempts to propose the command.
const RETRY_AFTER: Duration = Duration::from_millis(250);
/// The longest pause between two attempts to close a session. Each attempt is an entry of the log.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(4);
/// How often a node looks whether an abandoned entry still waits. Until then the call has its place among the waiters of the node.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// How long the entry of a durable wait outlives its connection. Its client may repeat the call on another one.
const DURABLE_GRACE: Duration = Duration::from_secs(5);
/// How long closing a session is retried. It exceeds the time that a command which opens the session can be in flight
/// after its caller disconnected.
const CLOSING_MAX: Duration = Duration::from_secs(15);

/// A waiting caller's queue entry or barrier arrival. Dropped before [`AbandonedEntryGuard::settle`], it cancels the entry.
pub(crate) struct AbandonedEntryGuard {
    service: Service,
    left: Option<AbandonedEntry>,
}

struct AbandonedEntry {
    /// Cancels the entry, unless the caller has repeated its request since.
    cancel: Command,
    /// The session, if it was opened for this call.
    anonymous: Option<SessionName>,
    /// When the wait would have ended.
    until: Instant,
    _permit: WaiterPermit,
}

impl AbandonedEntry {
    fn is_durable(&self) -> bool {
        matches!(&self.cancel, Command::Cancel(wait) if wait.session.is_durable())
    }
}

impl AbandonedEntryGuard {
    pub(crate) fn new(
        service: &Service,
        cancel: Command,
        anonymous: Option<SessionName>,
        until: Instant,
        permit: WaiterPermit,
    ) -> Self {
        let left = AbandonedEntry { cancel, anonymous, until, _permit: permit };
        Self { service: service.clone(), left: Some(left) }
    }

    /// Disarms the guard if the result of the call says that nothing waits any more. A sealed cluster cancels nothing.
    pub(crate) fn settle<T>(mut self, result: &Result<T, Failure>) {
        if match result {
            Ok(_) | Err(Failure::WaitTimeout { .. } | Failure::NotYet { .. }) => true,
            Err(Failure::Rejected(rejection)) => !matches!(rejection, Rejection::Sealed(_)),
            Err(_) => false,
        } {
            self.left = None;
        }
    }
}

impl Drop for AbandonedEntryGuard {
    fn drop(&mut self) {
        if let Some(left) = self.left.take() {
            tokio::spawn(cancel_abandoned(self.service.clone(), left));
        }
    }
}

/// Cancels an abandoned entry. An anonymous session leaves immediately and releases its grant, if it has one. A named
/// session keeps its entry until its wait would have ended, because its client may repeat the call; for a durable wait at most
/// for [`DURABLE_GRACE`], because nothing would end its hold. When the node drains, the entry stays, because the client calls
/// another node.
async fn cancel_abandoned(service: Service, left: AbandonedEntry) {
    let (until, look_every) = if left.is_durable() {
        (left.until.min(Instant::now() + DURABLE_GRACE), RETRY_AFTER)
    } else {
        (left.until, LOOK_EVERY)
    };
    while left.anonymous.is_none() && Instant::now() < until {
        if is_over(&service, &left.cancel) {
            return;
        }
        tokio::select! {
            () = tokio::time::sleep_until(until.min(Instant::now() + look_every).into()) => {}
            () = service.draining().cancelled() => return,
        }
    }
    loop {
        let pause = match service.propose(left.cancel.clone(), Some).await.map(|done| done.value) {
            // A sealed cluster closes sessions, and cancels nothing.
            Ok(Reply::Acquired(EntryState::Holding(_)))
            | Err(Failure::Rejected(Rejection::Sealed(_)))
                if left.anonymous.is_some() =>
            {
                break;
            }
            Err(Failure::Rejected(Rejection::Sealed(_))) => LOOK_EVERY,
            Ok(_) | Err(Failure::Rejected(_)) => return,
            Err(failure) => {
                tracing::debug!(%failure, "cannot cancel an abandoned entry; retrying");
                RETRY_AFTER
            }
        };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = service.draining().cancelled() => return,
        }
    }
    if let Some(session) = left.anonymous.clone() {
        close_session(service, session).await;
    }
}

/// Whether nothing is left to cancel: the entry was granted or removed, or its owner has repeated the call.
fn is_over(service: &Service, cancel: &Command) -> bool {
    let Command::Cancel(cancel) = cancel else { return false };
    service
        .raft()
        .read(|machine| machine.revision() >= cancel.requested_in && !machine.would_cancel(cancel))
}

/// An anonymous session whose name the caller has not received. Dropped before [`UnansweredSessionGuard::disarm`], it closes
/// the session.
pub(crate) struct UnansweredSessionGuard {
    service: Service,
    session: Option<SessionName>,
}

impl UnansweredSessionGuard {
    /// Does nothing for a named session.
    pub(crate) fn new(service: &Service, open: &OpenSession) -> Self {
        let session = open.anonymous.then(|| open.session.clone());
        Self { service: service.clone(), session }
    }

    /// Disarms the guard: the caller has a reply, or the session was certainly not opened.
    pub(crate) fn disarm(mut self) {
        self.session = None;
    }
}

impl Drop for UnansweredSessionGuard {
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            tokio::spawn(close_session(self.service.clone(), session));
        }
    }
}

/// Closes the session of a connection that has ended. After `limit` this stops, and the session's lease expires.
pub(crate) async fn close_session_within(
    service: Service,
    session: SessionName,
    limit: Option<Duration>,
) {
    let closing = close_session(service, session);
    let _in_time = tokio::time::timeout(limit.unwrap_or(CLOSING_MAX), closing).await;
}

/// Closes a session whose name no client has. The command that opens the session may still be in flight.
async fn close_session(service: Service, session: SessionName) {
    let (began, mut pause) = (Instant::now(), RETRY_AFTER);
    while began.elapsed() < CLOSING_MAX {
        if service.close_session(session.clone(), None).await.is_ok() {
            return;
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = service.stopped().cancelled() => return,
        }
        pause = RETRY_AFTER_MAX.min(2 * pause);
    }
}
