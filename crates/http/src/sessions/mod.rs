//! Calls on sessions: their beginning and end, and their renewal. This file has the reads: `GET /v1/sessions/{id}`, the locks that
//! a session holds and waits for, and `GET /v1/sessions`, all sessions page by page.

pub(crate) mod keep_alive;
pub(crate) mod open_close;

use holdfast_api::{CallParams as _, ErrorCode, Schemas, SessionBody, SessionsBody};

use self::open_close::session_reply;
use crate::access::CallAccess;
use crate::call::{CallContext, HandlerResult, PageParams, ReadParams, read_mode};
use crate::operation::{Operation, ResponseSpec, handler};
use crate::routes::{SESSION, SESSIONS};

pub(crate) static READ: Operation = Operation {
    summary: "Read what a session holds and waits for",
    params: ReadParams::LIST,
    answers: || ResponseSpec::ok("The session", Schemas::of::<SessionBody>),
    errors: &[ErrorCode::SessionExpired],
    ..Operation::read("readSession", &SESSION, CallAccess::Subject, handler!(read))
};

pub(crate) static LIST: Operation = Operation {
    summary: "List all sessions, in order of their ids",
    description: "If there are more, the answer has a next_page_token for the parameter page_token of the next call.",
    params: PageParams::LIST,
    answers: || ResponseSpec::ok("A page of sessions", Schemas::of::<SessionsBody>),
    ..Operation::read("listSessions", &SESSIONS, CallAccess::Subject, handler!(list))
};

async fn read(call: &mut CallContext<'_>) -> HandlerResult {
    let session = call.session()?;
    let ReadParams { stale } = call.params()?;
    let response = call.run(call.service().session(&session, read_mode(stale))).await?;
    Ok(session_reply(call, response))
}

async fn list(call: &mut CallContext<'_>) -> HandlerResult {
    let PageParams { limit, page_token, stale } = call.params()?;
    let sessions = call.service().sessions(page_token.as_deref(), limit, read_mode(stale));
    call.ok(sessions, |page, _| SessionsBody::new(page, call.now())).await
}
