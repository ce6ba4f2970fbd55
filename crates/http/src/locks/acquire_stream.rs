//! An acquire as a stream of events: the queue position, the grant, and with `hold=connection` the hold itself.
//!
//! The stream sends `queued` at each change of the position, then one of `granted`, `timeout`, `lost` and `reconnect`. With
//! `hold=connection` it sends `renewed` after each renewal, and ends with `lost`. An acquire that is rejected before it is
//! queued gets an ordinary response. When the reader disconnects, the stream is dropped, and the service cancels the wait or
//! releases the hold.

use std::sync::Arc;
use std::time::Duration;

use axum::http::HeaderName;
use holdfast_api::{
    AheadBody, ErrorCode, EstimateBody, FENCING_TOKEN, LostBody, QueuedBody, RenewedBody,
};
use holdfast_service::{
    AcquireProgress, ConnectionHold, Failure, Granted, HoldEnd, HoldEvent, PendingAcquire,
    QueuePosition, Response, Service,
};
use holdfast_types::{Acquire, FencingToken, LockName, SessionName, Stamp, Ttl, millis};

use super::acquiring::grant_body;
use crate::activity::Activity;
use crate::call::{CallContext, HandlerResult};
use crate::late_copies::LateCopies;
use crate::reply::{EventSource, event_stream, event_text, problem_event};
use crate::status::{ErrorContext, internal, of_failure};

struct AcquireStream {
    service: Service,
    /// The lock of the call; after the grant of a shard, that shard.
    lock: LockName,
    is_sharded: bool,
    session: Option<SessionName>,
    for_connection: bool,
    /// Progress that is not reported yet.
    next: Option<AcquireProgress>,
    phase: Phase,
}

enum Phase {
    Waiting(PendingAcquire),
    Held(Box<ConnectionHold>, FencingToken, SessionName),
    Ended,
}

/// Begins the acquire, and returns a stream once it is queued or granted.
pub(super) async fn stream(
    call: &CallContext<'_>,
    acquire: Acquire,
    for_connection: bool,
) -> HandlerResult {
    let place = call.stream_place()?;
    let (lock, ttl) = (acquire.locks.first().clone(), acquire.open.ttl);
    let is_sharded = acquire.shards.is_some();
    let session = (!acquire.open.anonymous).then(|| acquire.open.session.clone());
    let service = call.service().clone();
    let begun = service.begin_acquire(acquire, for_connection);
    let mut pending = begun.map_err(|failure| call.error(failure))?;
    let first = match pending.next().await {
        AcquireProgress::Done(done) => {
            AcquireProgress::Done(Box::new(Ok((*done).map_err(|failure| call.error(failure))?)))
        }
        queued @ AcquireProgress::Queued(_) => queued,
    };
    if for_connection {
        limit_silence(call, ttl.unwrap_or(Ttl::DEFAULT).as_duration());
    }
    let token = granted_token(&first);
    let (next, phase) = (Some(first), Phase::Waiting(pending));
    let stream = AcquireStream { service, lock, is_sharded, session, for_connection, next, phase };
    let comment = call.state.config.stream_comment;
    let reply = event_stream("events follow", comment, place, stream);
    Ok(match token {
        Some(token) => reply.with_header(HeaderName::from_static(FENCING_TOKEN), token.0.into()),
        None => reply,
    })
}

/// Closes the connection of a client that acknowledges nothing for two thirds of the time-to-live. The stream writes an
/// event at each third.
fn limit_silence(call: &CallContext<'_>, ttl: Duration) {
    if let Some(activity) = call.parts.extensions.get::<Arc<Activity>>() {
        activity.limit_unacknowledged(ttl * 2 / 3);
    }
}

fn granted_token(progress: &AcquireProgress) -> Option<FencingToken> {
    let AcquireProgress::Done(done) = progress else { return None };
    done.as_ref().as_ref().ok().map(|granted| granted.value.grant.token)
}

impl EventSource for AcquireStream {
    async fn next_event(&mut self) -> Option<String> {
        if let Some(progress) = self.next.take() {
            return Some(self.progress(progress));
        }
        match &mut self.phase {
            Phase::Waiting(pending) => {
                let progress = pending.next().await;
                Some(self.progress(progress))
            }
            Phase::Held(hold, ..) => {
                let event = hold.next().await;
                Some(self.hold_event(event))
            }
            Phase::Ended => None,
        }
    }
}

impl AcquireStream {
    fn progress(&mut self, progress: AcquireProgress) -> String {
        match progress {
            AcquireProgress::Queued(position) => {
                event_text("queued", &queued_body(*position, self.service.log_time()))
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
            Phase::Waiting(pending) if self.for_connection => pending.into_hold(&granted.value),
            Phase::Waiting(_) | Phase::Held(..) | Phase::Ended => None,
        };
        let grant = &granted.value.grant;
        if let Some(hold) = held {
            self.phase = Phase::Held(Box::new(hold), grant.token, grant.session.clone());
        }
        let requested = std::mem::replace(&mut self.lock, grant.lock.clone());
        let whole = self.is_sharded.then_some(&requested);
        event_text("granted", &grant_body(granted, whole, self.service.log_time()))
    }

    fn failed(&mut self, failure: Failure) -> String {
        self.phase = Phase::Ended;
        let name = if matches!(failure, Failure::WaitTimeout { .. }) {
            "timeout"
        } else if matches!(failure, Failure::Rejected(_) | Failure::NotYet { .. }) {
            "lost"
        } else {
            "reconnect"
        };
        let (lock, session) = (Some(&self.lock), self.session.as_ref());
        let now = self.service.log_time();
        let mut problem = of_failure(failure, &ErrorContext { lock, session, now });
        if problem.code == ErrorCode::OutcomeUnknown {
            let is_durable = session.is_some_and(SessionName::is_durable);
            let known = if is_durable { "reason" } else { "session" };
            let has = |name: &str| name == known && session.is_some();
            problem.hint = Some(LateCopies::Attempt.after_unknown_outcome(has).into());
        }
        problem_event(name, problem)
    }

    fn hold_event(&mut self, event: HoldEvent) -> String {
        let cause = match event {
            HoldEvent::Renewed { expires_in } => {
                return event_text("renewed", &RenewedBody { expires_in_ms: millis(expires_in) });
            }
            HoldEvent::Over(HoldEnd::Lost(cause)) => cause.as_str(),
            HoldEvent::Over(HoldEnd::Unconfirmed) => "unconfirmed",
            HoldEvent::Over(HoldEnd::Denied) => "denied",
            HoldEvent::Over(HoldEnd::ShuttingDown) => "shutting-down",
        };
        let Phase::Held(_, token, session) = std::mem::replace(&mut self.phase, Phase::Ended)
        else {
            return problem_event("lost", internal("nothing was held"));
        };
        let (lock, cause) = (self.lock.clone(), cause.to_owned());
        event_text("lost", &LostBody { lock, token, session, cause })
    }
}

pub(super) fn queued_body(position: QueuePosition, now: Stamp) -> QueuedBody {
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
