//! The calls on elections.

use axum::http::StatusCode;
use futures_util::FutureExt as _;
use holdfast_api::{
    CampaignParams, ElectedBody, ElectionBody, ErrorCode, FENCING_TOKEN, ReadParams, ResignParams,
    Schemas,
};

use crate::body::BodyKind;
use crate::operation::{Answer, Content, Header, Method, Operation, Scope};
use crate::{elections, routes};

const CAMPAIGN_TOKEN: Header = Header::number(FENCING_TOKEN, "The fencing token of the leadership");
pub(crate) static CAMPAIGN: Operation = Operation {
    id: "campaign",
    method: Method::Put,
    route: &routes::ELECTION,
    summary: "Stand for an election, renew the leadership, or show another value",
    description: "2xx means that you lead, 423 that you do not. The same call sent again renews, with the same token; with \
            another value that is shown from then on, and without one it stays. Accept: text/plain answers just the \
            token.",
    params: CampaignParams::KEYS,
    headers: &[],
    body: BodyKind::Value,
    scope: Scope::Write,
    answers: || {
        vec![
            Answer::json(StatusCode::OK, "You lead", Schemas::of::<ElectedBody>)
                .or("text/plain", Content::Text)
                .with(&[CAMPAIGN_TOKEN]),
        ]
    },
    errors: &[
        ErrorCode::QuotaExceeded,
        ErrorCode::EphemeralParent,
        ErrorCode::SessionExpired,
        ErrorCode::AttemptOver,
        ErrorCode::ModeConflict,
        ErrorCode::Deadlock,
        ErrorCode::InUse,
        ErrorCode::LimitMismatch,
        ErrorCode::SegmentsMismatch,
        ErrorCode::LockClosed,
        ErrorCode::LockBusy,
        ErrorCode::WaitTimeout,
        ErrorCode::TooManyWaiters,
    ],
    handler: |call| elections::campaign(call).boxed(),
};

const READ_LAST: Header = Header::text(
    "last-event-id",
    "Of a stream that is taken up again: the id of the last event seen. Only what has changed since is told",
);
pub(crate) static READ: Operation = Operation {
    id: "readElection",
    method: Method::Get,
    route: &routes::ELECTION,
    summary: "Who leads, and who stands",
    description: "An election that nobody ever stood for has no leader, and is not missing. Accept: text/plain answers just \
            the leader's value. With Accept: text/event-stream a stream that begins with who leads and goes on until one \
            side ends it: leader, vacant, gap (something was missed; who leads now follows), bookmark, reconnect.",
    params: ReadParams::KEYS,
    headers: &[READ_LAST],
    body: BodyKind::None,
    scope: Scope::Read,
    answers: || {
        vec![
            Answer::json(StatusCode::OK, "The election", Schemas::of::<ElectionBody>)
                .or("text/plain", Content::Text)
                .or("text/event-stream", Content::Text),
        ]
    },
    errors: &[],
    handler: |call| elections::read(call).boxed(),
};

pub(crate) static RESIGN: Operation = Operation {
    id: "resign",
    method: Method::Delete,
    route: &routes::ELECTION,
    summary: "Give the leadership up, or stand no longer",
    description: "The next candidate leads in the same step. With token or attempt a copy of the call that arrives late changes \
            nothing; without them the call gives up whatever place the owner has when it arrives.",
    params: ResignParams::KEYS,
    headers: &[],
    body: BodyKind::Fields,
    scope: Scope::Write,
    answers: || vec![Answer::empty(StatusCode::NO_CONTENT, "The place is given up")],
    errors: &[
        ErrorCode::NotFound,
        ErrorCode::NotHolder,
        ErrorCode::LimitMismatch,
        ErrorCode::SessionExpired,
    ],
    handler: |call| elections::resign(call).boxed(),
};
