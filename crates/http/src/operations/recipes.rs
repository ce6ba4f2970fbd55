//! The calls on recipes.

use axum::http::StatusCode;
use futures_util::FutureExt as _;
use holdfast_api::{
    ArriveParams, CountDownBody, CountDownParams, CounterBody, CounterParams, ErrorCode, GateBody,
    LatchBody, LatchParams, LeaveParams, LeftBody, PassedBody, ReadParams, Schemas, WaitParams,
};
use holdfast_types::Gate;

use crate::body::BodyKind;
use crate::operation::{Answer, Content, Header, Method, Operation, Scope};
use crate::{recipes, routes};

const VERSION: Header = Header::text("etag", "The counter's version");

pub(crate) static MAKE_LATCH: Operation = Operation {
    id: "makeLatch",
    method: Method::Put,
    route: &routes::LATCH,
    summary: "Make a latch",
    description: "It opens when it has been counted down so often, and stays open.",
    params: LatchParams::KEYS,
    headers: &[],
    body: BodyKind::Fields,
    scope: Scope::Write,
    answers: || {
        vec![
            Answer::json(StatusCode::CREATED, "It is made", Schemas::of::<LatchBody>),
            Answer::json(
                StatusCode::OK,
                "There is one with the same count",
                Schemas::of::<LatchBody>,
            ),
        ]
    },
    errors: &[ErrorCode::QuotaExceeded, ErrorCode::CountMismatch],
    handler: |call| recipes::make_latch(call).boxed(),
};

pub(crate) static COUNT_DOWN: Operation = Operation {
    id: "countDown",
    method: Method::Post,
    route: &routes::LATCH,
    summary: "Count a latch down",
    description: "Each key counts once: the same call gets the same answer.",
    params: CountDownParams::KEYS,
    headers: &[],
    body: BodyKind::Fields,
    scope: Scope::Write,
    answers: || {
        vec![Answer::json(
            StatusCode::OK,
            "It is counted, now or before",
            Schemas::of::<CountDownBody>,
        )]
    },
    errors: &[ErrorCode::NotFound, ErrorCode::SessionExpired, ErrorCode::QuotaExceeded],
    handler: |call| recipes::count_down(call).boxed(),
};

pub(crate) static AWAIT_LATCH: Operation = Operation {
    id: "awaitLatch",
    method: Method::Get,
    route: &routes::LATCH,
    summary: "Wait for a latch to open",
    description: "200 when it is open, 423 when the wait ends before.",
    params: WaitParams::KEYS,
    headers: &[],
    body: BodyKind::None,
    scope: Scope::Read,
    answers: || vec![Answer::json(StatusCode::OK, "It is open", Schemas::of::<LatchBody>)],
    errors: &[ErrorCode::NotFound, ErrorCode::NotYet, ErrorCode::TooManyWaiters],
    handler: |call| recipes::await_latch(call).boxed(),
};

pub(crate) static DELETE_LATCH: Operation = Operation {
    id: "deleteLatch",
    method: Method::Delete,
    route: &routes::LATCH,
    summary: "Delete a latch",
    description: "",
    params: LatchParams::DELETE_KEYS,
    headers: &[],
    body: BodyKind::Fields,
    scope: Scope::Write,
    answers: || vec![Answer::empty(StatusCode::NO_CONTENT, "It is gone")],
    errors: &[],
    handler: |call| recipes::delete_latch(call).boxed(),
};

pub(crate) static ARRIVE: Operation = Operation {
    id: "arriveAtBarrier",
    method: Method::Post,
    route: &routes::BARRIER,
    summary: "Arrive at a barrier and wait for the others",
    description: "The last arrival lets all pass in one step. A member that leaves, or whose session or wait ends, breaks it for those who wait.",
    params: ArriveParams::KEYS,
    headers: &[],
    body: BodyKind::Fields,
    scope: Scope::Write,
    answers: || vec![Answer::json(StatusCode::OK, "All have arrived", Schemas::of::<PassedBody>)],
    errors: &[
        ErrorCode::NotYet,
        ErrorCode::SessionExpired,
        ErrorCode::QuotaExceeded,
        ErrorCode::TooManyWaiters,
        ErrorCode::CountMismatch,
        ErrorCode::BarrierBroken,
    ],
    handler: |call| recipes::arrive(call, Gate::Barrier).boxed(),
};

pub(crate) static READ_BARRIER: Operation = Operation {
    id: "readBarrier",
    method: Method::Get,
    route: &routes::BARRIER,
    summary: "Who has arrived at a barrier",
    description: "",
    params: ReadParams::KEYS,
    headers: &[],
    body: BodyKind::None,
    scope: Scope::Read,
    answers: || vec![Answer::json(StatusCode::OK, "The barrier", Schemas::of::<GateBody>)],
    errors: &[],
    handler: |call| recipes::read_gate(call, Gate::Barrier).boxed(),
};

pub(crate) static LEAVE: Operation = Operation {
    id: "leaveBarrier",
    method: Method::Delete,
    route: &routes::BARRIER,
    summary: "Leave a barrier",
    description: "",
    params: LeaveParams::KEYS,
    headers: &[],
    body: BodyKind::Fields,
    scope: Scope::Write,
    answers: || vec![Answer::empty(StatusCode::NO_CONTENT, "It is left")],
    errors: &[ErrorCode::NotFound, ErrorCode::SessionExpired],
    handler: |call| recipes::leave(call, Gate::Barrier).boxed(),
};

