//! Callers that go away: what they leave behind is cleaned up, through the log, however long that takes.
//!
//! Owns two guards that a call holds. Dropping one means that nobody knows of what the call was about: a place in a
//! queue ([`Departure`]), or a session made for a call that has no answer yet ([`Orphan`]). What is left to do is
//! repeated until the log has answered, because a lease is no backstop for a session that is kept alive elsewhere.
//!
//! Bounds: a departure keeps its caller's seat, so there are never more than seats; an orphan ends after [`ORPHANED`].

use std::time::{Duration, Instant};

use holdfast_types::{Command, OpenSession, Reply, SessionName};

use crate::acquire::Place;
use crate::failure::Failure;
use crate::service::Service;
use crate::waiters::Seat;

/// Between two attempts to reach the log.
const PAUSE: Duration = Duration::from_millis(250);
/// How long a session may come into being after its caller has gone: longer than any command is under way.
const ORPHANED: Duration = Duration::from_secs(15);

/// A waiting caller's place; dropped armed when the caller hangs up, or cannot be told where it stands.
pub(crate) struct Departure {
    service: Service,
    left: Option<(Place, Seat)>,
    until: Instant,
}

impl Departure {
    /// Watches over a place that is wanted until then.
    pub(crate) fn of(service: Service, place: Place, seat: Seat, until: Instant) -> Self {
        Self { service, left: Some((place, seat)), until }
    }

    /// The caller knows for certain where it stands.
    pub(crate) fn settle(mut self) {
        self.left = None;
    }
}

impl Drop for Departure {
    fn drop(&mut self) {
        if let Some((place, seat)) = self.left.take() {
            tokio::spawn(leave(self.service.clone(), place, seat, self.until));
        }
    }
}

/// A session made for this call leaves at once, with its grant if it has one. Another one keeps its place until its
/// wait would have ended, because its client may ask again (and then this cancel, which names the older request, has
/// no effect). When the node drains, the place is left to the client, which asks another node.
async fn leave(service: Service, place: Place, _seat: Seat, until: Instant) {
    if !place.anonymous {
        tokio::select! {
            () = tokio::time::sleep_until(until.into()) => {}
            () = service.draining().cancelled() => return,
        }
    }
    loop {
        match service.propose(place.cancel()).await {
            Ok((Reply::Granted(_), _)) if place.anonymous => {
                return close(service, place.session).await;
            }
            Ok(_) | Err(Failure::Rejected(_)) => return,
            Err(failure) => tracing::debug!(lock = %place.lock, %failure, "leaving takes longer"),
        }
        tokio::select! {
            () = tokio::time::sleep(PAUSE) => {}
            () = service.draining().cancelled() => return,
        }
    }
}

/// A session made by the server, until its caller can learn its name.
pub(crate) struct Orphan {
    service: Service,
    session: Option<SessionName>,
}

impl Orphan {
    /// Watches over the session, if it is one of the server's making.
    pub(crate) fn of(service: Service, open: &OpenSession) -> Self {
        Self { service, session: open.anonymous.then(|| open.session.clone()) }
    }

    /// Its caller has an answer, or it was certainly not opened.
    pub(crate) fn settle(mut self) {
        self.session = None;
    }
}

impl Drop for Orphan {
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            tokio::spawn(close(self.service.clone(), session));
        }
    }
}

/// Closes a session that lived for a connection which is gone.
pub(crate) async fn close_within(service: Service, session: SessionName, limit: Option<Duration>) {
    let closing = close(service, session);
    // Otherwise its lease, which nobody renews any more, ends it.
    let _in_time = tokio::time::timeout(limit.unwrap_or(ORPHANED), closing).await;
}

/// Closes a session that nobody can name, and that may be opened only a moment from now.
async fn close(service: Service, session: SessionName) {
    let began = Instant::now();
    while began.elapsed() < ORPHANED {
        let close =
            Command::CloseSession { session: session.clone(), attachment: None, incarnation: None };
        if service.propose(close).await.is_ok() {
            return;
        }
        tokio::select! {
            () = tokio::time::sleep(PAUSE) => {}
            () = service.stopped().cancelled() => return,
        }
    }
}
