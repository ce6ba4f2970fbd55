//! Opening, renewing, reading and closing sessions, and keepalives that listen: such a call renews a session and then waits for
//! events of its locks. The node renews the session during the wait, as for callers that wait for a lock. Bound: one waiter permit
//! per call that listens.

use std::time::{Duration, Instant};

use holdfast_machine::Machine;
use holdfast_types::{
    Attempt, Command, OpenSession, Page, Rejection, Reply, Revision, SessionId, SessionName,
    SessionOpenedReply, SessionStatus, SessionView, Ttl, ZnodePath,
};

use crate::auth::access_token::random_bytes;
use crate::history::hold_notice::HoldNotice;
use crate::leases::renewal::ConfirmedLease;
use crate::request::{Failure, ReadMode, Response, session_ended};
use crate::service::Service;
use crate::service_call::SessionToRenew;
use crate::session_events::EventsSince;
use crate::waiting::{Wait, WaitEvent};

#[derive(Clone, Debug)]
pub struct SessionLease {
    pub view: SessionView,
    /// True if the call opened the session.
    pub created: bool,
    /// The guaranteed remaining time of the lease at this reply; zero for a stale read.
    pub expires_in: Duration,
}

impl Service {
    /// Opens a session, or renews it.
    ///
    /// # Errors
    /// The errors of any write. After [`Failure::OutcomeUnknown`] the session may be open.
    pub async fn open_session(
        &self,
        open: OpenSession,
        attempt: Option<Attempt>,
    ) -> Result<Response<SessionLease>, Failure> {
        if self.raft().cannot_catch_up() {
            return Err(Failure::Behind { disk_full: true });
        }
        let arrived = Instant::now();
        let session = open.session.clone();
        let command = Command::OpenSession { open, attempt };
        let opened = self.propose(command, Reply::into_session_opened);
        let Response { value: SessionOpenedReply { ttl, created, .. }, revision, .. } =
            opened.await?;
        // This node must apply the command before it can return the session. The session is open even if this fails.
        self.read_barrier().await.map_err(|_| Failure::OutcomeUnknown)?;
        let view = self.view(&session)?;
        let expires_in = ttl.as_duration().saturating_sub(arrived.elapsed());
        Ok(Response::new(SessionLease { view, created, expires_in }, revision))
    }

    /// Renews a session. With an `incarnation`, only that session of the name.
    ///
    /// # Errors
    /// A rejection if the session has ended; otherwise the errors of any write.
    pub async fn keep_alive(
        &self,
        session: SessionName,
        incarnation: Option<SessionId>,
    ) -> Result<Response<SessionLease>, Failure> {
        let arrived = Instant::now();
        let of = SessionToRenew { session: session.clone(), id: incarnation, queue_entry: None };
        let renewed = self.renew(of, self.deadline()).await?;
        // The holds in the reply are those of the renewal, or later ones.
        self.catch_up(renewed.revision).await?;
        let view = self.view_of_renewed(&session, renewed.id)?;
        let expires_in = ConfirmedLease { since: arrived, ttl: renewed.ttl }.left();
        Ok(Response::new(SessionLease { view, created: false, expires_in }, renewed.revision))
    }

    /// Closes a session and releases all its holds. With an `incarnation`, only that session of the name.
    pub async fn close_session(
        &self,
        session: SessionName,
        incarnation: Option<SessionId>,
    ) -> Result<Response<()>, Failure> {
        let close = Command::CloseSession { session, attachment: None, incarnation };
        match self.propose(close, Reply::into_session_ended).await {
            // As for a session that does not exist.
            Err(failure) if incarnation.is_some() && failure.is_hidden_session() => {
                Ok(Response::new((), self.revision()))
            }
            closed => closed,
        }
    }

    /// Reads a session. A linearizable read also reads the lease, from the leader.
    ///
    /// # Errors
    /// A rejection if the session does not exist; otherwise the errors of any read.
    pub async fn session(
        &self,
        session: &SessionName,
        mode: ReadMode,
    ) -> Result<Response<SessionLease>, Failure> {
        let read = self.read(mode, |machine| {
            self.check_session_read(machine, session)?;
            view_of(machine, session)
        });
        let read = read.await?;
        let expires_in = match mode {
            ReadMode::Linearizable => self.remaining(session).await?,
            ReadMode::Stale => Duration::ZERO,
        };
        Ok(read.map(|view| SessionLease { view, created: false, expires_in }))
    }

    /// Returns at most `limit` sessions in name order, starting after `after`.
    pub async fn sessions(
        &self,
        after: Option<&str>,
        limit: usize,
        mode: ReadMode,
    ) -> Result<Response<Page<SessionView>>, Failure> {
        let after = after.map(str::to_owned);
        let key = |next: &str| Some(next.to_owned());
        self.read_page((mode, after, limit), key, |machine, after, limit| {
            let rights = self.enforced_rights(machine)?;
            let is_visible = |session: &SessionName| {
                rights.is_none_or(|rights| rights.check_session_read(session).is_ok())
            };
            Ok(machine.sessions(after.map(String::as_str), limit, is_visible))
        })
        .await
    }

    /// Returns at most `limit` live sessions with their TTLs, by id, as applied by this node.
    pub fn session_ids(&self, limit: usize) -> Vec<(SessionId, Ttl)> {
        self.raft()
            .read(|machine| machine.leases().take(limit).map(|of| (of.session, of.ttl)).collect())
    }

