//! The operations on latches, barriers, double barriers and counters.

use axum::http::StatusCode;
use holdfast_api::{
    ArriveParams, CountDownBody, CountDownParams, CounterBody, CounterParams, ErrorCode, GateBody,
    LatchBody, LatchParams, LeaveParams, LeftBody, PassedBody, ReadParams, Schemas, WaitParams,
};

use super::{Answer, Content, Header, Operation, Reach};

const VERSION: Header = Header::text("etag", "The counter's version");

pub(super) fn make_latch() -> Operation {
    Operation {
        id: "makeLatch",
        summary: "Make a latch",
        about: "It opens when it has been counted down so often, and stays open.",
        keys: LatchParams::KEYS,
        headers: &[],
        reach: Reach::Change,
        answers: vec![
            Answer::json(StatusCode::CREATED, "It is made", Schemas::of::<LatchBody>),
            Answer::json(
                StatusCode::OK,
                "There is one with the same count",
                Schemas::of::<LatchBody>,
            ),
        ],
        codes: &[ErrorCode::QuotaExceeded, ErrorCode::CountMismatch],
    }
}

pub(super) fn count_down() -> Operation {
    Operation {
        id: "countDown",
        summary: "Count a latch down",
        about: "Each key counts once: the same call gets the same answer.",
        keys: CountDownParams::KEYS,
        headers: &[],
        reach: Reach::Change,
        answers: vec![Answer::json(
            StatusCode::OK,
            "It is counted, now or before",
            Schemas::of::<CountDownBody>,
        )],
        codes: &[ErrorCode::NotFound, ErrorCode::SessionExpired, ErrorCode::QuotaExceeded],
    }
}

pub(super) fn await_latch() -> Operation {
    Operation {
        id: "awaitLatch",
        summary: "Wait for a latch to open",
        about: "200 when it is open, 423 when the wait ends before.",
        keys: WaitParams::KEYS,
        headers: &[],
        reach: Reach::Read,
        answers: vec![Answer::json(StatusCode::OK, "It is open", Schemas::of::<LatchBody>)],
        codes: &[ErrorCode::NotFound, ErrorCode::NotYet, ErrorCode::TooManyWaiters],
    }
}

pub(super) fn delete_latch() -> Operation {
    Operation {
        id: "deleteLatch",
        summary: "Delete a latch",
        about: "",
        keys: LatchParams::DELETE_KEYS,
        headers: &[],
        reach: Reach::Change,
        answers: vec![Answer::empty(StatusCode::NO_CONTENT, "It is gone")],
        codes: &[],
    }
}

pub(super) fn arrive() -> Operation {
    Operation {
        id: "arriveAtBarrier",
        summary: "Arrive at a barrier and wait for the others",
        about: "The last arrival lets all pass in one step. A member that leaves, or whose session or wait ends, breaks it for those who wait.",
        keys: ArriveParams::KEYS,
        headers: &[],
        reach: Reach::Change,
        answers: vec![Answer::json(StatusCode::OK, "All have arrived", Schemas::of::<PassedBody>)],
        codes: &[
            ErrorCode::NotYet,
            ErrorCode::SessionExpired,
            ErrorCode::QuotaExceeded,
            ErrorCode::TooManyWaiters,
            ErrorCode::CountMismatch,
            ErrorCode::BarrierBroken,
        ],
    }
}

pub(super) fn read_barrier() -> Operation {
    Operation {
        id: "readBarrier",
        summary: "Who has arrived at a barrier",
        about: "",
        keys: ReadParams::KEYS,
        headers: &[],
        reach: Reach::Read,
        answers: vec![Answer::json(StatusCode::OK, "The barrier", Schemas::of::<GateBody>)],
        codes: &[],
    }
}

pub(super) fn leave() -> Operation {
    Operation {
        id: "leaveBarrier",
        summary: "Leave a barrier",
        about: "",
        keys: LeaveParams::KEYS,
        headers: &[],
        reach: Reach::Change,
        answers: vec![Answer::empty(StatusCode::NO_CONTENT, "It is left")],
        codes: &[ErrorCode::NotFound, ErrorCode::SessionExpired],
    }
}

