//! The calls on sessions.

use axum::http::StatusCode;
use futures_util::FutureExt as _;
use holdfast_api::{
    CloseParams, ErrorCode, KeepAliveParams, KeepManyParams, KeptManyBody, ListParams, NewsBody,
    OpenParams, ReadParams, Schemas, SessionBody, SessionsBody,
};

use crate::body::BodyKind;
use crate::operation::{Answer, Content, Header, Method, Operation, Scope};
use crate::{routes, sessions};

const LOCATION: Header = Header::text("location", "Where the session is");

pub(crate) static CREATE: Operation = Operation {
    id: "createSession",
    method: Method::Post,
    route: &routes::SESSIONS,
    summary: "Open a session under an id made by the server",
    description: "",
    params: OpenParams::KEYS,
    headers: &[],
    body: BodyKind::Fields,
    scope: Scope::Write,
    answers: || {
        vec![
            Answer::json(StatusCode::CREATED, "It is open", Schemas::of::<SessionBody>)
                .with(&[LOCATION]),
        ]
    },
    errors: &[ErrorCode::QuotaExceeded],
    handler: |call| sessions::create(call).boxed(),
};

pub(crate) static OPEN: Operation = Operation {
    id: "openSession",
    method: Method::Put,
    route: &routes::SESSION,
    summary: "Open a session, or renew it",
    description: "A session owns locks and ends by being closed, or its ttl after its last renewal; everything it holds \
            goes with it.",
    params: OpenParams::KEYS,
    headers: &[],
    body: BodyKind::Fields,
    scope: Scope::Write,
    answers: || {
        vec![
            Answer::json(StatusCode::OK, "It was open and is renewed", Schemas::of::<SessionBody>),
            Answer::json(StatusCode::CREATED, "It is open", Schemas::of::<SessionBody>)
                .with(&[LOCATION]),
        ]
    },
    errors: &[ErrorCode::QuotaExceeded, ErrorCode::SessionExpired],
    handler: |call| sessions::open(call).boxed(),
};

pub(crate) static KEEP_ALIVE: Operation = Operation {
    id: "keepSessionAlive",
    method: Method::Post,
    route: &routes::KEEP_ALIVE,
    summary: "Renew a session without a log entry",
    description: "Answered only by a leader whose leadership a quorum has just confirmed.",
    params: KeepAliveParams::KEYS,
    headers: &[],
    body: BodyKind::Fields,
    scope: Scope::Write,
    answers: || {
        vec![
            Answer::json(StatusCode::OK, "It is renewed", Schemas::of::<SessionBody>)
                .or("application/json", Content::Json(Schemas::of::<NewsBody>)),
        ]
    },
    errors: &[ErrorCode::SessionExpired],
    handler: |call| sessions::keep_alive(call).boxed(),
};

pub(crate) static KEEP_MANY_ALIVE: Operation = Operation {
    id: "keepSessionsAlive",
    method: Method::Post,
    route: &routes::KEEP_MANY_ALIVE,
    summary: "Renew many sessions at once",
    description: "One round of confirmations stands behind all of them; each has an answer of its own.",
    params: KeepManyParams::KEYS,
    headers: &[],
    body: BodyKind::Sessions,
    scope: Scope::Write,
    answers: || {
        vec![Answer::json(StatusCode::OK, "What became of each", Schemas::of::<KeptManyBody>)]
    },
    errors: &[ErrorCode::BadName],
    handler: |call| sessions::keep_many_alive(call).boxed(),
};

pub(crate) static CLOSE: Operation = Operation {
    id: "closeSession",
    method: Method::Delete,
    route: &routes::SESSION,
    summary: "End a session and release everything it holds",
    description: "May be sent as often as wanted. On a session that expired it acknowledges the loss, so that the id can \
            be used again.",
    params: CloseParams::KEYS,
    headers: &[],
    body: BodyKind::Fields,
    scope: Scope::Write,
    answers: || vec![Answer::empty(StatusCode::NO_CONTENT, "It has ended")],
    errors: &[ErrorCode::SessionExpired],
    handler: |call| sessions::close(call).boxed(),
};

pub(crate) static READ: Operation = Operation {
    id: "readSession",
    method: Method::Get,
    route: &routes::SESSION,
    summary: "What a session holds and waits for",
    description: "",
    params: ReadParams::KEYS,
    headers: &[],
    body: BodyKind::None,
    scope: Scope::Read,
    answers: || vec![Answer::json(StatusCode::OK, "The session", Schemas::of::<SessionBody>)],
    errors: &[ErrorCode::SessionExpired],
    handler: |call| sessions::read(call).boxed(),
};

pub(crate) static LIST: Operation = Operation {
    id: "listSessions",
    method: Method::Get,
    route: &routes::SESSIONS,
    summary: "All sessions, in order of their ids",
    description: "If there are more, next_page_token is to be given back as page_token.",
    params: ListParams::SESSION_KEYS,
    headers: &[],
    body: BodyKind::None,
    scope: Scope::Read,
    answers: || {
        vec![Answer::json(StatusCode::OK, "A page of sessions", Schemas::of::<SessionsBody>)]
    },
    errors: &[],
    handler: |call| sessions::list(call).boxed(),
};
