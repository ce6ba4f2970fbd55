//! The calls on locks.

use axum::http::StatusCode;
use futures_util::FutureExt as _;
use holdfast_api::{
    AcquireParams, AskParams, AskedBody, BrokenBody, ContentionBody, ErrorCode, ExplainedBody,
    FENCING_TOKEN, FenceBody, FenceParams, GrantBody, HOLDFAST_ENTRIES_LEFT, HandedBody,
    HistoryBody, HistoryParams, ListParams, LockBody, LocksBody, PolicyBody, PolicyParams,
    ReadParams, ReleaseParams, Schemas,
};

use crate::body::BodyKind;
use crate::operation::{Answer, Content, Header, Method, Operation, Scope};
use crate::{custody, explain, fence, locks, routes};

const ACQUIRE_TOKEN: Header = Header::number(FENCING_TOKEN, "The fencing token of the grant");
pub(crate) static ACQUIRE: Operation = Operation {
    id: "acquireLock",
    method: Method::Put,
    route: &routes::LOCK,
    summary: "Take a lock, or renew it",
    description: "2xx means that you hold the lock, 423 that you do not. The same call may be sent again at any time: it \
            renews, with the same token. Accept: text/plain answers just the token. With segments the answer names the segment.",
    params: AcquireParams::KEYS,
    headers: &[],
    body: BodyKind::Fields,
    scope: Scope::Write,
    answers: || {
        vec![
            Answer::json(StatusCode::OK, "You hold the lock", Schemas::of::<GrantBody>)
                .or("text/plain", Content::Text)
                .or("text/event-stream", Content::Text)
                .with(&[ACQUIRE_TOKEN]),
        ]
    },
    errors: &[
        ErrorCode::QuotaExceeded,
        ErrorCode::EphemeralParent,
        ErrorCode::SessionExpired,
        ErrorCode::ModeConflict,
        ErrorCode::Deadlock,
        ErrorCode::InUse,
        ErrorCode::LimitMismatch,
        ErrorCode::SegmentsMismatch,
        ErrorCode::AttemptOver,
        ErrorCode::NotReentrant,
        ErrorCode::LockClosed,
        ErrorCode::LockBusy,
        ErrorCode::WaitTimeout,
        ErrorCode::TooManyWaiters,
    ],
    handler: |call| locks::acquire(call).boxed(),
};

pub(crate) static SET_POLICY: Operation = Operation {
    id: "setPolicy",
    method: Method::Patch,
    route: &routes::LOCK,
    summary: "Change the rules of a lock, while it is in use",
    description: "What is not named stays as it is. Nobody who holds is sent away. Answers the rules as they are then. A call that \
            names no rule is refused: GET shows the rules.",
    params: PolicyParams::KEYS,
    headers: &[],
    body: BodyKind::Fields,
    scope: Scope::Write,
    answers: || vec![Answer::json(StatusCode::OK, "The rules", Schemas::of::<PolicyBody>)],
    errors: &[ErrorCode::InUse, ErrorCode::QuotaExceeded, ErrorCode::EphemeralParent],
    handler: |call| locks::set_policy(call).boxed(),
};

pub(crate) static ASK_RELEASE: Operation = Operation {
    id: "askForRelease",
    method: Method::Post,
    route: &routes::LOCK,
    summary: "Ask the holders of a lock to release it",
    description: "The call requires ask=release and does not acquire the lock: PUT acquires it. A holder learns of the request \
            from a keepalive that waits for events. With revoke the hold ends at the deadline. A second request replaces \
            the first.",
    params: AskParams::KEYS,
    headers: &[],
    body: BodyKind::Fields,
    scope: Scope::Write,
    answers: || {
        vec![Answer::json(StatusCode::OK, "Who was asked is counted", Schemas::of::<AskedBody>)]
    },
    errors: &[ErrorCode::NotHolder, ErrorCode::SessionExpired, ErrorCode::NotFound],
    handler: |call| custody::ask_release(call).boxed(),
};

