//! The operations on sessions.

use axum::http::StatusCode;
use holdfast_api::{
    CloseParams, ErrorCode, KeepAliveParams, KeepManyParams, KeptManyBody, ListParams, NewsBody,
    OpenParams, ReadParams, Schemas, SessionBody, SessionsBody,
};

use super::{Answer, Content, Header, Operation, Reach};

const LOCATION: Header = Header::text("location", "Where the session is");

pub(super) fn create() -> Operation {
    Operation {
        id: "createSession",
        summary: "Open a session under an id made by the server",
        about: "",
        keys: OpenParams::KEYS,
        headers: &[],
        reach: Reach::Change,
        answers: vec![
            Answer::json(StatusCode::CREATED, "It is open", Schemas::of::<SessionBody>)
                .with(&[LOCATION]),
        ],
        codes: &[ErrorCode::QuotaExceeded],
    }
}

pub(super) fn open() -> Operation {
    Operation {
        id: "openSession",
        summary: "Open a session, or renew it",
        about: "A session owns locks and ends by being closed, or its ttl after its last renewal; everything it holds \
                goes with it.",
        keys: OpenParams::KEYS,
        headers: &[],
        reach: Reach::Change,
        answers: vec![
            Answer::json(StatusCode::OK, "It was open and is renewed", Schemas::of::<SessionBody>),
            Answer::json(StatusCode::CREATED, "It is open", Schemas::of::<SessionBody>)
                .with(&[LOCATION]),
        ],
        codes: &[ErrorCode::QuotaExceeded, ErrorCode::SessionExpired],
    }
}

pub(super) fn keep_alive() -> Operation {
    Operation {
        id: "keepSessionAlive",
        summary: "Renew a session without a log entry",
        about: "Answered only by a leader whose leadership a quorum has just confirmed.",
        keys: KeepAliveParams::KEYS,
        headers: &[],
        reach: Reach::Change,
        answers: vec![
            Answer::json(StatusCode::OK, "It is renewed", Schemas::of::<SessionBody>)
                .or("application/json", Content::Json(Schemas::of::<NewsBody>)),
        ],
        codes: &[ErrorCode::SessionExpired],
    }
}

pub(super) fn keep_many_alive() -> Operation {
    Operation {
        id: "keepSessionsAlive",
        summary: "Renew many sessions at once",
        about: "One round of confirmations stands behind all of them; each has an answer of its own.",
        keys: KeepManyParams::KEYS,
        headers: &[],
        reach: Reach::Change,
        answers: vec![Answer::json(
            StatusCode::OK,
            "What became of each",
            Schemas::of::<KeptManyBody>,
        )],
        codes: &[ErrorCode::BadName],
    }
}

pub(super) fn close() -> Operation {
    Operation {
        id: "closeSession",
        summary: "End a session and release everything it holds",
        about: "May be sent as often as wanted. On a session that expired it acknowledges the loss, so that the id can \
                be used again.",
        keys: CloseParams::KEYS,
        headers: &[],
        reach: Reach::Change,
        answers: vec![Answer::empty(StatusCode::NO_CONTENT, "It has ended")],
        codes: &[ErrorCode::SessionExpired],
    }
}

pub(super) fn read() -> Operation {
    Operation {
        id: "readSession",
        summary: "What a session holds and waits for",
        about: "",
        keys: ReadParams::KEYS,
        headers: &[],
        reach: Reach::Read,
        answers: vec![Answer::json(StatusCode::OK, "The session", Schemas::of::<SessionBody>)],
        codes: &[ErrorCode::SessionExpired],
    }
}

pub(super) fn list() -> Operation {
    Operation {
        id: "listSessions",
        summary: "All sessions, in order of their ids",
        about: "If there are more, next_page_token is to be given back as page_token.",
        keys: ListParams::SESSION_KEYS,
        headers: &[],
        reach: Reach::Read,
        answers: vec![Answer::json(
            StatusCode::OK,
            "A page of sessions",
            Schemas::of::<SessionsBody>,
        )],
        codes: &[],
    }
}
