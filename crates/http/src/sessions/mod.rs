//! Calls on sessions: one file for each call.

pub(crate) mod close;
pub(crate) mod create;
pub(crate) mod keep_alive;
pub(crate) mod keep_many_alive;
pub(crate) mod list;
pub(crate) mod open;
pub(crate) mod read;

use axum::http::{HeaderValue, StatusCode, header};
use holdfast_api::{SessionBody, session_path};
use holdfast_service::{Response, SessionLease};

use crate::call::CallContext;
use crate::operation::Header;
use crate::reply::Reply;

const LOCATION: Header = Header::text("location", "The path of the session");

/// The session as JSON: 201 with its path if the call opened it, otherwise 200.
fn session_reply(call: &CallContext<'_>, response: Response<SessionLease>) -> Reply {
    let Response { value, revision, leader_contact } = response;
    let SessionLease { view, created, expires_in } = value;
    let location = session_path(&view.session);
    let body = SessionBody::new(view, expires_in, call.now(), revision);
    let status = if created { StatusCode::CREATED } else { StatusCode::OK };
    let reply = Reply::json(status, &body).at(revision).stale(leader_contact);
    match HeaderValue::try_from(location) {
        Ok(location) if created => reply.with_header(header::LOCATION, location),
        Ok(_) | Err(_) => reply,
    }
}