pub(crate) static ENTER: Operation = Operation {
    id: "enterDoubleBarrier",
    method: Method::Put,
    route: &routes::DOUBLE_BARRIER,
    summary: "Enter a double barrier together",
    description: "",
    params: ArriveParams::KEYS,
    headers: &[],
    body: BodyKind::Fields,
    scope: Scope::Write,
    answers: || vec![Answer::json(StatusCode::OK, "All are inside", Schemas::of::<PassedBody>)],
    errors: &[
        ErrorCode::NotYet,
        ErrorCode::SessionExpired,
        ErrorCode::QuotaExceeded,
        ErrorCode::TooManyWaiters,
        ErrorCode::CountMismatch,
    ],
    handler: |call| recipes::arrive(call, Gate::Double).boxed(),
};

pub(crate) static READ_DOUBLE_BARRIER: Operation = Operation {
    id: "readDoubleBarrier",
    method: Method::Get,
    route: &routes::DOUBLE_BARRIER,
    summary: "Who is at a double barrier, and who inside",
    description: "",
    params: ReadParams::KEYS,
    headers: &[],
    body: BodyKind::None,
    scope: Scope::Read,
    answers: || vec![Answer::json(StatusCode::OK, "The double barrier", Schemas::of::<GateBody>)],
    errors: &[],
    handler: |call| recipes::read_gate(call, Gate::Double).boxed(),
};

pub(crate) static LEAVE_DOUBLE_BARRIER: Operation = Operation {
    id: "leaveDoubleBarrier",
    method: Method::Delete,
    route: &routes::DOUBLE_BARRIER,
    summary: "Leave a double barrier together",
    description: "200 when everybody is out.",
    params: LeaveParams::KEYS,
    headers: &[],
    body: BodyKind::Fields,
    scope: Scope::Write,
    answers: || vec![Answer::json(StatusCode::OK, "Everybody is out", Schemas::of::<LeftBody>)],
    errors: &[
        ErrorCode::NotFound,
        ErrorCode::NotYet,
        ErrorCode::SessionExpired,
        ErrorCode::TooManyWaiters,
    ],
    handler: |call| recipes::leave(call, Gate::Double).boxed(),
};

pub(crate) static READ_COUNTER: Operation = Operation {
    id: "readCounter",
    method: Method::Get,
    route: &routes::COUNTER,
    summary: "The value of a counter",
    description: "One that nobody changed is 0. Accept: text/plain answers just the value.",
    params: ReadParams::KEYS,
    headers: &[],
    body: BodyKind::None,
    scope: Scope::Read,
    answers: || {
        vec![
            Answer::json(StatusCode::OK, "The counter", Schemas::of::<CounterBody>)
                .or("text/plain", Content::Text)
                .with(&[VERSION]),
        ]
    },
    errors: &[],
    handler: |call| recipes::read_counter(call).boxed(),
};

pub(crate) static ADD_TO_COUNTER: Operation = Operation {
    id: "addToCounter",
    method: Method::Post,
    route: &routes::COUNTER,
    summary: "Add to a counter",
    description: "",
    params: CounterParams::ADD_KEYS,
    headers: &[],
    body: BodyKind::Fields,
    scope: Scope::Write,
    answers: || {
        vec![
            Answer::json(StatusCode::OK, "The counter", Schemas::of::<CounterBody>)
                .or("text/plain", Content::Text)
                .with(&[VERSION]),
        ]
    },
    errors: &[
        ErrorCode::NotFound,
        ErrorCode::SessionExpired,
        ErrorCode::QuotaExceeded,
        ErrorCode::CounterOverflow,
    ],
    handler: |call| recipes::change_counter(call, Some("add")).boxed(),
};

pub(crate) static SET_COUNTER: Operation = Operation {
    id: "setCounter",
    method: Method::Put,
    route: &routes::COUNTER,
    summary: "Set a counter",
    description: "If-Match sets it only at that version.",
    params: CounterParams::SET_KEYS,
    headers: &[],
    body: BodyKind::Fields,
    scope: Scope::Write,
    answers: || {
        vec![
            Answer::json(StatusCode::OK, "The counter", Schemas::of::<CounterBody>)
                .or("text/plain", Content::Text)
                .with(&[VERSION]),
        ]
    },
    errors: &[
        ErrorCode::NotFound,
        ErrorCode::SessionExpired,
        ErrorCode::QuotaExceeded,
        ErrorCode::CounterOverflow,
        ErrorCode::VersionMismatch,
    ],
    handler: |call| recipes::change_counter(call, Some("value")).boxed(),
};

pub(crate) static DELETE_COUNTER: Operation = Operation {
    id: "deleteCounter",
    method: Method::Delete,
    route: &routes::COUNTER,
    summary: "Delete a counter",
    description: "",
    params: CounterParams::DELETE_KEYS,
    headers: &[],
    body: BodyKind::Fields,
    scope: Scope::Write,
    answers: || vec![Answer::empty(StatusCode::NO_CONTENT, "It is gone")],
    errors: &[ErrorCode::NotFound, ErrorCode::SessionExpired],
    handler: |call| recipes::change_counter(call, None).boxed(),
};
