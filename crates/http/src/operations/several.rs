//! The calls on several.

use axum::http::StatusCode;
use futures_util::FutureExt as _;
use holdfast_api::{AcquireAllParams, ErrorCode, GrantAllBody, ReleaseAllParams, Schemas};

use crate::body::BodyKind;
use crate::operation::{Answer, Content, Method, Operation, Scope};
use crate::{routes, several};

pub(crate) static ACQUIRE: Operation = Operation {
    id: "acquireLocks",
    method: Method::Post,
    route: &routes::LOCKS,
    summary: "Take several locks at once, all or none",
    description: "One place in every queue, granted when it is first in all of them: such calls never wait for each other in a \
            circle, and smaller ones do not starve them. Every lock has its own token. The same call sent again renews.",
    params: AcquireAllParams::KEYS,
    headers: &[],
    body: BodyKind::Fields,
    scope: Scope::Write,
    answers: || {
        vec![
            Answer::json(StatusCode::OK, "You hold them all", Schemas::of::<GrantAllBody>)
                .or("text/plain", Content::Text),
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
        ErrorCode::NotReentrant,
        ErrorCode::LockClosed,
        ErrorCode::LockBusy,
        ErrorCode::WaitTimeout,
        ErrorCode::TooManyWaiters,
    ],
    handler: |call| several::acquire(call).boxed(),
};

pub(crate) static RELEASE: Operation = Operation {
    id: "releaseLocks",
    method: Method::Delete,
    route: &routes::LOCKS,
    summary: "Give several locks back, or leave their queues",
    description: "With attempt a copy of the call that arrives late changes nothing. Without it the call gives up whatever places the \
            owner has when it arrives.",
    params: ReleaseAllParams::KEYS,
    headers: &[],
    body: BodyKind::Fields,
    scope: Scope::Write,
    answers: || vec![Answer::empty(StatusCode::NO_CONTENT, "The places are given up")],
    errors: &[ErrorCode::NotFound, ErrorCode::NotHolder, ErrorCode::SessionExpired],
    handler: |call| several::release(call).boxed(),
};
