//! Taking a lock as a stream of events: where the caller stands, the grant, and with `hold=connection` the hold itself.
//!
//! Owns the order of events: `queued` whenever the place changes, then one of `granted`, `timeout`, `lost` and
//! `reconnect`; after the grant of a hold that lives as long as its connection `renewed` again and again, then `lost`. What
//! is refused before anything is queued is an ordinary answer with its status. When the stream is dropped, because its
//! reader has gone, so is the place or the hold (`holdfast-service` says how).

use std::sync::Arc;
use std::time::Duration;

use axum::http::HeaderName;
use holdfast_api::{
    AheadBody, EstimateBody, FENCING_TOKEN, GrantBody, LostBody, QueuedBody, RenewedBody,
};
use holdfast_service::{
    AcquireProgress, ConnectionHold, Failure, Granted, HoldEnd, HoldEvent, PendingAcquire,
    QueuePosition, Response, Service,
};
use holdfast_types::{Acquire, FencingToken, LockName, SessionName, Stamp, Ttl};

use crate::activity::Activity;
use crate::call::CallContext;
use crate::reply::Reply;
use crate::sse::{self, EventSource};
use crate::status::{ErrorContext, HttpError, internal, of_failure};

/// A stream under way.
struct Stream {
    service: Service,
    /// Once it is granted, the segment of what was asked for.
    lock: LockName,
    /// A segment of it was asked for.
    cut: bool,
    session: Option<SessionName>,
    for_connection: bool,
    /// What is known already.
    next: Option<AcquireProgress>,
    phase: Phase,
}

enum Phase {
    Waiting(PendingAcquire),
    Held(Box<ConnectionHold>, FencingToken, SessionName),
    Ended,
}

/// Begins the call, and answers with a stream once it queues or is granted.
pub(crate) async fn stream(
    call: &CallContext<'_>,
    acquire: Acquire,
    for_connection: bool,
) -> Result<Reply, HttpError> {
    let (lock, ttl, cut) = (acquire.lock.clone(), acquire.open.ttl, acquire.segments.is_some());
    let session = (!acquire.open.anonymous).then(|| acquire.open.session.clone());
    let service = call.service();
    let begun = service.begin_acquire(call.context.clone(), acquire, for_connection);
    let mut acquiring = begun.map_err(|failure| call.error(failure))?;
    let first = match acquiring.next().await {
        AcquireProgress::Done(done) => {
            AcquireProgress::Done(Box::new(Ok((*done).map_err(|f| call.error(f))?)))
        }
        queued @ AcquireProgress::Queued(_) => queued,
    };
    if for_connection {
        limit_silence(call, ttl.unwrap_or(Ttl::DEFAULT).as_duration());
    }
    let token = granted_token(&first);
    let (next, phase) = (Some(first), Phase::Waiting(acquiring));
    let service = service.clone();
    let stream = Stream { service, lock, cut, session, for_connection, next, phase };
    let comment = call.front.config().stream_comment;
    let reply = sse::stream("events follow", comment, stream);
    Ok(match token {
        Some(token) => reply.with_header(HeaderName::from_static(FENCING_TOKEN), token.0.into()),
        None => reply,
    })
}

/// A peer that is gone without a word is noticed by what it does not acknowledge: something is written every third of
/// the time-to-live, so that two thirds of waiting make one.
fn limit_silence(call: &CallContext<'_>, ttl: Duration) {
    if let Some(activity) = call.parts.extensions.get::<Arc<Activity>>() {
        activity.limit_unacknowledged(ttl * 2 / 3);
    }
}

fn granted_token(progress: &AcquireProgress) -> Option<FencingToken> {
    let AcquireProgress::Done(done) = progress else { return None };
    match done.as_ref() {
        Ok(granted) => Some(granted.value.grant.token),
        Err(_) => None,
    }
}

