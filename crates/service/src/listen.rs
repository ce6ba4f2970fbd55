//! Keepalives that listen: the call renews a session and then waits for events of its locks.
//!
//! The node renews the session during the wait, as for callers that wait for a lock. Bound: one waiter permit per call.

use std::time::{Duration, Instant};

use holdfast_types::{Revision, SessionName, SessionView};

use crate::context::Response;
use crate::failure::Failure;
use crate::history::hold_notice::HoldNotice;
use crate::service::Service;
use crate::session_events::EventsSince;
use crate::waiting::{Wait, WaitEvent};

#[derive(Clone, Debug)]
pub struct ListenRequest {
    pub session: SessionName,
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
        let ListenRequest { session, since, wait } = request;
        let max = self.config().wait_max;
        if wait > max {
            return Err(Failure::WaitTooLong { max });
        }
        let arrived = Instant::now();
        let renewed = self.renew(&session, None, self.deadline()).await?;
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
        let ttl = renewed.ttl.as_duration();
        let mut over = wait.is_zero();
        let mut wait = Wait::until(self, arrived + wait).renewing(session.clone(), ttl);
        let mut confirmed_at = arrived;
        let found = loop {
            let mut woken = std::pin::pin!(listening.woken.notified());
            woken.as_mut().enable();
            // An ended session no longer listens; `view` returns the reason.
            let Some(found) = self.observer().session_events.since(&session, since) else {
                self.view(&session)?;
                return Err(Failure::OutcomeUnknown);
            };
            if over || !found.events.is_empty() || found.gap.is_some() {
                break found;
            }
            match wait.next(woken).await {
                WaitEvent::Woken(()) => {}
                WaitEvent::Renewed { began, .. } => confirmed_at = began,
                WaitEvent::SessionEnded(rejection) | WaitEvent::Denied(rejection) => {
                    return Err(Failure::Rejected(rejection));
                }
                WaitEvent::Deadline => over = true,
                WaitEvent::Draining => return Err(Failure::ShuttingDown),
            }
        };
        let view = self.view(&session)?;
        let expires_in = ttl.saturating_sub(confirmed_at.elapsed());
        let (waited, EventsSince { events, cursor, gap }) = (arrived.elapsed(), found);
        Ok(Response::new(ListenReply { view, expires_in, waited, events, gap }, cursor))
    }
}
