//! Cleanup after callers that disconnect, through the log.
//!
//! A call holds the guards of this file; a guard acts when the call is dropped without a reply. Each guard repeats
//! its command until it has an outcome, because the lease of a session that is renewed elsewhere does not expire.
//!
//! Bounds: an [`AbandonedEntryGuard`] keeps its caller's permit; closing a session is retried for [`CLOSING_MAX`].

use std::time::{Duration, Instant};

use holdfast_types::{Command, EntryState, OpenSession, Rejection, Reply, SessionName};

use super::WaiterPermit;
use crate::failure::Failure;
use crate::service::Service;

/// The pause between two attempts to propose the command.
const RETRY_AFTER: Duration = Duration::from_millis(250);
/// The longest pause between two attempts to close a session. Each attempt is an entry of the log.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(4);
/// How often a node looks whether an abandoned entry still waits. Until then the call has its place among the waiters of the node.
const LOOK_EVERY: Duration = Duration::from_secs(5);
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
/// session keeps its entry until its wait would have ended, because its client may repeat the call. When the node
/// drains, the entry stays, because the client calls another node.
async fn cancel_abandoned(service: Service, left: AbandonedEntry) {
    while left.anonymous.is_none() && Instant::now() < left.until {
        if is_over(&service, &left.cancel) {
            return;
        }
        tokio::select! {
            () = tokio::time::sleep_until(left.until.min(Instant::now() + LOOK_EVERY).into()) => {}
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