impl EventSource for Stream {
    async fn next_event(&mut self) -> Option<String> {
        if let Some(progress) = self.next.take() {
            return Some(self.progress(progress));
        }
        match &mut self.phase {
            Phase::Waiting(acquiring) => {
                let progress = acquiring.next().await;
                Some(self.progress(progress))
            }
            Phase::Held(hold, ..) => {
                let news = hold.next().await;
                Some(self.news(news))
            }
            Phase::Ended => None,
        }
    }
}

impl Stream {
    fn progress(&mut self, progress: AcquireProgress) -> String {
        match progress {
            AcquireProgress::Queued(position) => {
                sse::event("queued", &queued(*position, self.service.log_time()))
            }
            AcquireProgress::Done(done) => match *done {
                Ok(response) => self.granted(response),
                Err(failure) => self.failed(failure),
            },
        }
    }

    fn granted(&mut self, granted: Response<Granted>) -> String {
        let phase = std::mem::replace(&mut self.phase, Phase::Ended);
        let held = match phase {
            Phase::Waiting(acquiring) if self.for_connection => acquiring.into_hold(&granted.value),
            Phase::Waiting(_) | Phase::Held(..) | Phase::Ended => None,
        };
        let Response { value: Granted { grant, waited, expires_in }, revision, .. } = granted;
        if let Some(hold) = held {
            self.phase = Phase::Held(Box::new(hold), grant.token, grant.session.clone());
        }
        let whole = std::mem::replace(&mut self.lock, grant.lock.clone());
        let body = GrantBody::new(grant, (waited, expires_in), self.service.log_time(), revision);
        sse::event("granted", &if self.cut { body.of_whole(&whole) } else { body })
    }

    fn failed(&mut self, failure: Failure) -> String {
        self.phase = Phase::Ended;
        let name = match &failure {
            Failure::WaitTimeout { .. } => "timeout",
            Failure::Rejected(_) | Failure::NotYet { .. } => "lost",
            Failure::WaitTooLong { .. }
            | Failure::NoLeader
            | Failure::OutcomeUnknown
            | Failure::UnexpectedReply
            | Failure::Overloaded { .. }
            | Failure::TooManyWaiters { .. }
            | Failure::DiskFull
            | Failure::TooLarge
            | Failure::Behind { .. }
            | Failure::Lagging
            | Failure::TooManyStreams { .. }
            | Failure::TooManyWatches { .. }
            | Failure::Compacted { .. }
            | Failure::ShuttingDown
            | Failure::Starting(_)
            | Failure::Failed(_) => "reconnect",
        };
        let (lock, session) = (Some(&self.lock), self.session.as_ref());
        let now = self.service.log_time();
        sse::event(name, &of_failure(failure, &ErrorContext { lock, session, now }))
    }

    fn news(&mut self, news: HoldEvent) -> String {
        let end = match news {
            HoldEvent::Renewed { expires_in } => {
                let expires_in_ms = holdfast_types::millis(expires_in);
                return sse::event("renewed", &RenewedBody { expires_in_ms });
            }
            HoldEvent::Over(end) => end,
        };
        let cause = match end {
            HoldEnd::Lost(cause) => cause.as_str(),
            HoldEnd::Unconfirmed => "unconfirmed",
            HoldEnd::ShuttingDown => "shutting-down",
        };
        let Phase::Held(_, token, session) = std::mem::replace(&mut self.phase, Phase::Ended)
        else {
            return sse::event("lost", &internal("nothing was held"));
        };
        let (lock, cause) = (self.lock.clone(), cause.to_owned());
        sse::event("lost", &LostBody { lock, token, session, cause })
    }
}

fn queued(position: QueuePosition, now: Stamp) -> QueuedBody {
    let QueuePosition { lock, position, waiting, holder, ahead, estimate, revision } = position;
    let holder = holder.into_iter().map(|holder| AheadBody::holder(holder, now));
    let ahead = ahead.into_iter().map(|waiter| AheadBody::waiter(waiter, now));
    QueuedBody {
        lock,
        position,
        waiters: waiting,
        ahead: holder.chain(ahead).collect(),
        estimate: estimate.map(|e| EstimateBody { ms: e.ms, holds: e.holds }),
        revision,
    }
}