    /// Returns a session's ephemeral znodes, sorted, as applied by this node.
    pub fn ephemerals(&self, session: SessionId) -> Vec<ZnodePath> {
        self.raft().read(|machine| machine.ephemerals(session, ""))
    }

    /// As [`Service::view`]. Another session may have the name since the renewal of the one with this id.
    fn view_of_renewed(
        &self,
        session: &SessionName,
        id: SessionId,
    ) -> Result<SessionView, Failure> {
        let view = self.raft().read(|machine| {
            let view = view_of(machine, session)?;
            if view.id == id { Ok(view) } else { Err(session_ended(machine, session)) }
        });
        view.map_err(Failure::Rejected)
    }

    /// Returns a session as applied by this node.
    pub(crate) fn view(&self, session: &SessionName) -> Result<SessionView, Failure> {
        self.raft().read(|machine| view_of(machine, session)).map_err(Failure::Rejected)
    }
}

fn view_of(machine: &Machine, session: &SessionName) -> Result<SessionView, Rejection> {
    match machine.session(session) {
        SessionStatus::Open(view) => Ok(view),
        SessionStatus::Expired | SessionStatus::Closed | SessionStatus::Unknown => {
            Err(session_ended(machine, session))
        }
    }
}

/// Generates a unique session name from 128 random bits.
///
/// # Errors
/// [`Failure::Failed`] if the operating system returns no random bytes.
pub fn generate_session_name() -> Result<SessionName, Failure> {
    let name = format!("s-{:032x}", u128::from_le_bytes(random_bytes()?));
    SessionName::new(name).map_err(|error| Failure::Failed(error.to_string()))
}

#[derive(Clone, Debug)]
pub struct ListenRequest {
    pub session: SessionName,
    /// As in [`Service::keep_alive`].
    pub incarnation: Option<SessionId>,
    /// The cursor of the previous reply; `None` selects only events from now on.
    pub since: Option<Revision>,
    /// How long to wait for the first event. At most `ServiceConfig::wait_max`.
    pub wait: Duration,
}

#[derive(Clone, Debug)]
pub struct ListenReply {
    pub view: SessionView,
    /// The guaranteed remaining time of the lease at this reply.
    pub expires_in: Duration,
    /// The time from the request's arrival to this reply.
    pub waited: Duration,
    /// Oldest first. The response's revision is the cursor for the next `since`.
    pub events: Vec<HoldNotice>,
    /// Events after `since` and up to this revision may be missing.
    pub gap: Option<Revision>,
}

impl Service {
    /// Renews a session, then waits for an event of its locks.
    ///
    /// # Errors
    /// A rejection if the session has ended; [`Failure::WaitTooLong`], [`Failure::TooManyWaiters`],
    /// [`Failure::ShuttingDown`]; otherwise the errors of any write.
    pub async fn listen(&self, request: ListenRequest) -> Result<Response<ListenReply>, Failure> {
        let ListenRequest { session, incarnation, since, wait } = request;
        let max = self.config().wait_max;
        if wait > max {
            return Err(Failure::WaitTooLong { max });
        }
        let arrived = Instant::now();
        let of = SessionToRenew { session: session.clone(), id: incarnation, queue_entry: None };
        let renewed = self.renew(of, self.deadline()).await?;
        // No earlier reply had a later cursor.
        let since = since.map(|since| since.min(renewed.revision));
        self.catch_up(renewed.revision).await?;
        let _permit = self.observer().waiter_permits.take()?;
        let listening = self.observer().session_events.listen(&session, arrived);
        let listening = listening.map_err(|limit| Failure::TooManyWaiters { limit })?;
        if let Some(since) = since
            && since < listening.begins
            && let Some(events) = self.observer().change_log.of_session(&session, since)
        {
            self.observer().session_events.recall(&session, (since, listening.begins), events);
        }
        if let Some(since) = since {
            self.observer().session_events.seen(&session, since);
        }
        let since = since.unwrap_or_else(|| self.revision());
        let mut over = wait.is_zero();
        let mut confirmed = ConfirmedLease { since: arrived, ttl: renewed.ttl };
        let period = renewed.ttl.as_duration();
        let id = renewed.id;
        let wait = Wait::until(self, arrived + wait);
        let mut wait = wait.renewing(session.clone(), Some(id), period);
        let found = loop {
            let mut woken = std::pin::pin!(listening.woken.notified());
            woken.as_mut().enable();
            // An ended session no longer listens; `view` returns the reason.
            let Some(found) = self.observer().session_events.since(&session, since) else {
                self.view_of_renewed(&session, id)?;
                return Err(Failure::OutcomeUnknown);
            };
            if over || !found.events.is_empty() || found.gap.is_some() {
                break found;
            }
            match wait.next(woken).await {
                WaitEvent::Woken(()) => {}
                WaitEvent::Renewed { began, renewed } => {
                    confirmed = ConfirmedLease { since: began, ttl: renewed.ttl };
                }
                WaitEvent::SessionEnded(rejection) | WaitEvent::Denied(rejection) => {
                    return Err(Failure::Rejected(rejection));
                }
                WaitEvent::Deadline => over = true,
                WaitEvent::Draining => return Err(Failure::ShuttingDown),
            }
        };
        let view = self.view_of_renewed(&session, id)?;
        let expires_in = confirmed.left();
        let (waited, EventsSince { events, cursor, gap }) = (arrived.elapsed(), found);
        Ok(Response::new(ListenReply { view, expires_in, waited, events, gap }, cursor))
    }
}
