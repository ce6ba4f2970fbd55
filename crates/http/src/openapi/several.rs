//! The operations on several locks at once.

use axum::http::StatusCode;
use holdfast_api::{AcquireAllParams, ErrorCode, GrantAllBody, ReleaseAllParams, Schemas};

use super::{Answer, Content, Operation, Reach};

pub(super) fn acquire() -> Operation {
    Operation {
        id: "acquireLocks",
        summary: "Take several locks at once, all or none",
        about: "One place in every queue, granted when it is first in all of them: such calls never wait for each other in a \
                circle, and smaller ones do not starve them. Every lock has its own token. The same call sent again renews.",
        keys: AcquireAllParams::KEYS,
        headers: &[],
        reach: Reach::Change,
        answers: vec![
            Answer::json(StatusCode::OK, "You hold them all", Schemas::of::<GrantAllBody>)
                .or("text/plain", Content::Text),
        ],
        codes: &[
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
    }
}

pub(super) fn release() -> Operation {
    Operation {
        id: "releaseLocks",
        summary: "Give several locks back, or leave their queues",
        about: "With attempt a copy of the call that arrives late changes nothing. Without it the call gives up whatever places the \
                owner has when it arrives.",
        keys: ReleaseAllParams::KEYS,
        headers: &[],
        reach: Reach::Change,
        answers: vec![Answer::empty(StatusCode::NO_CONTENT, "The places are given up")],
        codes: &[ErrorCode::NotFound, ErrorCode::NotHolder, ErrorCode::SessionExpired],
    }
}
