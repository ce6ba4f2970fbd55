//! The operations on elections.

use axum::http::StatusCode;
use holdfast_api::{
    CampaignParams, ElectedBody, ElectionBody, ErrorCode, FENCING_TOKEN, ReadParams, ResignParams,
    Schemas,
};

use super::{Answer, Content, Header, Operation, Reach};

pub(super) fn campaign() -> Operation {
    const TOKEN: Header = Header::number(FENCING_TOKEN, "The fencing token of the leadership");
    Operation {
        id: "campaign",
        summary: "Stand for an election, renew the leadership, or show another value",
        about: "2xx means that you lead, 423 that you do not. The same call sent again renews, with the same token; with \
                another value that is shown from then on, and without one it stays. Accept: text/plain answers just the \
                token.",
        keys: CampaignParams::KEYS,
        headers: &[],
        reach: Reach::Change,
        answers: vec![
            Answer::json(StatusCode::OK, "You lead", Schemas::of::<ElectedBody>)
                .or("text/plain", Content::Text)
                .with(&[TOKEN]),
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
            ErrorCode::LockClosed,
            ErrorCode::LockBusy,
            ErrorCode::WaitTimeout,
            ErrorCode::TooManyWaiters,
        ],
    }
}

pub(super) fn read() -> Operation {
    const LAST: Header = Header::text(
        "last-event-id",
        "Of a stream that is taken up again: the id of the last event seen. Only what has changed since is told",
    );
    Operation {
        id: "readElection",
        summary: "Who leads, and who stands",
        about: "An election that nobody ever stood for has no leader, and is not missing. Accept: text/plain answers just \
                the leader's value. With Accept: text/event-stream a stream that begins with who leads and goes on until one \
                side ends it: leader, vacant, gap (something was missed; who leads now follows), bookmark, reconnect.",
        keys: ReadParams::KEYS,
        headers: &[LAST],
        reach: Reach::Read,
        answers: vec![
            Answer::json(StatusCode::OK, "The election", Schemas::of::<ElectionBody>)
                .or("text/plain", Content::Text)
                .or("text/event-stream", Content::Text),
        ],
        codes: &[],
    }
}

pub(super) fn resign() -> Operation {
    Operation {
        id: "resign",
        summary: "Give the leadership up, or stand no longer",
        about: "The next candidate leads in the same step. With token or attempt a copy of the call that arrives late changes \
                nothing; without them the call gives up whatever place the owner has when it arrives.",
        keys: ResignParams::KEYS,
        headers: &[],
        reach: Reach::Change,
        answers: vec![Answer::empty(StatusCode::NO_CONTENT, "The place is given up")],
        codes: &[
            ErrorCode::NotFound,
            ErrorCode::NotHolder,
            ErrorCode::LimitMismatch,
            ErrorCode::SessionExpired,
        ],
    }
}
