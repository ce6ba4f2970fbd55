//! Callers that disconnect: what they leave behind is cleaned up, through the log.
//!
//! Both guards of this file are held by a call and act when the call is dropped without an answer. The command is repeated
//! until the log has answered it, because a lease does not end a session that is renewed elsewhere.
//!
//! Bounds: an [`AbandonedPlace`] keeps its caller's permit; closing a session is tried for [`CLOSING_MAX`].

use std::time::{Duration, Instant};

use holdfast_types::{Command, OpenSession, Reply, SessionName};

use super::WaiterPermit;
use crate::failure::Failure;
use crate::service::Service;

/// Between two attempts to reach the log.
const RETRY_AFTER: Duration = Duration::from_millis(250);
/// How long closing a session is tried. Longer than a command that opens it can be in flight after its caller has gone.
const CLOSING_MAX: Duration = Duration::from_secs(15);

/// A waiting caller's place in a queue or at a barrier. Dropped before [`AbandonedPlace::settle`], it gives the place up.
pub(crate) struct AbandonedPlace {
    service: Service,
    left: Option<LeftPlace>,
}

struct LeftPlace {
    /// Gives the place up, unless the caller has asked for it again since.
    give_up: Command,
    /// The session, if it was made for this call.
    anonymous: Option<SessionName>,
    /// When the wait would have ended.
    until: Instant,
    _permit: WaiterPermit,
}

impl AbandonedPlace {
    pub(crate) fn new(
        service: &Service,
        give_up: Command,
        anonymous: Option<SessionName>,
        until: Instant,
        permit: WaiterPermit,
    ) -> Self {
        let left = LeftPlace { give_up, anonymous, until, _permit: permit };
        Self { service: service.clone(), left: Some(left) }
    }

    /// The caller knows for certain how its wait ended.
    pub(crate) fn settle(mut self) {
        self.left = None;
    }
}

impl Drop for AbandonedPlace {
    fn drop(&mut self) {
        if let Some(left) = self.left.take() {
            tokio::spawn(give_up(self.service.clone(), left));
        }
    }
}

/// An anonymous session leaves at once, with its grant if it has one. A named session keeps its place until its wait
/// would have ended, because its client may ask again. When the node drains, the place is left to the client, which asks
/// another node.
async fn give_up(service: Service, left: LeftPlace) {
    if left.anonymous.is_none() {
        tokio::select! {
            () = tokio::time::sleep_until(left.until.into()) => {}
            () = service.draining().cancelled() => return,
        }
    }
    loop {
        match service.propose(left.give_up.clone()).await {
            Ok((Reply::Granted(_), _)) if left.anonymous.is_some() => break,
            Ok(_) | Err(Failure::Rejected(_)) => return,
            Err(failure) => tracing::debug!(%failure, "giving a place up takes longer"),
        }
        tokio::select! {
            () = tokio::time::sleep(RETRY_AFTER) => {}
            () = service.draining().cancelled() => return,
        }
    }
    if let Some(session) = left.anonymous.clone() {
        close_session(service, session).await;
    }
}

/// An anonymous session whose caller has not learned its name. Dropped before [`UnansweredSession::settle`], it closes
/// the session.
pub(crate) struct UnansweredSession {
    service: Service,
    session: Option<SessionName>,
}

impl UnansweredSession {
    /// Does nothing for a named session.
    pub(crate) fn new(service: &Service, open: &OpenSession) -> Self {
        let session = open.anonymous.then(|| open.session.clone());
        Self { service: service.clone(), session }
    }

    /// The caller has an answer, or the session was certainly not opened.
    pub(crate) fn settle(mut self) {
        self.session = None;
    }
}

impl Drop for UnansweredSession {
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            tokio::spawn(close_session(self.service.clone(), session));
        }
    }
}

/// Closes a session that lived for a connection which is gone; after `limit`, its lease ends it.
pub(crate) async fn close_session_within(
    service: Service,
    session: SessionName,
    limit: Option<Duration>,
) {
    let closing = close_session(service, session);
    let _in_time = tokio::time::timeout(limit.unwrap_or(CLOSING_MAX), closing).await;
}

/// Closes a session that no client can name, and that may be opened only a moment from now.
async fn close_session(service: Service, session: SessionName) {
    let began = Instant::now();
    while began.elapsed() < CLOSING_MAX {
        if service.close_session(session.clone(), None).await.is_ok() {
            return;
        }
        tokio::select! {
            () = tokio::time::sleep(RETRY_AFTER) => {}
            () = service.stopped().cancelled() => return,
        }
    }
}
