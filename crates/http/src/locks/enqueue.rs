//! `PUT /v1/locks/{name}?enqueue`: queues without waiting. 202 has the place in the queue; the session keeps it.

use axum::http::header::LOCATION;
use axum::http::{HeaderValue, StatusCode};
use holdfast_api::{EnqueuedBody, ErrorCode, ParamError, lock_path};
use holdfast_service::AcquireProgress;
use holdfast_types::Acquire;

use super::acquire_stream::queued_body;
use super::acquiring::{grant_body, grant_reply};
use crate::call::{CallContext, HandlerResult};
use crate::operation::Header;
use crate::reply::Reply;

pub(super) const PLACE: Header = Header::text("location", "The path of the lock, with its queue");

const HINT: &str = "renew the session within its ttl: POST /v1/sessions/ID/keepalive?wait=30s answers at the grant. This call \
    again returns the place or the grant, and DELETE leaves the queue";

/// Rejects a call whose place nobody could keep, or that is no call of its own.
pub(super) fn check(others: &[(&'static str, bool)], has_session: bool) -> Result<(), ParamError> {
    ParamError::check_alone("enqueue", others, "leave one of them out")?;
    if has_session {
        return Ok(());
    }
    Err(ParamError::of("session", ErrorCode::InvalidArgument, "'enqueue' needs 'session'")
        .hint("the session keeps the place in the queue: add the parameter session=ID"))
}

pub(super) async fn enqueue(call: &CallContext<'_>, acquire: Acquire) -> HandlerResult {
    let (lock, is_sharded) = (acquire.locks.first().clone(), acquire.shards.is_some());
    let enqueued = call.service().enqueue(acquire).await.map_err(|failure| call.error(failure))?;
    let position = match enqueued {
        AcquireProgress::Queued(position) => position,
        AcquireProgress::Done(done) => {
            let granted = (*done).map_err(|failure| call.error(failure))?;
            let (token, revision) = (granted.value.grant.token, granted.revision);
            let body = grant_body(granted, is_sharded.then_some(&lock), call.now());
            return Ok(grant_reply(call, token, &body, revision));
        }
    };
    let (revision, path) = (position.revision, lock_path(&position.lock));
    let place = queued_body(*position, call.now());
    let body = EnqueuedBody { place, hint: HINT.to_owned() };
    let reply = Reply::json(StatusCode::ACCEPTED, &body).at(revision);
    Ok(match HeaderValue::try_from(path) {
        Ok(path) => reply.with_header(LOCATION, path),
        Err(_) => reply,
    })
}