pub(super) fn enter() -> Operation {
    Operation {
        id: "enterDoubleBarrier",
        summary: "Enter a double barrier together",
        about: "",
        keys: ArriveParams::KEYS,
        headers: &[],
        reach: Reach::Change,
        answers: vec![Answer::json(StatusCode::OK, "All are inside", Schemas::of::<PassedBody>)],
        codes: &[
            ErrorCode::NotYet,
            ErrorCode::SessionExpired,
            ErrorCode::QuotaExceeded,
            ErrorCode::TooManyWaiters,
            ErrorCode::CountMismatch,
        ],
    }
}

pub(super) fn read_double_barrier() -> Operation {
    Operation {
        id: "readDoubleBarrier",
        summary: "Who is at a double barrier, and who inside",
        about: "",
        keys: ReadParams::KEYS,
        headers: &[],
        reach: Reach::Read,
        answers: vec![Answer::json(StatusCode::OK, "The double barrier", Schemas::of::<GateBody>)],
        codes: &[],
    }
}

pub(super) fn leave_double_barrier() -> Operation {
    Operation {
        id: "leaveDoubleBarrier",
        summary: "Leave a double barrier together",
        about: "200 when everybody is out.",
        keys: LeaveParams::KEYS,
        headers: &[],
        reach: Reach::Change,
        answers: vec![Answer::json(StatusCode::OK, "Everybody is out", Schemas::of::<LeftBody>)],
        codes: &[
            ErrorCode::NotFound,
            ErrorCode::NotYet,
            ErrorCode::SessionExpired,
            ErrorCode::TooManyWaiters,
        ],
    }
}

pub(super) fn read_counter() -> Operation {
    Operation {
        id: "readCounter",
        summary: "The value of a counter",
        about: "One that nobody changed is 0. Accept: text/plain answers just the value.",
        keys: ReadParams::KEYS,
        headers: &[],
        reach: Reach::Read,
        answers: vec![
            Answer::json(StatusCode::OK, "The counter", Schemas::of::<CounterBody>)
                .or("text/plain", Content::Text)
                .with(&[VERSION]),
        ],
        codes: &[],
    }
}

pub(super) fn add_to_counter() -> Operation {
    Operation {
        id: "addToCounter",
        summary: "Add to a counter",
        about: "",
        keys: CounterParams::ADD_KEYS,
        headers: &[],
        reach: Reach::Change,
        answers: vec![
            Answer::json(StatusCode::OK, "The counter", Schemas::of::<CounterBody>)
                .or("text/plain", Content::Text)
                .with(&[VERSION]),
        ],
        codes: &[
            ErrorCode::NotFound,
            ErrorCode::SessionExpired,
            ErrorCode::QuotaExceeded,
            ErrorCode::CounterOverflow,
        ],
    }
}

pub(super) fn set_counter() -> Operation {
    Operation {
        id: "setCounter",
        summary: "Set a counter",
        about: "If-Match sets it only at that version.",
        keys: CounterParams::SET_KEYS,
        headers: &[],
        reach: Reach::Change,
        answers: vec![
            Answer::json(StatusCode::OK, "The counter", Schemas::of::<CounterBody>)
                .or("text/plain", Content::Text)
                .with(&[VERSION]),
        ],
        codes: &[
            ErrorCode::NotFound,
            ErrorCode::SessionExpired,
            ErrorCode::QuotaExceeded,
            ErrorCode::CounterOverflow,
            ErrorCode::VersionMismatch,
        ],
    }
}

pub(super) fn delete_counter() -> Operation {
    Operation {
        id: "deleteCounter",
        summary: "Delete a counter",
        about: "",
        keys: CounterParams::DELETE_KEYS,
        headers: &[],
        reach: Reach::Change,
        answers: vec![Answer::empty(StatusCode::NO_CONTENT, "It is gone")],
        codes: &[ErrorCode::NotFound, ErrorCode::SessionExpired],
    }
}