const RELEASE_LEFT: Header = Header::number(
    HOLDFAST_ENTRIES_LEFT,
    "If the call named an attempt: attempts that still keep the lock",
);
pub(crate) static RELEASE: Operation = Operation {
    id: "releaseLock",
    method: Method::Delete,
    route: &routes::LOCK,
    summary: "Give a lock back, leave its queue, hand the lock on, or take it from its holders",
    description: "With token or attempt a copy of the call that arrives late changes nothing; without them the call gives up whatever \
            place the owner has when it arrives. With to another session holds the lock at once, under a new token; with force \
            everybody who holds it loses it. Of a lock that is cut into segments it is the caller's segment.",
    params: ReleaseParams::KEYS,
    headers: &[],
    body: BodyKind::Fields,
    scope: Scope::Write,
    answers: || {
        vec![
            Answer::empty(StatusCode::NO_CONTENT, "The place is given up").with(&[RELEASE_LEFT]),
            Answer::json(StatusCode::OK, "The lock was handed on", Schemas::of::<HandedBody>)
                .or("application/json", Content::Json(Schemas::of::<BrokenBody>)),
        ]
    },
    errors: &[
        ErrorCode::NotFound,
        ErrorCode::NotHolder,
        ErrorCode::InUse,
        ErrorCode::Deadlock,
        ErrorCode::QuotaExceeded,
        ErrorCode::LimitMismatch,
        ErrorCode::SessionExpired,
    ],
    handler: |call| locks::release(call).boxed(),
};

pub(crate) static READ_LOCK: Operation = Operation {
    id: "readLock",
    method: Method::Get,
    route: &routes::LOCK,
    summary: "Who holds a lock and who waits for it",
    description: "A lock that nobody ever took is free, not missing. Of one that is cut every segment is listed.",
    params: ReadParams::KEYS,
    headers: &[],
    body: BodyKind::None,
    scope: Scope::Read,
    answers: || {
        vec![
            Answer::json(StatusCode::OK, "The lock", Schemas::of::<ExplainedBody>)
                .or("application/json", Content::Json(Schemas::of::<LockBody>)),
        ]
    },
    errors: &[],
    handler: |call| locks::read(call).boxed(),
};

pub(crate) static LIST_LOCKS: Operation = Operation {
    id: "listLocks",
    method: Method::Get,
    route: &routes::LOCKS,
    summary: "Many locks, in order of their names",
    description: "If there are more, next_page_token is to be given back as page_token.",
    params: ListParams::LOCK_KEYS,
    headers: &[],
    body: BodyKind::None,
    scope: Scope::Read,
    answers: || {
        vec![
            Answer::json(StatusCode::OK, "A page of locks", Schemas::of::<LocksBody>)
                .or("application/json", Content::Json(Schemas::of::<ContentionBody>)),
        ]
    },
    errors: &[],
    handler: |call| locks::list(call).boxed(),
};

pub(crate) static HISTORY: Operation = Operation {
    id: "readHistory",
    method: Method::Get,
    route: &routes::HISTORY,
    summary: "Who held a lock when, with which token, and why it ended",
    description: "As this node remembers it: complete_after says from where on nothing is missing.",
    params: HistoryParams::KEYS,
    headers: &[],
    body: BodyKind::None,
    scope: Scope::Read,
    answers: || vec![Answer::json(StatusCode::OK, "The history", Schemas::of::<HistoryBody>)],
    errors: &[],
    handler: |call| explain::history(call).boxed(),
};

pub(crate) static FENCE: Operation = Operation {
    id: "checkToken",
    method: Method::Get,
    route: &routes::FENCE,
    summary: "Is this fencing token still good?",
    description: "Advice: the check that counts is made where the write lands.",
    params: FenceParams::KEYS,
    headers: &[],
    body: BodyKind::None,
    scope: Scope::Read,
    answers: || vec![Answer::json(StatusCode::OK, "It is good", Schemas::of::<FenceBody>)],
    errors: &[ErrorCode::StaleToken],
    handler: |call| fence::check(call).boxed(),
};
