//! What the parameters of latches, barriers and counters mean, in words. Each `ParamList` lists them beside the names it takes.

use std::time::Duration;

use holdfast_types::{Owner, Recipe, RequestId, SessionName};

use crate::WAIT_MAX;
use crate::param::{Absent, Form, Param};

pub(super) const COUNT: Param =
    Param::number("count", (1, Recipe::COUNT_MAX as u64), "How often it has to be counted down")
        .needed("3");
pub(super) const KEY: Param = Param::name(
    "key",
    RequestId::MAX_LEN,
    "What is counted, each key once; without it the request id names it, and one of the two is needed",
);
pub(super) const KEY_TOO: Param = Param::name(
    "request",
    RequestId::MAX_LEN,
    "Stands for the key if there is none; the header Idempotency-Key says the same",
);
pub(super) const DYING: Param =
    Param::name("session", SessionName::MAX_LEN, "Whose end counts; an open session");
pub(super) const ON_DEATH: Param = Param::word(
    "on_death",
    &["count"],
    "Count when the session ends, instead of now. Needs session",
);
pub(super) const WAIT: Param = Param::duration(
    "wait",
    (Duration::ZERO, WAIT_MAX),
    "How long to wait; to wait longer, send the call again",
)
.absent(Absent::Duration(Duration::ZERO));
pub(super) const PARTIES: Param =
    Param::number("parties", (1, Recipe::PARTIES_MAX as u64), "How many pass together").needed("2");
pub(super) const MEMBER: Param = Param::name(
    "session",
    SessionName::MAX_LEN,
    "Whose place it is; opened by an arrival if it is new",
)
.needed("me");
pub(super) const OWNER: Param = Param::name(
    "owner",
    Owner::MAX_LEN,
    "Who within the session: two owners of one session are two members",
);
pub(super) const ARRIVAL: Param = Param::name(
    "request",
    RequestId::MAX_LEN,
    "Names the attempt: a retry under the same id gets the first final answer; the header Idempotency-Key says the same",
);
pub(super) const ADD: Param =
    Param::of("add", Form::Whole, "How much to add; may be negative").needed("5");
pub(super) const VALUE: Param = Param::of("value", Form::Whole, "The new value").needed("7");
pub(super) const VERSION: Param = Param::of(
    "version",
    Form::Whole,
    "Only if the counter has this version, 0 if nobody changed it; the same as If-Match",
);
